"""Computes what an assignor would do to a group: all figures that ``cohort simulate`` prints.

>>> from sparkcohort.assignors import ASSIGNORS
>>> from sparkcohort.cli.simulate.case import parse
>>> case = parse('''{"topics": {"t0": 3, "t1": 3}, "members": {
...   "C0": {"topics": ["t0", "t1"], "owned": [["t0", 0], ["t0", 2], ["t1", 1]], "generation": 1},
...   "C1": {"topics": ["t0", "t1"], "owned": [["t0", 1], ["t1", 0], ["t1", 2]], "generation": 1},
...   "C2": {"topics": ["t0", "t1"]}}}''')
>>> outcome = simulate(case, case, ASSIGNORS["cooperative-sticky"])
>>> outcome.assignment["C2"], outcome.transferring, outcome.settled["C2"]
((), (('t0', 2), ('t1', 2)), (('t0', 2), ('t1', 2)))
>>> outcome.moved, outcome.fewest_moves, outcome.spread_before, outcome.spread, outcome.rounds
(2, 2, 3, 0, 2)
>>> outcome.paused_cooperative
{1: (('t0', 2), ('t1', 2))}

**One answer, and where it ends.**  ``assignment`` is the assignor's answer to this input, in one call.  A cooperative
assignor withholds partitions that another member has to revoke first (``transferring``), so the group takes further
rounds.  ``settled`` is the assignment after the last one.  An eager assignor's answer is final.

**Moved** are partitions whose owner stays, still wants them, and does not have them once settled.  **Placed** are those
that get an owner and had none: new ones, and those of members that left.  **The fewest moves** are the least number of
partitions that have to leave such an owner for an assignment that is complete and balanced (the sum of the squares of
the loads is the least that the subscriptions allow; see ``assignors.sticky``), without regard to racks and loads.  No
assignor that balances counts can move fewer.

**A pause** is a round in which a subscribed partition has no owner.  Under the eager protocol every member revokes
everything before each round.  Under the cooperative one an owner revokes at the end of a round, so a partition that
moves pauses in the next one.  A partition without owner pauses in the first.  Cohort's leader follows the cooperative
protocol with every assignor (see ``leader``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sparkcohort.assignors import Assignor, MemberSubscription, Partition
from sparkcohort.assignors import load_weights as weights
from sparkcohort.assignors.api import Assignment
from sparkcohort.assignors.load_balanced import LoadBalancedAssignor
from sparkcohort.assignors.solver.ownership import resolve_ownership
from sparkcohort.assignors.sticky import balance_partitions
from sparkcohort.cli.simulate.case import Case
from sparkcohort.cli.simulate.owned_partitions import OwnedPartitions
from sparkcohort.runtime.leader import assignment as leader
from sparkcohort.runtime.leader.assignment import InvalidAssignment
from sparkcohort.runtime.leader.imbalance import Balance

MOST_ROUNDS: Final = 10
"""A group that still revokes after so many cooperative rounds does not settle; Kafka's own assignors need four at most."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one assignor does; the module defines the terms.

    ``owned`` partitions have an owner that stays and wants them.  ``rounds`` are those of the assignor's own protocol;
    ``settles`` is False if ``MOST_ROUNDS`` were not enough.  ``spread`` is max - min of the subscribers' partitions.
    ``rack_mismatches`` counts partitions whose owner's rack has no replica; None: no racks are known.  ``busiest`` is the
    highest load of a member (records per second) over the mean; None: no load is known.
    ``paused_cooperative`` has the partitions by the number of rounds for which they pause; under the eager protocol
    ``paused_eager`` partitions, all subscribed ones, pause for one.
    """

    assignor: str
    cooperative: bool
    assignment: Assignment
    transferring: tuple[Partition, ...]
    owned_before: Assignment
    settled: Assignment
    rounds: int
    settles: bool
    owned: int
    moved: int
    placed: int
    fewest_moves: int
    spread_before: int
    spread: int
    rack_mismatches_before: int | None
    rack_mismatches: int | None
    busiest_before: float | None
    busiest: float | None
    paused_eager: int
    rounds_cooperative: int
    paused_cooperative: Mapping[int, tuple[Partition, ...]]

    def figures(self) -> dict[str, Any]:
        """The figures by which assignors are compared, in plain values."""
        counts = {str(rounds): len(partitions) for rounds, partitions in sorted(self.paused_cooperative.items())}
        return {
            **{name: getattr(self, name) for name in FIGURES},
            "transferring": len(self.transferring),
            "pauses": {
                "eager": {"rounds": 1, "paused": {"1": self.paused_eager} if self.paused_eager else {}},
                "cooperative": {"rounds": self.rounds_cooperative, "paused": counts},
            },
        }


FIGURES: Final = (
    *("assignor", "cooperative", "owned", "moved", "placed", "fewest_moves", "rounds", "settles"),
    *("spread_before", "spread", "rack_mismatches_before", "rack_mismatches", "busiest_before", "busiest"),
)


def simulate(base: Case, case: Case, assignor: Assignor) -> Outcome:
    """What the assignor does to ``case``, which is ``base`` after its changes.

    Raises InvalidAssignment: the assignor breaks its contract, or raises.
    """
    claims, loads = OwnedPartitions(case.topics, case.members), observed_rates(base)
    owned = OwnedPartitions(base.topics, base.members).owned
    owned_before = {member: tuple(sorted(owned[member])) for member in sorted(owned)}
    rounds = _RebalanceRounds(assignor, case, claims)
    settled = rounds.assignment if assignor.cooperative else rounds.first
    gained = {member: len(set(partitions) - claims.owned[member]) for member, partitions in settled.items()}
    move_count = sum(len(partitions.difference(settled[member])) for member, partitions in claims.owned.items())
    return Outcome(
        assignor=assignor.name,
        cooperative=assignor.cooperative,
        assignment=rounds.first,
        transferring=tuple(unowned(case, rounds.first)),
        owned_before=owned_before,
        settled=settled,
        rounds=rounds.number if assignor.cooperative else 1,
        settles=rounds.settles or not assignor.cooperative,
        owned=sum(map(len, claims.owned.values())),
        moved=move_count,
        placed=sum(gained.values()) - move_count,
        fewest_moves=_fewest(case, claims.owned),
        spread_before=spread(base, owned_before),
        spread=spread(case, settled),
        rack_mismatches_before=rack_mismatches(base, owned_before),
        rack_mismatches=rack_mismatches(case, settled),
        busiest_before=busiest(base, loads, owned_before),
        busiest=busiest(case, loads, settled),
        paused_eager=sum(subscribed_partitions(case).values()),
        rounds_cooperative=rounds.number,
        paused_cooperative=rounds.paused(),
    )


def _answer(assignor: Assignor, case: Case) -> Assignment:
    """One call of the assignor, checked as by the group's leader.  Raises InvalidAssignment, which names it."""
    try:
        assignment, _ = leader.run_assignor(assignor, assignor.name, case.topics, case.members, case.racks)
    except (Exception, SystemExit) as error:
        raise InvalidAssignment(leader.failure_message(assignor.name, error)) from error
    return dict(assignment)


