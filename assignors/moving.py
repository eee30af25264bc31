"""Balance with few moves in small groups that own something: chains of members, found by looking at members as bits.

A chain hands one partition on from each member to the next, so that only the load of its first falls and that of its
last rises (as in ``chaining``).  Each hand-over has a price: a move where an owner gives its own away, and a little more
of it the longer it was held; the same is won back where an owner gets its own.  A chain is worth what it takes off the
squares of the loads, less its price.

One search finds the cheapest chains from several members to all that they reach: first from all above the mean, or to
all below it, whichever are further away; at last from everybody to everybody.  At first owners keep all, so nothing is
saved by handing on in a circle; and as long as only cheapest chains are used, nothing ever is (successive shortest
paths).  So once no chain pays any more, there is nothing better (see ``exchange``).

Law: nothing is cheaper then.  C0 has all of t0, which C1 wants too, C1 all of t1, which C2 wants too; C2 comes:

>>> wanted = {"C0": ("t0",), "C1": ("t0", "t1"), "C2": ("t1",)}
>>> has = {"C0": tuple(("t0", number) for number in range(3)), "C1": tuple(("t1", number) for number in range(3))}
>>> owned = resolve({"t0": 3, "t1": 3}, {m: MemberSubscription(topics, has.get(m, ())) for m, topics in wanted.items()})
>>> moved(owned, owned.member, Crowds(owned.space)).tolist()
[0, 0, 1, 1, 2, 2]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from sparkcohort.assignors.base import MemberSubscription
from sparkcohort.assignors.guessing import Crowds
from sparkcohort.assignors.ownership import Ownership, resolve
from sparkcohort.assignors.packed import Ints

__all__ = ["MemberSubscription", "first_to_go", "moved", "resolve"]

MOST_VISITS: Final = 1 << 14
_Arcs: TypeAlias = list[dict[int, int]]
"""By member: to whom it can give, as bits of one number, by the price."""


class _Hands:
    """How many of each sort everybody has, and how many of those it owns; and the price of handing on."""

    def __init__(self, ownership: Ownership, target: Ints, crowds: Crowds) -> None:
        space = ownership.space
        self.crowds, self.size, self.sorts = crowds.bits, len(space.ids), len(crowds.bits)
        sort = crowds.sort_of[space.topic]
        self.has = _counted(target, sort, self.size, self.sorts)
        self.owns = [mine.copy() for mine in self.has]
        free = np.flatnonzero((target >= 0) & (ownership.member < 0))
        self._free = target[free] * self.sorts + sort[free]  # what everybody has at first beside what it owns
        self._count_free(-1)
        self.load = [sum(mine.values()) for mine in self.has]
        self._ages = _ages(ownership, sort, self.sorts)
        oldest = max((ages[0] for ages in self._ages.values()), default=0)
        self.move = 2 * (self.size + 1) * oldest + 1
        self.balance = 2 * (self.size + 1) * (self.move + oldest) + 1
        self._lack = [0] * self.sorts
        self._arcs: _Arcs = [{} for _ in space.ids]
        self._stale, self._changed = (1 << self.size) - 1, set[int]()

    def _count_free(self, by: int) -> None:
        for member, sort in zip(*(each.tolist() for each in np.divmod(self._free, self.sorts)), strict=True):
            self.owns[member][sort] += by

    def arcs(self, among: Iterable[int], backwards: bool = False) -> _Arcs:
        """To whom each of these can give at which price; backwards: from which of these it can be given."""
        if changed := self._changed:
            self._stale |= sum(1 << member for member, mine in enumerate(self.has) if not changed.isdisjoint(mine))
        for member in _members(self._stale):
            self._arcs[member] = self._look(member)
        self._stale, self._changed = 0, set()
        return _turned(self._arcs, among) if backwards else self._arcs

    def _look(self, member: int) -> dict[int, int]:
        found: dict[int, int] = {}
        owns, crowds = self.owns[member], self.crowds
        free = 0
        for sort, has in self.has[member].items():
            if has > owns.get(sort, 0):
                price, free = 0, free | crowds[sort]
            else:
                price = self._giving(member, sort) if self._ages else self.move
                found[price] = found.get(price, 0) | crowds[sort]
            if self._lack[sort]:
                for owner in _members(self._lack[sort] & ~(1 << member)):
                    less = price + self._taking(owner, sort)
                    found[less] = found.get(less, 0) | 1 << owner
        if free:
            found[0] = found.get(0, 0) | free
        return found

    def _giving(self, member: int, sort: int) -> int:
        has = self.has[member][sort]
        if has > self.owns[member].get(sort, 0):
            return 0
        ages = self._ages.get(member * self.sorts + sort)
        return self.move + ages[has - 1] if ages else self.move

    def _taking(self, member: int, sort: int) -> int:
        has = self.has[member].get(sort, 0)
        if has >= self.owns[member].get(sort, 0):
            return 0
        ages = self._ages.get(member * self.sorts + sort)
        return -self.move - ages[has] if ages else -self.move

    def sort_for(self, giver: int, taker: int, price: int) -> int | None:
        """What one can be given at this price."""
        for sort in self.has[giver]:
            if self.crowds[sort] >> taker & 1 and self._giving(giver, sort) + self._taking(taker, sort) == price:
                return sort
        return None

    def hand_on(self, giver: int, taker: int, sort: int) -> None:
        """Give one of a sort."""
        mine, others = self.has[giver], self.has[taker]
        mine[sort] -= 1
        others[sort] = others.get(sort, 0) + 1
        for member in (giver, taker):
            if owned := self.owns[member].get(sort, 0):
                self._lack[sort] &= ~(1 << member)
                self._lack[sort] |= (self.has[member][sort] < owned) << member
                self._changed.add(sort)
        if not mine[sort]:
            del mine[sort]
        self._stale |= 1 << giver | 1 << taker
        self.load[giver] -= 1
        self.load[taker] += 1

    def gain(self, load: int) -> int:
        """What it costs that a load becomes one more than this."""
        return self.balance * (2 * load + 1)

    def changes(self) -> _Changes:
        """What everybody has now instead of what it had at first; what it owns is forgotten."""
        self._count_free(1)
        gives, takes = dict[int, int](), list[int]()
        for member, (old, new) in enumerate(zip(self.owns, self.has, strict=True)):
            if old != new:
                for sort in sorted(old.keys() | new.keys()):
                    more = new.get(sort, 0) - old.get(sort, 0)
                    if more < 0:
                        gives[member * self.sorts + sort] = -more
                    takes += [sort * self.size + member] * more
        takes.sort()
        members = np.array(takes, np.int64)
        members %= self.size
        return _Changes(np.array([*gives], np.int64), np.array([*gives.values()], np.int64), members)


class _Changes(NamedTuple):
    """Who gives how many of a sort, as ``member * sorts + sort``, ascending; and who takes one, by sort."""

    cells: Ints
    counts: Ints
    takers: Ints


def moved(ownership: Ownership, guess: Ints, crowds: Crowds) -> Ints | None:
    """The best target there is; None if that takes too long.  By the guess owners keep all; racks don't matter."""
    hands, eaters = _Hands(ownership, guess, crowds), ownership.space.eaters.tolist()
    if not (_levelled(hands, eaters) and _finished(hands, eaters)):
        return None
    changes = hands.changes()
    del hands  # the room is needed
    return _settled(ownership, guess, crowds, changes)


