"""Turns a table, how many of each group each row has, into an assignment: the member of each place.

A member keeps the oldest partitions that it owns, as far as the table and its equal share of the row's load allow.  A
row takes the rest of its count from unplaced partitions: first those of the guess, then in order of topic and number.
It shares them out among its members.

Law: each row has the table's count of each group, and its members differ by one at most.  C0 had all of t0 and t1,
which C1 now wants, too.  So both are in one row, and all six partitions in one group:

>>> from sparkcohort.assignors.api import MemberSubscription
>>> from sparkcohort.assignors.solver.ownership import resolve_ownership
>>> from sparkcohort.assignors.solver.packed import Packed
>>> C0 = MemberSubscription(("t0", "t1"), tuple((topic, number) for topic in ("t0", "t1") for number in range(3)))
>>> owned = resolve_ownership({"t0": 3, "t1": 3}, {"C0": C0, "C1": MemberSubscription(("t0", "t1"))})
>>> alike = ClassLayout(np.zeros(2, np.int64), np.zeros(6, np.int64), np.array([[True]]), np.array([[False]]))
>>> Packed(owned.space, round_table(owned, alike, owned.member, np.array([[6]])))
{'C0': (('t0', 0), ('t0', 1), ('t1', 0)), 'C1': (('t0', 2), ('t1', 1), ('t1', 2))}
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparkcohort.assignors.solver.equal import oldest_first
from sparkcohort.assignors.solver.ownership import Ownership
from sparkcohort.assignors.solver.space import NO_MEMBER, Bools, Ints, by_key


@dataclass(frozen=True)
class ClassLayout:
    """The row of each member (-1: it wants nothing), and the group of each place (-1: it has no subscriber).

    ``wants`` and ``far`` are by row and group: whether its members subscribe to it, and whether it is far from them.
    """

    row_of: Ints
    group_of: Ints
    wants: Bools
    far: Bools

    @property
    def rows(self) -> int:
        """How many rows."""
        return len(self.wants)

    @property
    def groups(self) -> int:
        """How many groups."""
        return int(self.wants.shape[1])

    def cells(self, places: Ints, members: Ints) -> Ints:
        """The cells of the table, counted row by row, of these places with these members."""
        numbers: Ints = self.row_of[members]
        numbers *= self.groups
        numbers += self.group_of[places]
        return numbers

    def count(self, target: Ints) -> Ints:
        """The table of an assignment."""
        places = np.flatnonzero(target >= 0)
        cells = np.bincount(self.cells(places, target[places]), minlength=self.rows * self.groups)
        return cells.reshape(self.wants.shape)


def round_table(ownership: Ownership, layout: ClassLayout, guess: Ints, table: Ints) -> Ints:
    """Give every wanted place to a member so that each row has what the table says and its members equal shares."""
    shares = _shares(ownership, layout, guess, table.sum(axis=1))
    target = _trim_owners(ownership, layout, table.ravel(), shares)
    lacks = table.ravel() - layout.count(target).ravel()
    places = np.flatnonzero((target < 0) & (layout.group_of >= 0))
    row, member = _rows(layout, places, guess, lacks)
    loads = np.bincount(target[target >= 0], minlength=len(shares))
    # A member with more than its share by the guess gives up the last ones.
    guessed = np.flatnonzero(member >= 0)
    too_many = loads[member[guessed]] + rank_within(member[guessed]) >= shares[member[guessed]]
    member[guessed[too_many]] = NO_MEMBER
    loads += np.bincount(member[member >= 0], minlength=len(shares))
    unplaced = np.flatnonzero(member < 0)
    unplaced = unplaced[np.argsort(row[unplaced], kind="stable")]
    member[unplaced] = _members_in_turn(layout.row_of, shares - loads)
    target[places] = member
    return target


def rank_within(keys: Ints) -> Ints:
    """By key, how many equal ones stand before it."""
    order = by_key(keys, int(keys.max(initial=0)) + 1)
    sizes = np.bincount(keys, minlength=1)
    position = np.arange(len(keys))
    position -= np.repeat(np.cumsum(sizes) - sizes, sizes)
    rank = np.empty(len(keys), np.int64)
    rank[order] = position
    return rank


def _shares(ownership: Ownership, layout: ClassLayout, guess: Ints, loads: Ints) -> Ints:
    """How many each member gets: equal in a row, one more for the owners of more, the oldest holdings first."""
    size = len(layout.row_of)
    subscribers = np.flatnonzero(layout.row_of >= 0)
    rows = layout.row_of[subscribers]
    fewest, one_more = np.divmod(loads, np.bincount(rows, minlength=len(loads)))
    owned = np.bincount(ownership.member[ownership.member >= 0], minlength=size)[subscribers]
    guessed = np.bincount(guess[guess >= 0], minlength=size)[subscribers]
    rich = owned > fewest[rows]
    acquisitions = np.zeros(len(subscribers), np.int64)
    if ownership.acquisitions is not None and rich.any():
        mask = np.zeros(size, np.bool_)
        mask[subscribers[rich]] = True
        places, starts = oldest_first(ownership, mask)
        acquisitions[rich] = ownership.acquisitions[places[starts[subscribers[rich]] + fewest[rows[rich]]]]
    order = np.lexsort((-guessed, acquisitions, ~rich, rows))
    shares = np.zeros(size, np.int64)
    shares[subscribers] = fewest[rows]
    first = order[rank_within(rows[order]) < one_more[rows[order]]]
    shares[subscribers[first]] += 1
    return shares


def _trim_owners(ownership: Ownership, layout: ClassLayout, cells: Ints, shares: Ints) -> Ints:
    """The places that stay with their owners; all other places have no member."""
    target, shrinks = ownership.member.copy(), layout.count(ownership.member).ravel() - cells
    surplus = np.bincount(target[target >= 0], minlength=len(shares)) - shares
    if (surplus > 0).any():
        places, cell = _youngest_first(ownership, layout, surplus > 0)
        shrinking = rank_within(cell) < shrinks[cell]  # the youngest of those cells that are to shrink
        del cell
        places = np.concatenate((places[shrinking], places[~shrinking]))
        members = target[places]
        target[places[rank_within(members) < surplus[members]]] = NO_MEMBER
    excess = layout.count(target).ravel() - cells
    if (excess > 0).any():
        # A cell with more than the table allows loses its youngest, of any member.
        rows = excess.reshape(layout.wants.shape).max(axis=1) > 0
        places, cell = _youngest_first(ownership, layout, (layout.row_of >= 0) & rows[layout.row_of])
        stay = target[places] >= 0
        places, cell = places[stay], cell[stay]
        target[places[rank_within(cell) < excess[cell]]] = NO_MEMBER
    return target


def _youngest_first(ownership: Ownership, layout: ClassLayout, mask: Bools) -> tuple[Ints, Ints]:
    """The places that the members of ``mask`` own, the youngest first; and the cell of each."""
    places = oldest_first(ownership, mask)[0][::-1]
    if ownership.acquisitions is not None and len(places):
        ages = ownership.acquisitions[places]
        np.subtract(ages.max(), ages, out=ages)
        if most := int(ages.max()):
            places = places[by_key(ages, most + 1)]
    return places, layout.cells(places, ownership.member[places])


def _rows(layout: ClassLayout, places: Ints, guess: Ints, lacks: Ints) -> tuple[Ints, Ints]:
    """The row of each place, so that every cell gets what it lacks; and the place's member, if it is that of the guess."""
    member, group = guess[places], layout.group_of[places]
    cell = np.where(member >= 0, layout.row_of[member] * layout.groups + group, NO_MEMBER)
    guessed = np.flatnonzero(member >= 0)
    fits = guessed[rank_within(cell[guessed]) < lacks[cell[guessed]]]
    row = np.full(len(places), NO_MEMBER)
    row[fits] = layout.row_of[member[fits]]
    member[row < 0] = NO_MEMBER
    lacks = lacks - np.bincount(cell[fits], minlength=len(lacks))
    by_group = lacks.reshape(layout.wants.shape).T.ravel()
    unplaced = np.flatnonzero(row < 0)
    unplaced = unplaced[np.argsort(group[unplaced], kind="stable")]
    row[unplaced] = np.repeat(np.tile(np.arange(layout.rows), layout.groups), by_group)
    return row, member


def _members_in_turn(row_of: Ints, lacks: Ints) -> Ints:
    """Each member as often as it lacks one, row by row, and in a row round by round."""
    members = np.repeat(np.arange(len(lacks)), lacks)
    sequence: Ints = members[np.lexsort((members, rank_within(members), row_of[members]))]
    return sequence