# --- cooperative rounds ----------------------------------------------------------------------------------


class _RebalanceRounds:
    """Rounds of the cooperative protocol, as under the group's leader, until no member has to revoke anything.

    ``first`` is the first answer, ``assignment`` the last one's part that is in force.  Only load-balanced gets loads, and moves
    nothing for them: that takes an imbalance that lasts.
    """

    def __init__(self, assignor: Assignor, case: Case, claims: OwnedPartitions) -> None:
        self._balance = None
        if isinstance(assignor, LoadBalancedAssignor):
            ownership = resolve_ownership(case.topics, case.members)
            self._balance = Balance(assignor, weights.observed_loads(case.topics, case.members, ownership))
            assignor = replace(assignor, max_moves=0)
        self._case = replace(case, members=self._loaded(case.members))
        self._claims = claims
        self._generation = max((subscription.generation for subscription in case.members.values()), default=0)
        self._pauses = dict.fromkeys(unowned(case, claims.owned), 1)
        self.first = answer = _answer(assignor, self._case)
        for self.number in range(1, MOST_ROUNDS + 1):
            self.assignment = self._claims.adjust_assignment(answer)
            self.settles = not _revokes(self._case, self.assignment)
            if self.settles or self.number == MOST_ROUNDS:
                return
            self._join(self.assignment)
            for partition in unowned(self._case, self.assignment):
                self._pauses[partition] = self._pauses.get(partition, 0) + 1
            answer = _answer(assignor, self._case)

    def _join(self, assignment: Assignment) -> None:
        """Every member joins the next round with the partitions that it has now."""
        members = _rejoined(self._case.members, assignment, self._generation + self.number)
        self._case = replace(self._case, members=self._loaded(members))
        self._claims = OwnedPartitions(self._case.topics, self._case.members)

    def _loaded(self, members: Mapping[str, MemberSubscription]) -> Mapping[str, MemberSubscription]:
        if self._balance:
            return self._balance.with_loads(members)
        return {name: replace(each, loads={}) if each.loads else each for name, each in members.items()}

    def paused(self) -> dict[int, tuple[Partition, ...]]:
        """The partitions by the number of rounds for which they had no owner."""
        by_rounds: dict[int, list[Partition]] = {}
        for partition in sorted(self._pauses):
            by_rounds.setdefault(self._pauses[partition], []).append(partition)
        return {rounds: tuple(by_rounds[rounds]) for rounds in sorted(by_rounds)}