def _levelled(hands: _Hands, eaters: list[int]) -> bool:
    """Hand on from above the mean to below it; False if that takes too long.

    Whoever can't be reached so has a lower mean, or a higher one: they are looked at without the others.
    """
    groups = [eaters]
    while groups:
        among = groups.pop()
        loads = [hands.load[member] for member in among]
        if max(loads) <= min(loads) + 1:
            continue
        mean = sum(loads) / len(loads)
        if backwards := max(loads) + min(loads) < 2 * mean:
            starts = {member: 0 for member, load in zip(among, loads, strict=True) if load <= mean - 1}
        else:
            starts = {member: 0 for member, load in zip(among, loads, strict=True) if load >= mean + 1}
        found = _searched(hands.arcs(among, backwards), starts, sum(1 << member for member in among))
        if found is None:
            return False
        if _followed(hands, _Found(starts, *found, backwards), mean):
            groups.append(among)
        elif rest := [member for member in among if member not in found[0]]:
            groups += [list(found[0]), rest]
    return True


def _finished(hands: _Hands, eaters: list[int]) -> bool:
    """Hand on until no chain pays, from whomever, each for what his load is worth; False if that takes too long."""
    while True:
        starts = {member: -hands.gain(hands.load[member] - 1) for member in eaters}
        found = _searched(hands.arcs(eaters), starts, (1 << hands.size) - 1)
        if found is None:
            return False
        if not _followed(hands, _Found(starts, *found, False)):
            return True


