"""Computes what an assignor would do to a group: all figures that ``cohort simulate`` prints.

>>> from sparkcohort.assignors import ASSIGNORS
>>> owned = {"C0": (("t0", 0), ("t0", 2), ("t1", 1)), "C1": (("t0", 1), ("t1", 0), ("t1", 2)), "C2": ()}
>>> members = {member: MemberSubscription(("t0", "t1"), partitions, 1) for member, partitions in owned.items()}
>>> case = Case({"t0": 3, "t1": 3}, members)
>>> outcome = simulate(case, case, ASSIGNORS["cooperative-sticky"])
>>> outcome.assignment["C2"], outcome.transferring, outcome.settled["C2"]
((), (('t0', 2), ('t1', 2)), (('t0', 2), ('t1', 2)))
>>> outcome.moved, outcome.fewest_moves, outcome.spread_before, outcome.spread, outcome.rounds
(2, 2, 3, 0, 2)
>>> outcome.pauses
{1: (('t0', 2), ('t1', 2))}

**Rounds.**  Cohort's leader follows the cooperative protocol with every assignor (see ``leader``): ``assignment`` is the
first round's, without the partitions that another member has to revoke first (``transferring``).  ``settled`` is that of the
last round, after which no member has anything to revoke.

**Moved** are partitions whose owner stays, still wants them, and does not have them once settled.  **Placed** are those
that get an owner and had none: new ones, and those of members that left.  **The fewest moves** are the least number of
partitions that have to leave such an owner for an assignment that is complete and balanced (see ``assignors.sticky``),
without regard to racks.

**A pause** is a round in which a subscribed partition has no owner: an owner revokes at the end of a round, so a
partition that moves pauses in the next one.  A partition without owner pauses in the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from sparkcohort.assignors import Assignor, MemberSubscription, Partition
from sparkcohort.assignors.api import Assignment
from sparkcohort.assignors.solver.ownership import resolve_ownership
from sparkcohort.assignors.solver.revocation import adjust_assignment
from sparkcohort.assignors.sticky import balance_partitions
from sparkcohort.cli.simulate.case import Case
from sparkcohort.runtime.leader import assignment as leader
from sparkcohort.runtime.leader.assignment import InvalidAssignment

MOST_ROUNDS: Final = 10
"""A group that still revokes after so many rounds does not settle; Kafka's own assignors need four at most."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one assignor does; the module defines the terms.

    ``owned`` partitions have an owner that stays and wants them.  ``settles`` is False if ``MOST_ROUNDS`` were not enough.
    ``spread`` is max - min of the subscribers' partitions.  ``rack_mismatches`` counts partitions whose owner's rack has no
    replica; None: no racks are known.  ``pauses`` has the partitions by the number of rounds for which they pause.
    """

    assignor: str
    owned: int
    moved: int
    placed: int
    fewest_moves: int
    rounds: int
    settles: bool
    spread_before: int
    spread: int
    rack_mismatches_before: int | None
    rack_mismatches: int | None
    assignment: Assignment
    transferring: tuple[Partition, ...]
    settled: Assignment
    before: Assignment
    pauses: Mapping[int, tuple[Partition, ...]]


def simulate(base: Case, case: Case, assignor: Assignor) -> Outcome:
    """What the assignor does to ``case``, which is ``base`` after its changes.

    Raises InvalidAssignment: the assignor breaks its contract, or raises.
    """
    before, owned = owned_partitions(base), owned_partitions(case)
    rounds = _play_rounds(assignor, case)
    owned_count, settled_count = (sum(map(len, each.values())) for each in (owned, rounds.settled))
    move_count = _moves(owned, rounds.settled)
    return Outcome(
        assignor=assignor.name,
        owned=owned_count,
        moved=move_count,
        placed=settled_count - (owned_count - move_count) - move_count,
        fewest_moves=_moves(owned, balance_partitions(case.topics, case.members)),
        rounds=rounds.number,
        settles=rounds.settles,
        spread_before=spread(base, before),
        spread=spread(case, rounds.settled),
        rack_mismatches_before=rack_mismatches(base, before),
        rack_mismatches=rack_mismatches(case, rounds.settled),
        assignment=rounds.first,
        transferring=tuple(unowned(case, rounds.first)),
        settled=rounds.settled,
        before=before,
        pauses=rounds.pauses,
    )


class _CooperativeRounds(NamedTuple):
    """The assignments of the first and the last round, the number of rounds, and whether no member has to revoke after them."""

    first: Assignment
    settled: Assignment
    number: int
    settles: bool
    pauses: Mapping[int, tuple[Partition, ...]]


def _play_rounds(assignor: Assignor, case: Case) -> _CooperativeRounds:
    """Rounds as under the group's leader, until no member has to revoke anything."""
    members, number = case.members, 1
    generation = max((member.generation for member in members.values()), default=0)
    pauses = Counter(unowned(case, owned_partitions(case)))
    first = assignment = _assign(assignor, case)
    while not (settles := _is_settled(members, assignment)) and number < MOST_ROUNDS:
        pauses.update(unowned(case, assignment))
        members = _rejoined(members, assignment, generation + number)
        assignment = _assign(assignor, replace(case, members=members))
        number += 1
    by_rounds: dict[int, tuple[Partition, ...]] = {}
    for partition, rounds in sorted(pauses.items()):
        by_rounds[rounds] = (*by_rounds.get(rounds, ()), partition)
    return _CooperativeRounds(first, assignment, number, settles, dict(sorted(by_rounds.items())))


