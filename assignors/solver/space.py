"""The topics and members of one assignment, numbered: every partition has a place.

Places are numbered over the topics in sorted order, so ascending places are sorted partitions.  Members are numbered in
the order of their ids.

Law: each partition has one place, and each place one partition.

>>> space = Space({"t1": 2, "t0": 3}, {"C1": MemberSubscription(("t0",)), "C0": MemberSubscription(("t0", "t1"))})
>>> space.places, space.ids, space.wanted_by.tolist()
(5, ('C0', 'C1'), [[True, True], [True, False]])
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import cached_property
from itertools import repeat, starmap
from operator import itemgetter
from struct import pack as pack_values
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from sparkcohort.assignors.api import MemberSubscription, Partition

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
NO_MEMBER: Final = -1  # also no topic, no place, no group


class Space:
    """The topics and members of one assignment, numbered.

    ``topics`` are the names, sorted; ``base`` has the first place of each and, last, the number of places.  ``kind``
    numbers the different subscriptions, as far as they are to topics that exist; ``wants`` has a row for each kind and
    a column for each topic, ``wanted_by`` a row for each member.
    """

    def __init__(self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> None:
        self._inputs = (topics, members)
        self.topics = tuple(sorted(topics))
        self.counts: Ints = np.fromiter(map(topics.__getitem__, self.topics), np.int64, len(topics)).clip(min=0)
        self.base: Ints = np.concatenate(([0], np.cumsum(self.counts)))
        self.places = int(self.base[-1])
        self.ids = tuple(sorted(members))
        self.subscriptions = tuple(map(members.__getitem__, self.ids))
        self.kind, self.wants = self._kinds()

    def is_made_from(self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> bool:
        """Whether it was made from these objects (by identity)."""
        return self._inputs[0] is topics and self._inputs[1] is members

    def _kinds(self) -> tuple[Ints, Bools]:
        wish_of, different = _first_equals([subscription.topics for subscription in self.subscriptions])
        wants: Bools = np.zeros(
            (len(different), len(self.topics) + 1), np.bool_
        )  # the last one: topics that don't exist
        number = dict(zip(self.topics, range(len(self.topics)), strict=True))
        for row, member in zip(wants, different.tolist(), strict=True):
            row[_numbers(self.subscriptions[member].topics, number)] = True
        wants = wants[:, :-1] & (self.counts > 0)
        kind_of, kinds = _kinds_of(wants)
        return kind_of[wish_of], wants[kinds]

    @cached_property
    def uniform(self) -> bool:
        """Whether every member wants every topic."""
        return len(self.wants) == 1 and bool((self.wants[0] == (self.counts > 0)).all())

    @cached_property
    def partition_classes(self) -> tuple[Ints, Ints]:
        """Topics with the same subscribers are of one class: each topic's class, and the first topic of each."""
        return _kinds_of(self.wants.T)

    @cached_property
    def subscribers(self) -> Ints:
        """The members that want a topic with partitions."""
        return np.flatnonzero(np.isin(self.kind, np.flatnonzero(self.wants.any(axis=1))))

    @cached_property
    def wanted_by(self) -> Bools:
        """By member and topic, whether it wants it."""
        return self.wants[self.kind]

    @cached_property
    def topic(self) -> Ints:
        """The topic of each place."""
        return np.repeat(np.arange(len(self.topics)), self.counts)

    @property
    def number(self) -> Ints:
        """The number of each place in its topic."""
        return np.arange(self.places) - np.repeat(self.base[:-1], self.counts)

    @property
    def by_number(self) -> Ints:
        """All places by number before topic."""
        topics = np.flatnonzero(self.counts)
        common = int(self.counts[topics].min(initial=self.places))
        first = (self.base[topics] + np.arange(common)[:, None]).ravel()
        if len(first) == self.places:
            return first
        number = self.number
        remainder = np.flatnonzero(number >= common)
        return np.concatenate((first, remainder[by_key(number[remainder], int(self.counts.max(initial=1)))]))

    @cached_property
    def has_subscriber(self) -> Bools:
        """By place, whether a member wants it."""
        if self.uniform:
            return np.ones(self.places, np.bool_)
        return np.repeat(self.wants.any(axis=0), self.counts)

    def wanting(self, places: Ints, members: Ints) -> Bools:
        """Whether each of the members wants the place beside it."""
        if self.uniform:
            return np.ones(len(places), np.bool_)
        topics = (
            np.searchsorted(self.base, places, side="right") - 1 if len(places) < self.places else self.topic[places]
        )
        mask: Bools = self.wants[self.kind[members], topics]
        return mask

    def span(self, topic: str) -> Ints:
        """The places of a topic."""
        position = self.topics.index(topic)
        return np.arange(self.base[position], self.base[position + 1])

    def partitions(self, places: Ints) -> tuple[Partition, ...]:
        """The partitions at these places."""
        topics = np.searchsorted(self.base, places, side="right") - 1
        return tuple(
            zip(map(self.topics.__getitem__, topics.tolist()), (places - self.base[topics]).tolist(), strict=True)
        )

    def place(self, partitions: Collection[Partition]) -> Ints:
        """The places of these partitions, whose numbers have 64 bits at most; -1 for one that doesn't exist."""
        if not partitions:
            return np.zeros(0, np.int64)
        size, topics = len(partitions), dict(zip(self.topics, range(-1, -1 - len(self.topics), -1), strict=True))
        # One call: ``get`` takes the partition's number as its default, so topics are numbered below zero.
        topic = np.subtract(-1, np.fromiter(starmap(topics.get, partitions), np.int64, size))
        topic.clip(-1, len(self.topics), out=topic)  # a negative number of an unknown topic is no topic either
        number = np.fromiter(map(itemgetter(1), partitions), np.int64, size)
        exists = (number >= 0) & (number < np.append(self.counts, 0)[topic])
        return np.where(exists, self.base[topic] + number, NO_MEMBER)


