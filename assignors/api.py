"""The input and the output of every assignor, and the arithmetic that they share.

Laws of every assignment: only partitions that exist, only to subscribers, none to two members; and complete once the rounds end.

>>> C0, C1 = MemberSubscription(("t1", "t0")), MemberSubscription(("t1", "gone"))
>>> subscribers({"t0": 3, "t1": 3, "t2": 3}, {"C1": C1, "C0": C0})
{'t0': ['C0'], 't1': ['C0', 'C1']}
>>> sort_assignment(("C1", "C0"), {"C0": [("t1", 0), ("t0", 2)]})
{'C0': (('t0', 2), ('t1', 0)), 'C1': ()}
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeAlias

Partition: TypeAlias = tuple[str, int]
Assignment: TypeAlias = Mapping[str, tuple[Partition, ...]]
"""By member id.  In large groups a member's tuple is made when it is read (``packed``)."""
Racks: TypeAlias = Mapping[str, Sequence[Collection[str]]]
"""By topic, for each of its partitions in order, the racks that have a replica; a topic may be missing (KIP-881)."""
NO_RACKS: Final[Racks] = MappingProxyType({})


class Load(NamedTuple):
    """What a member observed of a partition that it owns: records and bytes per second, and records still to read."""

    records: float = 0.0
    bytes: float = 0.0
    backlog: int = 0


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """The topics that one member subscribes to, and the partitions that it owns.

    ``generation`` is that of the member when it acquired ``owned`` (KIP-792; -1: none).  ``since`` maps an owned
    partition to the generation in which it was acquired.  The youngest are given up first: when a replacement comes,
    a survivor gives up what a failure had brought, and keeps its own.
    """

    topics: tuple[str, ...]
    owned: tuple[Partition, ...] = ()
    generation: int = -1
    instance_id: str | None = None
    rack: str | None = None
    since: Mapping[Partition, int] = field(default_factory=lambda: MappingProxyType({}))
    loads: Mapping[Partition, Load] = field(default_factory=lambda: MappingProxyType({}))


class Assignor(Protocol):
    """A named way to divide partitions over members (Kafka: ConsumerPartitionAssignor).

    ``assign`` takes the number of partitions of each topic (always counted from 0), the members by id and the racks
    that have replicas, where they are known, and returns the sorted partitions of every member, members without any
    included.  It is a function: the order of its inputs doesn't matter.  ``cooperative``: it withholds what another
    member has to revoke first (KIP-429).  Any other assigns everything at once, as in Kafka after every member has
    revoked all that it owns.  The leader adjusts both kinds of answer, so owners keep what does not move.

    A user's own is any object of this shape.  Members without partitions may be left out of its answer, and the
    partitions may stand in any order and collection.
    """

    @property
    def name(self) -> str:
        """The name in ``partition.assignment.strategy``."""

    @property
    def cooperative(self) -> bool:
        """Whether the incremental cooperative protocol is spoken."""

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription], racks: Racks = NO_RACKS
    ) -> Assignment:
        """Divide the partitions."""


def subscribers(topics: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> dict[str, list[str]]:
    """Member ids by existing topic, both sorted; topics without a subscriber are left out."""
    wishes = {member: frozenset(members[member].topics) for member in sorted(members)}
    by_topic = {topic: [member for member, wish in wishes.items() if topic in wish] for topic in sorted(topics)}
    return {topic: ids for topic, ids in by_topic.items() if ids}


def sort_assignment(members: Iterable[str], partitions: Mapping[str, Iterable[Partition]]) -> Assignment:
    """The result in its fixed form: every member, ids and partitions sorted."""
    return {member: tuple(sorted(partitions.get(member, ()))) for member in sorted(members)}