def _assign(assignor: Assignor, case: Case) -> Assignment:
    """One round.  Raises InvalidAssignment, which names the assignor."""
    try:
        answer = leader.run_assignor(assignor, assignor.name, case.topics, case.members, case.racks)
    except (Exception, SystemExit) as error:
        raise InvalidAssignment(leader.failure_message(assignor.name, error)) from error
    return dict(adjust_assignment(*answer))


def _is_settled(members: Mapping[str, MemberSubscription], assignment: Assignment) -> bool:
    """Whether no member has to revoke partitions, after which it would join again."""
    return all(set(member.owned) <= set(assignment[name]) for name, member in members.items() if member.owned)


def _rejoined(
    members: Mapping[str, MemberSubscription], assignment: Assignment, generation: int
) -> dict[str, MemberSubscription]:
    """The members as they join the next round."""
    rejoined = {}
    for name, member in members.items():
        owned, old = set(member.owned), member.since
        acquisitions = {p: old[p] if p in owned else generation for p in assignment[name] if p in old or p not in owned}
        rejoined[name] = replace(member, owned=assignment[name], generation=generation, since=acquisitions)
    return rejoined


# --- figures ---------------------------------------------------------------------------------------------


def owned_partitions(case: Case) -> dict[str, tuple[Partition, ...]]:
    """Each member's valid claims: the partition exists, is still wanted, and no other claim wins over this one."""
    owned: dict[str, list[Partition]] = {member: [] for member in sorted(case.members)}
    for partition, owner in sorted(resolve_ownership(case.topics, case.members).owner.items()):
        owned[owner].append(partition)
    return {member: tuple(partitions) for member, partitions in owned.items()}


def _moves(owned: Assignment, settled: Assignment) -> int:
    return sum(len(set(partitions).difference(settled[member])) for member, partitions in owned.items())


def unowned(case: Case, owned: Assignment) -> list[Partition]:
    """The subscribed partitions without owner, sorted."""
    owned_set = {partition for partitions in owned.values() for partition in partitions}
    subscribed = {topic for member in case.members.values() for topic in member.topics}
    partitions = [(t, n) for t in sorted(subscribed.intersection(case.topics)) for n in range(case.topics[t])]
    return [partition for partition in partitions if partition not in owned_set]


def spread(case: Case, owned: Assignment) -> int:
    """The most less the fewest partitions of a member that subscribes to a topic with partitions."""
    existing = {topic for topic, count in case.topics.items() if count}
    loads = [len(owned[name]) for name, member in case.members.items() if not existing.isdisjoint(member.topics)]
    return max(loads, default=0) - min(loads, default=0)


def rack_mismatches(case: Case, owned: Mapping[str, Iterable[Partition]]) -> int | None:
    """The number of partitions with replicas in known racks, none of which is their owner's (KIP-881)."""
    homes = {name: member.rack for name, member in case.members.items() if member.rack is not None}
    if not homes or not any(map(any, case.racks.values())):
        return None
    pairs = [
        (rack, case.racks[topic][number])
        for name, rack in homes.items()
        for topic, number in owned[name]
        if topic in case.racks
    ]
    return sum(bool(replica_racks) and rack not in replica_racks for rack, replica_racks in pairs)
