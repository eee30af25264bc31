"""range: each topic for itself, in contiguous runs, near the members' racks where racks matter (Kafka: RangeAssignor).

Law: a topic's subscribers differ by one partition at most, and those in front have the one more.  Static members come
first, by instance id.  Equal partitions of topics with equal subscribers meet on one member.

Kafka's own example: consumers C0 and C1, topics t0 and t1 of three partitions each.

>>> both = MemberSubscription(("t0", "t1"))
>>> RangeAssignor().assign({"t0": 3, "t1": 3}, {"C0": both, "C1": both})
{'C0': (('t0', 0), ('t0', 1), ('t1', 0), ('t1', 1)), 'C1': (('t0', 2), ('t1', 2))}

With racks (KIP-881), C0 in rack a and C1 in rack b, and every replica of t0's partition 0 and t1's in rack b:

>>> near = {"C0": MemberSubscription(("t0", "t1"), rack="a"), "C1": MemberSubscription(("t0", "t1"), rack="b")}
>>> where = {topic: [{"b"}, {"a", "b"}, {"a", "b"}] for topic in ("t0", "t1")}
>>> RangeAssignor().assign({"t0": 3, "t1": 3}, near, where)
{'C0': (('t0', 1), ('t0', 2), ('t1', 1), ('t1', 2)), 'C1': (('t0', 0), ('t1', 0))}

Balance goes before co-partitioning, and that before racks.  Racks count if a member's rack has a replica and not every
partition is on all racks.  Topics with equally many partitions and the same subscribers are dealt together: each
partition goes to the first member whose rack has a replica of it in all of them.  Of any other topic each member takes
what is in its rack.  The rest is dealt in runs.  A member without a rack is at home in each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sparkcohort.assignors.api import NO_RACKS, Assignment, MemberSubscription, Racks
from sparkcohort.assignors.solver.order import subscribers_in_order
from sparkcohort.assignors.solver.ownership import resolve_ownership
from sparkcohort.assignors.solver.packed import Packed
from sparkcohort.assignors.solver.space import NO_MEMBER, Ints, Space

_ReplicaRacks: TypeAlias = list[frozenset[str]]  # by partition, the racks of its replicas


@dataclass(frozen=True)
class RangeAssignor:
    """Per topic, subscribers in order take runs, the first (partitions mod members) one more; racks as in KIP-881.

    Eager: it does not read ``owned``.
    """

    name: str = "range"
    cooperative: bool = False

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription], racks: Racks = NO_RACKS
    ) -> Assignment:
        """Divide the partitions (see Assignor)."""
        ownership = resolve_ownership(topics, members)  # for the leader, which reads it from the answer
        space = ownership.space
        wanted_by = subscribers_in_order(space)
        near = _near_owners(space, wanted_by, racks) if racks and any(each.rack for each in space.subscriptions) else {}
        member = np.full(space.places, NO_MEMBER)
        for position, subscribers in enumerate(wanted_by):
            if len(subscribers):
                places = slice(space.base[position], space.base[position + 1])
                member[places] = near[position] if near else _runs(int(space.counts[position]), subscribers)
        return Packed(space, member, ownership)


def _runs(count: int, subscribers: Ints) -> Ints:
    """The member of each of ``count`` partitions, in order."""
    fewest, one_more = divmod(count, len(subscribers))
    return np.repeat(subscribers, fewest + (np.arange(len(subscribers)) < one_more))


def _near_owners(space: Space, wanted_by: Sequence[Ints], racks: Racks) -> dict[int, Ints]:
    """By topic's position, the member of each partition; empty if racks count for none of the topics."""
    positions = [position for position, subscribers in enumerate(wanted_by) if len(subscribers)]
    replicas = {p: _replicas(racks.get(space.topics[p], ()), int(space.counts[p])) for p in positions}
    homes = {
        id(subscribers): [space.subscriptions[number].rack or None for number in subscribers.tolist()]
        for subscribers in wanted_by
    }
    matters = {p for p in positions if _racks_matter(set(homes[id(wanted_by[p])]), replicas[p])}
    if not matters:
        return {}
    together: dict[tuple[int, int], list[int]] = {}
    for position in positions:
        together.setdefault((id(wanted_by[position]), len(replicas[position])), []).append(position)
    dealt: dict[int, Ints] = {}
    for (identity, count), alike in together.items():
        deal = _Deal(homes[identity], count)
        if len(alike) > 1:
            deal.give_by_partition(
                [frozenset.intersection(*each) for each in zip(*(replicas[p] for p in alike), strict=True)]
            )
        elif alike[0] in matters:
            deal.give_by_member(replicas[alike[0]])
        deal.give_rest()
        owners = wanted_by[alike[0]][deal.owner]
        dealt |= dict.fromkeys(alike, owners)
    return dealt


