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

Balance goes before co-partitioning, and that before racks.  Racks count where a member's rack has a replica and not
every partition is on all the racks there are.  Then, of topics that have equally many partitions and the same
subscribers, each partition goes to the first member in whose rack it is in all of them; of any other topic each
member takes what is in its rack.  What is left is dealt in runs.  A member without a rack is at home everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TypeAlias

from sparkcohort.assignors.base import NO_RACKS, Assignment, MemberSubscription, Partition, Racks
from sparkcohort.assignors.order import places, static_first

_Where: TypeAlias = list[frozenset[str]]  # by partition, the racks of its replicas
_NOBODY = -1


@dataclass(frozen=True)
class RangeAssignor:
    """Per topic, subscribers in order take runs, the first (partitions mod members) one more; racks as in KIP-881.

    Eager: ``owned`` is not looked at.
    """

    name: str = "range"
    cooperative: bool = False

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription], racks: Racks = NO_RACKS
    ) -> Assignment:
        """Divide the partitions (see Assignor)."""
        order = static_first(members)
        wanted_by = places(topics, members, order)
        home = [members[member].rack or None for member in order]
        near = _near(topics, wanted_by, home, racks) if any(home) and racks else {}
        given: list[list[Partition]] = [[] for _ in order]
        for topic, who in wanted_by.items():
            if topic in near:
                for partition, place in enumerate(near[topic]):
                    given[place].append((topic, partition))
            else:
                _cut(topic, topics[topic], who, given)
        partitions = dict(zip(order, given, strict=True))
        return {member: tuple(partitions[member]) for member in sorted(members)}


def _cut(topic: str, count: int, who: tuple[int, ...], given: list[list[Partition]]) -> None:
    """Cut a topic into runs, in order."""
    every: list[Partition] = list(zip(repeat(topic), range(count)))
    start, (fewest, one_more) = 0, divmod(count, len(who))
    for rank, place in enumerate(who if fewest else who[:one_more]):
        end = start + fewest + (rank < one_more)
        given[place] += every[start:end]
        start = end


def _near(
    topics: Mapping[str, int], wanted_by: Mapping[str, tuple[int, ...]], home: list[str | None], racks: Racks
) -> dict[str, list[int]]:
    """Who gets each partition of each topic, where racks count for any of the topics; else nothing."""
    where = {topic: _replicas(racks.get(topic, ()), topics[topic]) for topic in wanted_by}
    matters = {topic for topic, who in wanted_by.items() if _matter({home[place] for place in who}, where[topic])}
    if not matters:
        return {}
    together: dict[tuple[tuple[int, ...], int], list[str]] = {}
    for topic, who in wanted_by.items():
        together.setdefault((who, topics[topic]), []).append(topic)
    dealt: dict[str, list[int]] = {}
    for (who, count), alike in together.items():
        deal = _Deal(who, [home[place] for place in who], count)
        if len(alike) > 1:
            deal.by_partition([frozenset.intersection(*each) for each in zip(*(where[t] for t in alike), strict=True)])
        elif alike[0] in matters:
            deal.by_member(where[alike[0]])
        deal.the_rest()
        owners = [who[rank] for rank in deal.owner]
        dealt |= dict.fromkeys(alike, owners)
    return dealt


def _replicas(said: Sequence[Collection[str]], count: int) -> _Where:
    """The racks of as many partitions as there are; of some nothing may be known yet."""
    known = {racks: frozenset(filter(None, racks)) for racks in map(frozenset, said)}
    return [known[frozenset(racks)] for racks in said[:count]] + [frozenset()] * (count - len(said))


def _matter(homes: Collection[str | None], where: _Where) -> bool:
    """Whether some member's rack has a replica, and not every partition is on all racks."""
    kinds = set(where)
    every = frozenset[str]().union(*kinds)
    return not every.isdisjoint(homes) and kinds != {every}


class _Deal:
    """The partitions of one topic, or of several that are dealt alike; members are ranks, 0 being the first."""

    def __init__(self, who: Sequence[int], home: list[str | None], count: int) -> None:
        self.owner = [_NOBODY] * count
        self._home = home
        self._fewest, self._one_more = divmod(count, len(who))
        self._has = [0] * len(who)

    def _room(self, rank: int) -> int:
        """How many more a member may have.  Never grows, since every one more is for somebody."""
        return self._fewest + (self._one_more > 0) - self._has[rank]

    def _give(self, partition: int, rank: int) -> None:
        self.owner[partition] = rank
        self._has[rank] += 1
        self._one_more -= self._has[rank] > self._fewest

    def by_partition(self, where: _Where) -> None:
        """Each partition to the first member that is at home where it is and has room."""
        waiting: dict[str | None, list[int]] = {}
        for rank in reversed(range(len(self._home))):
            waiting.setdefault(self._home[rank], []).append(rank)
        for partition, racks in enumerate(where):
            first = [line[-1] for rack in (None, *racks) if (line := self._first(waiting.get(rack)))]
            if first:
                self._give(partition, min(first))

    def _first(self, line: list[int] | None) -> list[int]:
        """The queue of one rack, the next member last; who has no room any more is out of it."""
        while line and self._room(line[-1]) <= 0:
            line.pop()
        return line or []

    def by_member(self, where: _Where) -> None:
        """Each member, in order, takes the first free partitions that are where it is at home."""
        free: dict[str | None, list[int]] = {None: list(range(len(where)))[::-1]}
        for partition in free[None]:
            for rack in where[partition]:
                free.setdefault(rack, []).append(partition)
        for rank, home in enumerate(self._home):
            self._take(rank, free.get(home, []))

    def the_rest(self) -> None:
        """Each member, in order, takes the first free partitions."""
        free = [partition for partition, rank in enumerate(self.owner) if rank == _NOBODY][::-1]
        for rank in range(len(self._home)):
            self._take(rank, free)

    def _take(self, rank: int, free: list[int]) -> None:
        room = self._room(rank)  # once, as its own one more is in it
        while room > 0 and free:
            partition = free.pop()
            if self.owner[partition] == _NOBODY:
                self._give(partition, rank)
                room -= 1
