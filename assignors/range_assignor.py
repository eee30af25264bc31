"""range: each topic for itself, in contiguous runs (Kafka: RangeAssignor without racks).

Kafka's own example: consumers C0 and C1, topics t0 and t1 of three partitions each.

>>> both = MemberSubscription(("t0", "t1"))
>>> RangeAssignor().assign({"t0": 3, "t1": 3}, {"C0": both, "C1": both})
{'C0': (('t0', 0), ('t0', 1), ('t1', 0), ('t1', 1)), 'C1': (('t0', 2), ('t1', 2))}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkcohort.assignors.base import (
    NO_RACKS,
    Assignment,
    MemberSubscription,
    Partition,
    Racks,
    finish,
    static_first,
    subscribers,
)


@dataclass(frozen=True)
class RangeAssignor:
    """Per topic, subscribers in order (static members first) take runs; the first (partitions mod members) one more.

    Equal partitions of topics with equal subscribers meet on one member.  Eager: ``owned`` is not looked at.
    """

    name: str = "range"
    cooperative: bool = False

    def assign(
        self,
        topics: Mapping[str, int],
        members: Mapping[str, MemberSubscription],
        racks: Racks = NO_RACKS,  # noqa: ARG002  this assignor knows nothing of racks
    ) -> Assignment:
        """Divide the partitions (see Assignor)."""
        rank = static_first(members)
        given: dict[str, list[Partition]] = {member: [] for member in members}
        for topic, who in subscribers(topics, members).items():
            start, (fewest, one_more) = 0, divmod(topics[topic], len(who))
            for place, member in enumerate(sorted(who, key=rank.__getitem__)):
                end = start + fewest + (place < one_more)
                given[member].extend((topic, partition) for partition in range(start, end))
                start = end
        return finish(members, given)
