"""A first guess for members that are not all alike: owners keep all, and what is free goes to who has least.

Topics that fewest members want come first, since they can go to fewest; then by name (Kafka's general case).  Kafka
balances a fresh group further, one partition at a time; where that is enough, the result is Kafka's.  That is done for
groups of ``LIKE_KAFKA`` partitions at most: in larger ones topics that the same members want are dealt together.

Law: whatever anybody wants is given to somebody who wants it, and owners keep all.  C0 wants t0 only, so C1 gets t1,
and of t0 what brings it on a level:

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
"""Partitions of a sort in a row: up to here they are dealt faster one by one than by arithmetic."""
_MOST_APART: Final = 1 << 10


class SubscriptionKinds:
    """Who wants the topics of each sort, as a table and as the bits of one number each; and each topic's sort."""

    def __init__(self, space: Space) -> None:
        self.class_of, first = space.partition_classes
        self.table = space.wants[:, first][space.kind].T

    @cached_property
    def bits(self) -> list[int]:
        """By sort; bit 0 is member 0."""
        return _bits(self.table)


class _Levels:
    """Members by how many they have, as bits of one number for each load: who has least is found at a glance.

    Loads are counted from ``lowest``; ``floor`` is one below which nobody is, ``top`` one above which nobody is.
    """

    def __init__(self, loads: Ints, more: int) -> None:
        self.lowest, self.floor = int(loads.min(initial=0)), 0
        self.members_at = [0] * (int(loads.max(initial=0)) - self.lowest + more + 2)
        self.top = len(self.members_at) - 1
        different = distinct(loads)
        for load, members in zip(different.tolist(), _bits(loads == different[:, None]), strict=True):
            self.members_at[load - self.lowest] = members

    def deal(self, classes: list[int], kinds: list[int]) -> list[int]:
        """Who gets one of each of these classes, one after the other: the first of those who have least of its kind."""
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
        """The lowest level, from this one on, on which there is one of the kind."""
        while not self.members_at[self.floor]:
            self.floor += 1
        level = max(level, self.floor)
        while not self.members_at[level] & kind:
            level += 1
        return level

    def most(self, kind: int, depth: int) -> int:
        """The highest level on which there is one of the kind, or the one below so many from the top.

        For as long as nobody rises above who has most.
        """
        while not self.members_at[self.top]:
            self.top -= 1
        level, last = self.top, self.top - depth
        while level > last and not self.members_at[level] & kind:
            level -= 1
        return level

    def move_partition(self, giver: int, level: int, kind: int, least: int) -> int:
        """One goes from a giver on one level to the first of the kind on a lower one, whose number it is."""
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
    """By place who is to have it; -1 for what nobody wants."""
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
    """Of each topic, when its turn is."""
    size = np.count_nonzero(kinds.table, axis=1)[kinds.class_of]
    turns = np.empty(len(size), np.int64)
    turns[np.lexsort((size,) if like_kafka else (kinds.class_of, size))] = np.arange(len(size))
    return turns


def _deal_runs(sort: Ints, kinds: SubscriptionKinds, loads: Ints) -> Ints:
    """Who gets partitions of topics of these classes, one after the other: who has least of those who want it."""
    cuts = _cuts(sort)
    if len(sort) < _FEW * len(cuts) and np.ptp(loads) < _MOST_APART:
        return _deal_one_by_one(sort.tolist(), kinds.bits, loads)
    owners = np.empty(len(sort), np.int64)
    for first, end in pairwise(cuts):
        owners[first:end] = give_to_least(end - first, np.flatnonzero(kinds.table[sort[first]]), loads)
    return owners


def _cuts(sort: Ints) -> list[int]:
    """Where each run of one sort begins, and the end."""
    return [*np.flatnonzero(np.append(True, sort[1:] != sort[:-1])[: len(sort)]).tolist(), len(sort)]


def _deal_one_by_one(classes: list[int], kinds: list[int], loads: Ints) -> Ints:
    owners = _Levels(loads, len(classes)).deal(classes, kinds)
    loads += np.bincount(owners, minlength=len(loads))
    return np.array(owners, np.int64)


def is_uneven(loads: Ints) -> bool:
    """Whether anybody has more than one more than somebody else."""
    return bool(len(loads) and np.ptp(loads) > 1)


def _even_out(
    owners: list[int], sort: Ints, kinds: SubscriptionKinds, loads: Ints, subscribers: list[int]
) -> list[int]:
    """Whose each partition of these classes is after all of them, as often as it helps, went to who had least."""
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
    """Each of these, if it can go to somebody with two fewer, goes to who has least; whether any did."""
    changed = False
    for first, end, kind in runs:
        size = end - first
        # Its owners are of the kind: none has more, and a glance at the levels is sooner done.
        most = levels.most(kind, size) if size > 1 else counts[owners[first]]
        if most <= levels.floor + 1:
            continue  # nobody at all has two fewer
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
