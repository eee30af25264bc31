"""load-balanced: members carry equal load, not only equal numbers of partitions.

Until a member has reported a load this is cooperative-sticky.  From then on partitions have weights (see ``weights``):

* Free partitions are assigned in any case: the heaviest first, each to the member with the least load.
* A member that owns nothing gets its fair share at once, in as few partitions as that takes.
* Other partitions move only while a member carries more than ``threshold`` times its fair share: the largest gain
  first, at most ``max_moves`` in a round.  No move makes anything worse, and none is taken back (see ``scales``).

Law: with constant loads the rounds come to rest, and then nothing moves.

An assignor can't see whether an imbalance has lasted.  The leader does, and lets a round move something only then.

Kafka's example with three partitions of each topic.  All busy partitions are C0's.  One of them moves, in two rounds.

>>> topics, assignor = {"t0": 3, "t1": 3}, LoadBalancedAssignor()
>>> mine, yours = (("t0", 0), ("t0", 2), ("t1", 1)), (("t0", 1), ("t1", 0), ("t1", 2))
>>> busy, calm = dict.fromkeys(mine, Load(records=90.0)), dict.fromkeys(yours, Load(records=1.0))
>>> c1 = MemberSubscription(("t0", "t1"), yours, 1, loads=calm)
>>> assignor.assign(topics, {"C0": MemberSubscription(("t0", "t1"), mine, 1, loads=busy), "C1": c1})
{'C0': (('t0', 0), ('t0', 2)), 'C1': (('t0', 1), ('t1', 0), ('t1', 2))}
>>> assignor.assign(topics, {"C0": MemberSubscription(("t0", "t1"), mine[:2], 2, loads=busy), "C1": c1})
{'C0': (('t0', 0), ('t0', 2)), 'C1': (('t0', 1), ('t1', 0), ('t1', 1), ('t1', 2))}
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sparkcohort.assignors.api import (
    NO_RACKS,
    Assignment,
    Load,
    MemberSubscription,
    Partition,
    Racks,
    sort_assignment,
    subscribers,
)
from sparkcohort.assignors.load_scales import Moves, Scales
from sparkcohort.assignors.load_weights import observed_loads, weigh_partitions
from sparkcohort.assignors.solver.ownership import Ownership, resolve_ownership
from sparkcohort.assignors.solver.revocation import adjust_assignment
from sparkcohort.assignors.sticky import balance_partitions


class Relief(NamedTuple):
    """What the next round would do about an imbalance: how many partitions move, and the busiest member that loses any."""

    member: str
    times_mean: float
    partitions: int


@dataclass(frozen=True)
class LoadBalancedAssignor:
    """Sticky and cooperative by load; ``max_moves`` bounds a round's moves, without those to newcomers."""

    name: str = "load-balanced"
    cooperative: bool = True
    threshold: float = 1.2
    max_moves: int = 5

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription], racks: Racks = NO_RACKS
    ) -> Assignment:
        """Divide the partitions (see Assignor)."""
        ownership = resolve_ownership(topics, members)
        loads = observed_loads(topics, members, ownership)
        if not loads:
            return adjust_assignment(balance_partitions(topics, members, ownership, racks), ownership)
        scales = self._scales(topics, members, ownership, loads, racks)
        moves = Moves(scales)
        moves.fill(sorted(scales.fair.keys() - set(ownership.owner.values())))
        moves.relieve(self.max_moves)
        return adjust_assignment(sort_assignment(members, scales.target(scales.outcome(moves.partitions))), ownership)

    def relief(
        self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription], racks: Racks = NO_RACKS
    ) -> Relief | None:
        """What a round would move now to balance loads; None: nothing, or there is no load at all."""
        ownership = resolve_ownership(topics, members)
        loads = observed_loads(topics, members, ownership)
        if not any(any(load) for load in loads.values()):
            return None
        scales = self._scales(topics, members, ownership, loads, racks)
        moves = Moves(scales)
        moves.relieve(self.max_moves)
        outcome = scales.outcome(moves.partitions)
        donors = [(scales.load[m] / scales.fair[m], m) for m in {ownership.owner[p] for p in outcome}]
        return Relief(max(donors)[1], max(donors)[0], len(outcome)) if donors else None

    def _scales(
        self,
        topics: Mapping[str, int],
        members: Mapping[str, MemberSubscription],
        ownership: Ownership,
        loads: Mapping[Partition, Load],
        racks: Racks,
    ) -> Scales:
        partitions = [(topic, number) for topic in subscribers(topics, members) for number in range(topics[topic])]
        return Scales(topics, members, ownership, weigh_partitions(partitions, loads), racks, self.threshold)


def shares(owned: Mapping[str, Collection[Partition]], loads: Mapping[Partition, Load]) -> dict[str, float]:
    """Each member's part of the weight of all partitions that have an owner."""
    weight = weigh_partitions([partition for partitions in owned.values() for partition in partitions], loads)
    whole = sum(weight.values()) or 1
    return {member: sum(weight[partition] for partition in partitions) / whole for member, partitions in owned.items()}