class _Found(NamedTuple):
    """The cheapest chains from any start to each member: what they cost, and who comes before."""

    starts: dict[int, int]
    cost: dict[int, int]
    before: dict[int, int]
    backwards: bool


def _searched(arcs: _Arcs, starts: dict[int, int], among: int) -> tuple[dict[int, int], dict[int, int]] | None:
    """What the cheapest chain costs from any start to each member that is reached, and who comes before.

    None if it takes too long.
    """
    cost, before, at, visits, others = dict(starts), dict[int, int](), dict[int, int](), 0, ~among
    for member, its in cost.items():
        at[its] = at.get(its, 0) | 1 << member
    costs = list(at)
    heapify(costs)
    while costs:
        left = members = at.pop(its := heappop(costs))
        near = dict[int, int]()
        while left:
            member = (left & -left).bit_length() - 1
            left &= left - 1
            if cost[member] != its:
                continue
            visits += 1
            for price, who in arcs[member].items():
                known = near.get(price, members | others if price >= 0 else others)
                new = who & ~known
                if not new:
                    continue
                near[price], less = known | who, its + price
                while new:
                    bit = new & -new
                    new ^= bit
                    other = bit.bit_length() - 1
                    if other not in cost or cost[other] > less:
                        cost[other], before[other] = less, member
                        if less in at:
                            at[less] |= bit
                        else:
                            at[less] = bit
                            heappush(costs, less)
        if visits > MOST_VISITS:
            return None
    return cost, before


def _turned(arcs: _Arcs, members: Iterable[int]) -> _Arcs:
    """By member, from which of these it can be given what at which price."""
    found: _Arcs = [{} for _ in arcs]
    for member in members:
        for price, who in arcs[member].items():
            left = who
            while left:
                bit = left & -left
                left ^= bit
                its = found[bit.bit_length() - 1]
                its[price] = its.get(price, 0) | 1 << member
    return found


def _followed(hands: _Hands, found: _Found, mean: float | None = None) -> bool:
    """Hand on along all chains that pay, the best first, and to beyond the mean at most; whether any did."""
    any_did, closed, chains = False, set[int](), list[tuple[int, int, int]]()
    for last in found.before:
        if mean is not None and (hands.load[last] <= mean if found.backwards else hands.load[last] >= mean):
            continue
        root = _chain(last, found.before)[-1]
        if (worth := _worth(hands, found, root, last, mean)) < 0:
            chains.append((worth, last, root))
    chains.sort()
    nodes = {last: bytes(_chain(last, found.before)) for _, last, _ in chains}  # in small groups every number is a byte
    while chains:
        left = []
        for each in chains:
            _, last, root = each
            if _worth(hands, found, root, last, mean) < 0 and closed.isdisjoint(nodes[last]):
                if (stuck := _handed(hands, found, nodes[last])) is None:
                    any_did = True
                    left.append(each)
                else:
                    closed.add(stuck)
        chains = left
    return any_did