def _replicas(rows: Sequence[Collection[str]], count: int) -> _ReplicaRacks:
    """The racks of each of ``count`` partitions; the list may be shorter, while a topic grows."""
    sets = {racks: frozenset(filter(None, racks)) for racks in map(frozenset, rows)}
    return [sets[frozenset(racks)] for racks in rows[:count]] + [frozenset()] * (count - len(rows))


def _racks_matter(homes: Collection[str | None], replicas: _ReplicaRacks) -> bool:
    """Whether some member's rack has a replica, and not every partition is on all racks."""
    kinds = set(replicas)
    every = frozenset[str]().union(*kinds)
    return not every.isdisjoint(homes) and kinds != {every}


class _Deal:
    """The partitions of one topic, or of several that are dealt alike; members are ranks, 0 being the first."""

    def __init__(self, home: list[str | None], count: int) -> None:
        self.owner = [NO_MEMBER] * count
        self._home = home
        self._fewest, self._one_more = divmod(count, len(home))
        self._counts = [0] * len(home)

    def _room(self, rank: int) -> int:
        """How many more a member may have.  It never grows: the ones more only become fewer."""
        return self._fewest + (self._one_more > 0) - self._counts[rank]

    def _give(self, partition: int, rank: int) -> None:
        self.owner[partition] = rank
        self._counts[rank] += 1
        self._one_more -= self._counts[rank] > self._fewest

    def give_by_partition(self, replicas: _ReplicaRacks) -> None:
        """Each partition to the first member that has room and a rack with a replica."""
        queues: dict[str | None, list[int]] = {}
        for rank in reversed(range(len(self._home))):
            queues.setdefault(self._home[rank], []).append(rank)
        for partition, racks in enumerate(replicas):
            first = [queue[-1] for rack in (None, *racks) if (queue := self._next_in_queue(queues.get(rack)))]
            if first:
                self._give(partition, min(first))

    def _next_in_queue(self, queue: list[int] | None) -> list[int]:
        """The queue of one rack, the next member last, without members that have no room."""
        while queue and self._room(queue[-1]) <= 0:
            queue.pop()
        return queue or []

    def give_by_member(self, replicas: _ReplicaRacks) -> None:
        """Each member, in order, takes the first free partitions of its rack."""
        free: dict[str | None, list[int]] = {None: list(range(len(replicas)))[::-1]}
        for partition in free[None]:
            for rack in replicas[partition]:
                free.setdefault(rack, []).append(partition)
        for rank, home in enumerate(self._home):
            self._take(rank, free.get(home, []))

    def give_rest(self) -> None:
        """Each member, in order, takes the first free partitions."""
        free = [partition for partition, rank in enumerate(self.owner) if rank == NO_MEMBER][::-1]
        for rank in range(len(self._home)):
            self._take(rank, free)

    def _take(self, rank: int, free: list[int]) -> None:
        room = self._room(rank)  # asked once: its own one more is in it
        while room > 0 and free:
            partition = free.pop()
            if self.owner[partition] == NO_MEMBER:
                self._give(partition, rank)
                room -= 1