def _numbers(wish: tuple[str, ...], number: Mapping[str, int]) -> Ints:
    """The number of each topic; -1 for one that doesn't exist."""
    if len(wish) > 1:
        try:
            return np.frombuffer(pack_values(f"{len(wish)}q", *itemgetter(*wish)(number)), np.int64)
        except KeyError:
            pass
    return np.fromiter(map(number.get, wish, repeat(NO_MEMBER)), np.int64, len(wish))


def _kinds_of(rows: Bools) -> tuple[Ints, Ints]:
    """Each row's kind, numbered in the order of appearance; and the first row of each kind."""
    return _first_equals([row.tobytes() for row in np.packbits(rows, axis=1)])


def _first_equals(values: Sequence[Hashable]) -> tuple[Ints, Ints]:
    """The number of each value, numbered in the order of appearance; and the place of the first of each."""
    first: dict[Hashable, int] = {}
    places = np.fromiter(map(first.setdefault, values, range(len(values))), np.int64, len(values))
    firsts = np.fromiter(first.values(), np.int64, len(first))
    return np.searchsorted(firsts, places), firsts


def distinct(values: Ints) -> Ints:
    """Each value once, ascending.

    Not by ``np.unique``, which imports ``numpy.ma``: 80 ms and 11 MB of a driver's first rebalance.
    """
    ordered: Ints = np.sort(values)
    values_once: Ints = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return values_once


def by_key(keys: Ints, limit: int) -> Ints:
    """The stable order of non-negative keys below ``limit``; numpy sorts 16-bit keys by radix, in linear time."""
    if limit <= 1 << 16:
        return np.argsort(keys.astype(np.uint16), kind="stable")
    if limit <= 1 << 32:
        order = np.argsort(keys.astype(np.uint16), kind="stable")  # the lower digits, then the higher ones
        return order[np.argsort((keys >> 16).astype(np.uint16)[order], kind="stable")]
    return np.argsort(keys, kind="stable")


def give_to_least(count: int, members: Ints, loads: Ints) -> Ints:
    """The member, of ``members`` (ascending), of each of ``count`` partitions: one by one the first with the fewest.

    ``loads`` is how many each member has; it grows by what they get.
    """
    lowest_first = np.sort(loads[members])
    sums = np.cumsum(lowest_first)
    # Water filling: a member is reached if lifting all lower ones to its load takes less than ``count``.
    reached = int(np.searchsorted(lowest_first * np.arange(len(members)) - (sums - lowest_first), count))
    level = -(-(count + int(sums[reached - 1])) // reached)
    lacks = np.maximum(level - loads[members], 0)
    rises = np.arange(lacks.sum()) - np.repeat(np.cumsum(lacks) - level + int(lowest_first[0]), lacks)
    owners: Ints = np.repeat(members, lacks)[by_key(rises, level + 1)][:count]
    loads += np.bincount(owners, minlength=len(loads))
    return owners
