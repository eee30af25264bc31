"""A first guess for members that are not all alike: owners keep all, and each free partition goes to the member with the fewest.

Topics with the fewest subscribers come first, then by name (Kafka's general case).  Kafka balances a fresh group
further, one partition at a time; where that is enough, the result is Kafka's.  This is done in groups of at most
``LIKE_KAFKA`` partitions.  In larger ones topics with the same subscribers are dealt together.

Law: each partition with a subscriber goes to one, and owners keep all.  C0 wants t0 only, so C1 gets t1, and of t0 what
makes both equal:

>>> members = {"C0": MemberSubscription(("t0",)), "C1": MemberSubscription(("t0", "t1"))}
>>> owned = resolve_ownership({"t0": 4, "t1": 2}, members)
>>> initial_assignment(owned, SubscriptionKinds(owned.space)).tolist()
[0, 0, 0, 1, 1, 1]
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np

from sparkcohort.assignors.api import MemberSubscription
from sparkcohort.assignors.solver.ownership import Ownership, resolve_ownership
from sparkcohort.assignors.solver.space import Bools, Ints, Space, by_key, distinct, give_to_least

__all__ = ["MemberSubscription", "initial_assignment", "resolve_ownership"]

LIKE_KAFKA: Final = 1 << 13
_FEW: Final = 1 << 6
"""Up to so many partitions of one class in a row are dealt faster one by one than by arithmetic."""
_MOST_APART: Final = 1 << 10


class SubscriptionKinds:
    """The subscribers of each class of topics, as a table and as bits of one number each; and each topic's class."""

    def __init__(self, space: Space) -> None:
        self.class_of, first = space.partition_classes
        self.table = space.wants[:, first][space.kind].T

    @cached_property
    def bits(self) -> list[int]:
        """By class; bit 0 is member 0."""
        return _bits(self.table)


class _Levels:
    """Members by how many partitions they have: for each load the bits of one number.

    Loads are counted from ``lowest``.  No member is below ``floor``, and none above ``top``.
    """

    def __init__(self, loads: Ints, more: int) -> None:
        self.lowest, self.floor = int(loads.min(initial=0)), 0
        self.members_at = [0] * (int(loads.max(initial=0)) - self.lowest + more + 2)
        self.top = len(self.members_at) - 1
        different = distinct(loads)
        for load, members in zip(different.tolist(), _bits(loads == different[:, None]), strict=True):
            self.members_at[load - self.lowest] = members

    def deal(self, classes: list[int], kinds: list[int]) -> list[int]:
        """The members of partitions of these classes, one after the other: the first with the fewest among the subscribers."""
        members_at, floor, least, owners = self.members_at, self.floor, [0] * len(kinds), []
        for sort in classes:
            while not members_at[floor]:
                floor += 1
            kind, level = kinds[sort], max(least[sort], floor)
            while not (candidates := members_at[level] & kind):
                level += 1
            least[sort], first = level, candidates & -candidates
            members_at[level] ^= first
            members_at[level + 1] |= first
            owners.append(first.bit_length() - 1)
        self.floor = floor
        return owners

    def least(self, kind: int, level: int = 0) -> int:
        """The lowest level, from ``level`` on, with a member of the kind."""
        while not self.members_at[self.floor]:
            self.floor += 1
        level = max(level, self.floor)
        while not self.members_at[level] & kind:
            level += 1
        return level

    def most(self, kind: int, depth: int) -> int:
        """The highest level with a member of the kind, or the level ``depth`` below the top.

        As long as no member rises above the highest one.
        """
        while not self.members_at[self.top]:
            self.top -= 1
        level, last = self.top, self.top - depth
        while level > last and not self.members_at[level] & kind:
            level -= 1
        return level

    def move_partition(self, giver: int, level: int, kind: int, least: int) -> int:
        """Move one from a giver on ``level`` to the first member of the kind on the level ``least``; returns its number."""
        candidates = self.members_at[least] & kind
        first = candidates & -candidates
        self.members_at[level] ^= 1 << giver
        self.members_at[level - 1] |= 1 << giver
        self.members_at[least] ^= first
        self.members_at[least + 1] |= first
        return first.bit_length() - 1


