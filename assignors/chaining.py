"""Balance in small fresh groups: one chain of members after the other, each found by looking at members as bits.

A chain hands one partition on from each member to the next, so that only the load of its first falls and that of its
last rises.  It helps if the last one has two fewer.  From whom who has most can't be relieved, nobody can be reached
who has two fewer: all whom it reaches are done with, since nobody else can gain there either.

Law: then the sum of the squares of the loads is the least there is (see ``levelling``, which does the same in tables).
C0 has all of t0, which C1 wants too, C1 all of t1, which C2 wants too, and C2 has nothing:

>>> members = {"C0": MemberSubscription(("t0",)), "C1": MemberSubscription(("t0", "t1")), "C2": MemberSubscription(("t1",))}
>>> space = Space({"t0": 3, "t1": 3}, members)
>>> even_out(space, np.array([0, 0, 0, 1, 1, 1]), Crowds(space)).tolist()
[0, 0, 1, 1, 2, 2]
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from sparkcohort.assignors.base import MemberSubscription
from sparkcohort.assignors.guessing import Crowds
from sparkcohort.assignors.packed import Ints, Space

__all__ = ["MemberSubscription", "even_out", "is_small"]

MOST_MEMBERS: Final = 1 << 7
MOST_PLACES: Final = 1 << 11


class _Hands:
    """What everybody has: by member the places of each sort; and whom it reaches with them, as bits of one number."""

    def __init__(self, space: Space, target: Ints, crowds: Crowds) -> None:
        self._crowds = crowds.bits
        self.places: list[dict[int, list[int]]] = [{} for _ in space.ids]
        there = np.flatnonzero(target >= 0)
        sort = crowds.sort_of[space.topic[there]]
        for place, member, its in zip(there.tolist(), target[there].tolist(), sort.tolist(), strict=True):
            self.places[member].setdefault(its, []).append(place)
        self.load = [sum(map(len, mine.values())) for mine in self.places]
        self.reach = [0] * len(space.ids)
        for member in range(len(space.ids)):
            self._look(member)

    def _look(self, member: int) -> None:
        self.reach[member] = 0
        for sort in self.places[member]:
            self.reach[member] |= self._crowds[sort]

    def hand_on(self, giver: int, taker: int) -> int:
        """Give one of whatever the taker wants; its place."""
        mine = self.places[giver]
        for sort in mine:
            if self._crowds[sort] >> taker & 1:
                break
        place = mine[sort].pop()
        if not mine[sort]:
            del mine[sort]
            self._look(giver)
        self.places[taker].setdefault(sort, []).append(place)
        self.reach[taker] |= self._crowds[sort]
        self.load[giver] -= 1
        self.load[taker] += 1
        return place


def is_small(space: Space) -> bool:
    """Whether a group is small enough to look at it member by member."""
    return space.places <= MOST_PLACES and len(space.ids) <= MOST_MEMBERS


def even_out(space: Space, guess: Ints, crowds: Crowds) -> Ints:
    """The guess, by place the member, made one with the least sum of squares of the members' loads."""
    target, hands, at = guess.copy(), _Hands(space, guess, crowds), dict[int, int]()  # at: by load, whose it is
    for member in space.eaters.tolist():
        at[hands.load[member]] = at.get(hands.load[member], 0) | 1 << member
    while at:
        load = max(at)
        low = sum(members for less, members in at.items() if less <= load - 2)
        if not low:
            break
        chain, seen = _chain(hands.reach, (at[load] & -at[load]).bit_length() - 1, low)
        for giver, taker in pairwise(chain):
            target[hands.hand_on(giver, taker)] = taker
        for member in chain[:1] + chain[-1:]:
            seen |= 1 << member
        at = {load: left for load, members in at.items() if (left := members & ~seen)}
        for member in chain[:1] + chain[-1:]:
            at[hands.load[member]] = at.get(hands.load[member], 0) | 1 << member
    return target


def _chain(reach: list[int], first: int, low: int) -> tuple[list[int], int]:
    """A shortest chain from the first to one of the ``low``; if there is none, who was seen on the way."""
    came_from, seen, queue = {first: first}, 1 << first, [first]
    for member in queue:
        new = reach[member] & ~seen
        seen |= new
        if found := new & low:
            chain = [(found & -found).bit_length() - 1, member]
            while chain[-1] != first:
                chain.append(came_from[chain[-1]])
            return chain[::-1], 0
        while new:
            following = (new & -new).bit_length() - 1
            came_from[following] = member
            queue.append(following)
            new &= new - 1
    return [], seen
