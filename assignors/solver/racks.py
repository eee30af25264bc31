"""Which partitions are far from which members, if that makes a difference (KIP-881).

A partition is *far* from a member if the racks of both are known and no replica is in the member's rack.  (Kafka reads
racks only if a member's rack has a replica, and not if all partitions have replicas in the same racks.  Then members in
other racks, or in unknown ones, still make a difference here.)

Law: an unknown rack is never far.  C0 is in rack a, C1's rack is unknown, and so are those of t1:

>>> members = {"C0": MemberSubscription(("t0", "t1"), rack="a"), "C1": MemberSubscription(("t0",))}
>>> near = nearness(Space({"t0": 3, "t1": 1}, members), {"t0": [["a"], ["b"], []]})
>>> near.of_member.tolist(), near.of_place.tolist(), near.far.tolist()
([0, 1], [1, 2, 0, 0], [[False, False, True], [False, False, False]])
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparkcohort.assignors.api import MemberSubscription, Racks
from sparkcohort.assignors.solver.space import Bools, Ints, Space

__all__ = ["MemberSubscription", "Nearness", "nearness"]


class Nearness(NamedTuple):
    """Kinds of members and of places by their racks; ``far`` by the kind of a member and of a place."""

    of_member: Ints
    of_place: Ints
    far: Bools

    @property
    def matters(self) -> bool:
        """Whether racks make a difference."""
        return self.far.size > 1


def nearness(space: Space, racks: Racks) -> Nearness:
    """The kinds of members and places; only one kind of each if racks make no difference."""
    if not any(racks.values()):
        return _alike(space)
    homes = [subscription.rack or None for subscription in space.subscriptions]
    if not any(homes):
        return _alike(space)
    replicas, of_place = _replicas(space, racks)
    rows: dict[str | None, int] = {}
    of_member = np.array([rows.setdefault(home, len(rows)) for home in homes], np.int64)
    far = np.array([[bool(home and each and home not in each) for each in replicas] for home in rows], np.bool_)
    return _alike(space) if far.all() or not far.any() else Nearness(of_member, of_place, far)


def _alike(space: Space) -> Nearness:
    return Nearness(_zeros(len(space.ids)), _zeros(space.places), np.zeros((1, 1), np.bool_))


def _zeros(count: int) -> Ints:
    """``count`` zeros in the memory of one."""
    return np.ndarray((count,), np.int64, np.zeros(1, np.int64), strides=(0,))


def _replicas(space: Space, racks: Racks) -> tuple[list[frozenset[str]], Ints]:
    """The different sets of racks, and by place the number of its set; a partition beyond the list has the empty set."""
    counts = zip(space.topics, space.counts.tolist(), strict=True)
    rows = {topic: list(map(tuple, racks.get(topic, ())[:count])) for topic, count in counts}
    variants = set().union(*rows.values(), [()])
    different = sorted({frozenset(filter(None, replica_racks)) for replica_racks in variants}, key=sorted)
    position = {replica_racks: index for index, replica_racks in enumerate(different)}
    number = {replica_racks: position[frozenset(filter(None, replica_racks))] for replica_racks in variants}
    of_place = np.full(space.places, number[()])
    for first, partition_racks in zip(space.base[:-1].tolist(), rows.values(), strict=True):
        numbers = np.fromiter(map(number.__getitem__, partition_racks), np.int64, len(partition_racks))
        of_place[first : first + len(partition_racks)] = numbers
    return different, of_place