def _worth(hands: _Hands, found: _Found, root: int, last: int, mean: float | None) -> int:
    """What it costs to hand one on between these two; nothing where the mean forbids it."""
    giver, taker = (hands.load[last], hands.load[root]) if found.backwards else (hands.load[root], hands.load[last])
    if mean is not None and not giver > mean > taker:
        return 0
    return 2 * hands.balance * (taker + 1 - giver) + found.cost[last] - found.starts[root]


def _handed(hands: _Hands, found: _Found, nodes: bytes) -> int | None:
    """Hand one on all along a chain; or whom it doesn't reach, since there is no such left at that price."""
    hops = list[tuple[int, int, int]]()
    for after, member in pairwise(reversed(nodes)):
        giver, taker = (member, after) if found.backwards else (after, member)
        sort = hands.sort_for(giver, taker, found.cost[member] - found.cost[after])
        if sort is None:
            return member
        hops.append((giver, taker, sort))
    for hop in hops:
        hands.hand_on(*hop)
    return None


def _chain(last: int, before: dict[int, int]) -> list[int]:
    chain = [last]
    while (member := before.get(chain[-1])) is not None:
        chain.append(member)
    return chain


def _members(bits: int) -> Iterator[int]:
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1


def _counted(member: Ints, sort: Ints, size: int, sorts: int) -> list[dict[int, int]]:
    """By member, how many it has of each sort."""
    found: list[dict[int, int]] = [{} for _ in range(size)]
    there = np.flatnonzero(member >= 0)
    cells, counts = np.unique(member[there] * sorts + sort[there], return_counts=True)
    for whose, its, count in zip(*(each.tolist() for each in (*np.divmod(cells, sorts), counts)), strict=True):
        found[whose][its] = count
    return found


def _ages(ownership: Ownership, sort: Ints, sorts: int) -> dict[int, list[int]]:
    """How long what each member owns of a sort has been held, the longest first; nothing if all as long."""
    places = np.flatnonzero(ownership.member >= 0)
    if ownership.since is None or not len(places):
        return {}
    ages = ownership.since[places]
    ages = ages.max() - ages
    if not ages.any():
        return {}
    found: dict[int, list[int]] = {}
    order = np.argsort(-ages, kind="stable")
    cells = ownership.member[places] * sorts + sort[places]
    for cell, age in zip(cells[order].tolist(), ages[order].tolist(), strict=True):
        found.setdefault(cell, []).append(age)
    return found


def _settled(ownership: Ownership, guess: Ints, crowds: Crowds, changes: _Changes) -> Ints:
    """By place who is to have it: everybody gives first what isn't its own, then what it acquired last."""
    topic, (cells, counts, takers) = ownership.space.topic, changes
    if not len(cells):
        return guess
    mine = guess * len(crowds.bits)
    mine += crowds.sort_of[topic]
    at = np.searchsorted(cells[:-1], mine)  # the first that is no less; the last one, if there is none
    mine -= cells[at]
    places = first_to_go(ownership, guess, np.flatnonzero(mine == 0))
    at = at[places]
    order = np.argsort(at, kind="stable")
    places, at = places[order], at[order]
    places = places[np.arange(len(at)) - np.searchsorted(at, at) < counts[at]]
    target = guess.copy()
    target[places[np.lexsort((places, crowds.sort_of[topic[places]]))]] = takers
    return target


def first_to_go(ownership: Ownership, target: Ints, places: Ints) -> Ints:
    """These places, which somebody has, in the order in which he gives them up: what he doesn't own, then what came last."""
    space = ownership.space
    own, topic = ownership.member[places] == target[places], space.topic[places]
    number = space.base[topic]
    number -= places  # the highest before
    if ownership.since is None:
        return places[np.lexsort((topic, number, own))]
    since = ownership.since[places]
    return places[np.lexsort((topic, number, np.negative(since, out=since), own))]