def _revokes(case: Case, assignment: Assignment) -> bool:
    """Whether a member has to revoke partitions, and will join again."""
    return any(not set(each.owned) <= set(assignment[member]) for member, each in case.members.items() if each.owned)


def _rejoined(
    members: Mapping[str, MemberSubscription], assignment: Assignment, generation: int
) -> dict[str, MemberSubscription]:
    """The members as they join the next round."""
    rejoined = {}
    for member, subscription in members.items():
        owned, old = set(subscription.owned), subscription.since
        acquisitions = {
            p: old[p] if p in owned else generation for p in assignment[member] if p in old or p not in owned
        }
        rejoined[member] = replace(subscription, owned=assignment[member], generation=generation, since=acquisitions)
    return rejoined


# --- figures ---------------------------------------------------------------------------------------------


def subscribed_partitions(case: Case) -> dict[str, int]:
    """The number of partitions of each topic that exists and has a subscriber; topics sorted."""
    subscribed = {topic for subscription in case.members.values() for topic in subscription.topics}
    return {topic: count for topic, count in sorted(case.topics.items()) if topic in subscribed}


def unowned(case: Case, owned: Mapping[str, Iterable[Partition]]) -> list[Partition]:
    """The subscribed partitions without owner, sorted."""
    owned_partitions = {partition for partitions in owned.values() for partition in partitions}
    topics = subscribed_partitions(case).items()
    return [
        (topic, number) for topic, count in topics for number in range(count) if (topic, number) not in owned_partitions
    ]


def spread(case: Case, owned: Mapping[str, Iterable[Partition]]) -> int:
    """The most less the fewest partitions of a subscriber; 0 without subscribers."""
    loads = [len(tuple(owned.get(member, ()))) for member in subscribers(case)]
    return max(loads, default=0) - min(loads, default=0)


def subscribers(case: Case) -> list[str]:
    """The members that subscribe to a topic with partitions, sorted."""
    existing = {topic for topic, count in case.topics.items() if count}
    return [member for member in sorted(case.members) if not existing.isdisjoint(case.members[member].topics)]


def rack_mismatches(case: Case, owned: Mapping[str, Iterable[Partition]]) -> int | None:
    """The number of partitions with replicas in known racks, none of which is their owner's (KIP-881)."""
    racks = {member: each.rack for member, each in case.members.items() if each.rack is not None}
    if not racks or not any(map(any, case.racks.values())):
        return None
    mismatches = 0
    for member, rack in racks.items():
        for topic, number in owned.get(member, ()):
            replica_racks = case.racks[topic][number] if topic in case.racks else ()
            mismatches += bool(replica_racks) and rack not in replica_racks
    return mismatches


def busiest(case: Case, loads: Mapping[Partition, float], owned: Mapping[str, Iterable[Partition]]) -> float | None:
    """The highest of the members' loads (records per second) over their mean; None: there is no load."""
    totals = [sum(loads.get(partition, 0.0) for partition in owned.get(member, ())) for member in subscribers(case)]
    return max(totals) * len(totals) / sum(totals) if sum(totals) else None


def observed_rates(case: Case) -> dict[Partition, float]:
    """Records per second by partition, as members report them; of two reports, that of the last member by id."""
    return {
        partition: load.records
        for member in sorted(case.members)
        for partition, load in case.members[member].loads.items()
    }


def _fewest(case: Case, owned: Mapping[str, frozenset[Partition]]) -> int:
    """The fewest moves: arithmetic for equal subscriptions, else those of the best target."""
    existing = {topic for topic, count in case.topics.items() if count}
    hungry = subscribers(case)
    if len({frozenset(existing.intersection(case.members[member].topics)) for member in hungry}) > 1:
        target = balance_partitions(case.topics, case.members, resolve_ownership(case.topics, case.members))
        return sum(len(partitions.difference(target[member])) for member, partitions in owned.items())
    few, one_more = divmod(sum(subscribed_partitions(case).values()), len(hungry) or 1)
    surpluses = [len(owned[member]) - few for member in hungry if len(owned[member]) > few]
    return sum(surpluses) - min(one_more, len(surpluses))