def _bits(rows: Bools) -> list[int]:
    packed = np.packbits(rows, axis=1, bitorder="little")
    if 0 < packed.shape[1] <= 8:
        words = np.zeros((len(rows), 8), np.uint8)
        words[:, : packed.shape[1]] = packed
        numbers: list[int] = words.view("<u8").ravel().tolist()
        return numbers
    width, data = packed.shape[1], packed.tobytes()
    return (
        [int.from_bytes(data[start : start + width], "little") for start in range(0, len(data), width)] if width else []
    )


def initial_assignment(ownership: Ownership, kinds: SubscriptionKinds) -> Ints:
    """By place its member; -1: it has no subscriber."""
    space, target = ownership.space, ownership.member.copy()
    like_kafka = space.places <= LIKE_KAFKA and not (target >= 0).any()
    free = np.flatnonzero((target < 0) & space.has_subscriber)
    free = free[by_key(_turns(kinds, like_kafka)[space.topic[free]], len(space.topics))]
    sort = kinds.class_of[space.topic[free]]
    loads = np.bincount(target[target >= 0], minlength=len(space.ids))
    target[free] = _deal_runs(sort, kinds, loads)
    if like_kafka and is_uneven(loads[space.subscribers]):
        target[free] = _even_out(target[free].tolist(), sort, kinds, loads, space.subscribers.tolist())
    return target


def _turns(kinds: SubscriptionKinds, like_kafka: bool) -> Ints:
    """By topic, its place in the order of dealing."""
    size = np.count_nonzero(kinds.table, axis=1)[kinds.class_of]
    turns = np.empty(len(size), np.int64)
    turns[np.lexsort((size,) if like_kafka else (kinds.class_of, size))] = np.arange(len(size))
    return turns


def _deal_runs(sort: Ints, kinds: SubscriptionKinds, loads: Ints) -> Ints:
    """The members of partitions of these classes, one after the other: the subscriber with the fewest."""
    cuts = _cuts(sort)
    if len(sort) < _FEW * len(cuts) and np.ptp(loads) < _MOST_APART:
        return _deal_one_by_one(sort.tolist(), kinds.bits, loads)
    owners = np.empty(len(sort), np.int64)
    for first, end in pairwise(cuts):
        owners[first:end] = give_to_least(end - first, np.flatnonzero(kinds.table[sort[first]]), loads)
    return owners


def _cuts(sort: Ints) -> list[int]:
    """Where each run of one class begins, and the end."""
    return [*np.flatnonzero(np.append(True, sort[1:] != sort[:-1])[: len(sort)]).tolist(), len(sort)]


def _deal_one_by_one(classes: list[int], kinds: list[int], loads: Ints) -> Ints:
    owners = _Levels(loads, len(classes)).deal(classes, kinds)
    loads += np.bincount(owners, minlength=len(loads))
    return np.array(owners, np.int64)


def is_uneven(loads: Ints) -> bool:
    """Whether two loads differ by more than one."""
    return bool(len(loads) and np.ptp(loads) > 1)


def _even_out(
    owners: list[int], sort: Ints, kinds: SubscriptionKinds, loads: Ints, subscribers: list[int]
) -> list[int]:
    """The members of these partitions after rounds of ``_even_once``, as long as they help."""
    levels = _Levels(loads, 1)
    counts = (loads - levels.lowest).tolist()
    cuts = _cuts(sort)
    runs = [(first, end, kinds.bits[kind]) for (first, end), kind in zip(pairwise(cuts), sort[cuts[:-1]], strict=True)]
    while _even_once(owners, runs, levels, counts):
        subscriber_counts = [counts[member] for member in subscribers]
        if max(subscriber_counts) <= min(subscriber_counts) + 1:
            break
    return owners


def _even_once(owners: list[int], runs: list[tuple[int, int, int]], levels: _Levels, counts: list[int]) -> bool:
    """Move each partition whose owner has two more than a subscriber to the one with the fewest; whether any moved."""
    changed = False
    for first, end, kind in runs:
        size = end - first
        # All owners in a run are of the kind: none has more than its highest level.
        most = levels.most(kind, size) if size > 1 else counts[owners[first]]
        if most <= levels.floor + 1:
            continue  # no member has two fewer
        least = levels.least(kind)
        if most <= least + 1:
            continue
        for index in range(first, end):
            owner = owners[index]
            if counts[owner] > least + 1:
                owners[index] = levels.move_partition(owner, counts[owner], kind, least)
                counts[owner] -= 1
                counts[owners[index]] += 1
                least = levels.least(kind, least)
                changed = True
                if size > 1 and levels.most(kind, size) <= least + 1:
                    break
    return changed
