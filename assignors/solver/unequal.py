"""Balance among members that are not all alike: different topics, or different racks.

All members of a Cohort group want the same topics; racks are what makes them different.  A guess knows nothing of
racks: with equal subscriptions it is that of ``equal``, otherwise owners keep all, and free partitions go to the members
with the fewest.  It is improved in a table (``cycles``) with a row for each member and a column for each kind of
partition (same subscribers, same racks).  Then each member keeps the oldest that it owns, as far as the table allows.

Law: as for ``sticky``, as far as ``MOST_WORK`` allows: a larger group keeps the guess, or what became of it.  C0 wants t0
and C1 both, so C1 gets all of t1.  With racks, each gets the partitions near it:

>>> members = {"C0": MemberSubscription(("t0",), rack="a"), "C1": MemberSubscription(("t0", "t1"), rack="b")}
>>> def arranged(topics, racks):
...     ownership = resolve_ownership(topics, members)
...     near, guess = nearness(ownership.space, racks), share_unequally(ownership)
...     return Packed(ownership.space, exchange_partitions(ownership, near, guess))
>>> arranged({"t0": 3, "t1": 3}, {})
{'C0': (('t0', 0), ('t0', 1), ('t0', 2)), 'C1': (('t1', 0), ('t1', 1), ('t1', 2))}
>>> arranged({"t0": 4}, {"t0": [["b"], ["a"], ["b"], ["a"]]})
{'C0': (('t0', 1), ('t0', 3)), 'C1': (('t0', 0), ('t0', 2))}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from sparkcohort.assignors.api import MemberSubscription
from sparkcohort.assignors.solver.cycles import Table, improve_table
from sparkcohort.assignors.solver.equal import oldest_first
from sparkcohort.assignors.solver.ownership import Ownership, resolve_ownership
from sparkcohort.assignors.solver.packed import Packed
from sparkcohort.assignors.solver.racks import Nearness, nearness
from sparkcohort.assignors.solver.space import NO_MEMBER, Bools, Ints, by_key, give_to_least

__all__ = ["MemberSubscription", "Packed", "exchange_partitions", "nearness", "resolve_ownership", "share_unequally"]

MOST_WORK: Final = 1 << 26
"""Cells of the table, times rounds: a second or two."""
MOST_CELLS: Final = 1 << 21


def share_unequally(ownership: Ownership) -> Ints:
    """By place its member: owners keep all, and topics with the fewest subscribers are shared first, as evenly as these allow."""
    space, target = ownership.space, ownership.member.copy()
    class_of, first = space.partition_classes
    wants = space.wants[:, first]
    loads = np.bincount(target[target >= 0], minlength=len(space.ids))
    free = np.flatnonzero((target < 0) & space.has_subscriber)
    sort = class_of[space.topic[free]]
    free, sizes = free[by_key(sort, len(first))], np.bincount(sort, minlength=len(first))
    ends = np.cumsum(sizes)
    subscribers = np.bincount(space.kind, minlength=len(wants)) @ wants
    order = np.argsort(subscribers, kind="stable")
    for index in order[sizes[order] > 0].tolist():
        places = free[ends[index] - sizes[index] : ends[index]]
        target[places] = give_to_least(len(places), np.flatnonzero(wants[space.kind, index]), loads)
    return target


def exchange_partitions(ownership: Ownership, near: Nearness, guess: Ints) -> Ints:
    """The target after all exchanges that make it more even, nearer to replicas, or with fewer moves."""
    if not near.matters and _is_best(ownership, guess):
        return guess
    layout = _lay_out(ownership, near)
    if not 0 < layout.wants.size <= MOST_CELLS:
        return guess
    counts = layout.count(guess)
    table = Table(counts.copy(), layout.count(ownership.member), layout.wants, layout.far, _ages(ownership, layout))
    improve_table(table, MOST_WORK // counts.size)
    return guess if (table.counts == counts).all() else _place_partitions(ownership, layout, table.counts)


def _is_best(ownership: Ownership, guess: Ints) -> bool:
    """Whether the guess is the best if racks don't matter: loads are equal or differ by one, and owners keep all."""
    loads = np.bincount(guess[guess >= 0], minlength=len(ownership.space.ids))[ownership.space.subscribers]
    return bool(loads.max(initial=0) - loads.min(initial=len(guess)) <= 1)


@dataclass(frozen=True)
class _TableLayout:
    """A row for each member, and the group of each place (-1: it has no subscriber); ``wants`` and ``far`` as in Table."""

    group_of: Ints
    wants: Bools
    far: Bools

    def cells(self, places: Ints, members: Ints) -> Ints:
        """The cells of the table, counted row by row, of these places with these members."""
        numbers: Ints = members * self.wants.shape[1] + self.group_of[places]
        return numbers

    def count(self, target: Ints) -> Ints:
        """The table of an assignment."""
        places = np.flatnonzero(target >= 0)
        cells = np.bincount(self.cells(places, target[places]), minlength=self.wants.size)
        return cells.reshape(self.wants.shape)


def _lay_out(ownership: Ownership, near: Nearness) -> _TableLayout:
    space = ownership.space
    class_of, first = space.partition_classes
    keys = np.repeat(class_of * near.far.shape[1], space.counts) + near.of_place
    keys[~space.has_subscriber] = NO_MEMBER
    groups = np.flatnonzero(np.bincount(keys[keys >= 0], minlength=1))
    classes, sites = np.divmod(groups, near.far.shape[1])
    return _TableLayout(
        np.where(keys >= 0, np.searchsorted(groups, keys), NO_MEMBER),
        space.wants[np.ix_(space.kind, first[classes])],
        near.far[np.ix_(near.of_member, sites)],
    )


def _ages(ownership: Ownership, layout: _TableLayout) -> Ints:
    """How long each owned partition has been held, by row, then group, then the oldest first."""
    places = np.flatnonzero(ownership.member >= 0)
    if ownership.acquisitions is None or not len(places):
        return np.zeros(len(places), np.int64)
    generations = ownership.acquisitions[places]
    cells = layout.cells(places, ownership.member[places])
    ages: Ints = generations.max() - generations[np.lexsort((generations, cells))]
    return ages


def _place_partitions(ownership: Ownership, layout: _TableLayout, counts: Ints) -> Ints:
    """The member of each place: owners keep the oldest of each group, the rest is dealt in turn, group by group."""
    target = np.full(ownership.space.places, NO_MEMBER)
    places, _ = oldest_first(ownership, np.ones(len(counts), np.bool_))
    cells = layout.cells(places, ownership.member[places])
    places = places[_rank_within(cells) < counts.ravel()[cells]]
    target[places] = ownership.member[places]
    free = np.flatnonzero((target < 0) & (layout.group_of >= 0))
    free = free[np.argsort(layout.group_of[free], kind="stable")]
    rows, groups = np.divmod(np.arange(counts.size), counts.shape[1])
    takers = np.repeat(np.arange(counts.size), (counts - layout.count(target)).ravel())
    target[free] = rows[takers[np.lexsort((takers, _rank_within(takers), groups[takers]))]]
    return target


def _rank_within(keys: Ints) -> Ints:
    """By key, how many equal ones stand before it."""
    order = by_key(keys, int(keys.max(initial=0)) + 1)
    sizes = np.bincount(keys, minlength=1)
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.arange(len(keys)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rank
