"""Balance among members that are not all alike: different topics, or different racks.

First owners keep all, and free partitions go to the members with the fewest (``initial``).  This is improved in a table
(``cycles``) with a row for each kind of member (same topics, same rack) and a column for each kind of partition.  The
table is small even for many members and partitions, and exact for balance and racks.  ``rounding`` turns the table into
an assignment again.  Then once more with a row for each member, since members of one kind own different partitions:
this makes moves and ages exact, too.  In groups where it would take too long (``MOST_WORK``) they are nearly exact.

Law: as for ``sticky``.  C0 wants t0 and C1 both, so C1 gets all of t1.  With racks, each gets the partitions near it:

>>> members = {"C0": MemberSubscription(("t0",), rack="a"), "C1": MemberSubscription(("t0", "t1"), rack="b")}
>>> def arranged(topics, racks):
...     ownership = resolve_ownership(topics, members)
...     return arrange_partitions(ownership, nearness(ownership.space, racks))
>>> arranged({"t0": 3, "t1": 3}, {})
{'C0': (('t0', 0), ('t0', 1), ('t0', 2)), 'C1': (('t1', 0), ('t1', 1), ('t1', 2))}
>>> arranged({"t0": 4}, {"t0": [["b"], ["a"], ["b"], ["a"]]})
{'C0': (('t0', 1), ('t0', 3)), 'C1': (('t0', 0), ('t0', 2))}
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from sparkcohort.assignors.api import MemberSubscription
from sparkcohort.assignors.solver.cycles import Table, improve_table
from sparkcohort.assignors.solver.initial import SubscriptionKinds, initial_assignment
from sparkcohort.assignors.solver.levels import can_take, level_loads, relieve_rows
from sparkcohort.assignors.solver.ownership import Ownership, resolve_ownership
from sparkcohort.assignors.solver.packed import Packed
from sparkcohort.assignors.solver.racks import Nearness, nearness
from sparkcohort.assignors.solver.rounding import ClassLayout, round_table
from sparkcohort.assignors.solver.space import NO_MEMBER, Ints, by_key

__all__ = ["MemberSubscription", "arrange_partitions", "nearness", "resolve_ownership"]

MOST_WORK: Final = 1 << 26
MOST_CELLS: Final = 1 << 17
MOST_TAKERS: Final = 16


def arrange_partitions(ownership: Ownership, near: Nearness) -> Packed:
    """Balance, near members' racks where possible, with the fewest moves."""
    target = initial_assignment(ownership, SubscriptionKinds(ownership.space))
    if near.matters or not _is_best(ownership, target):
        target = _exchanged(ownership, near, target)
    return Packed(ownership.space, target, ownership)


def _is_best(ownership: Ownership, guess: Ints) -> bool:
    """Whether the guess is the best if racks don't matter: loads are equal or differ by one, and owners keep all."""
    loads = np.bincount(guess[guess >= 0], minlength=len(ownership.space.ids))[ownership.space.subscribers]
    return bool(loads.max(initial=0) - loads.min(initial=len(guess)) <= 1)


def _exchanged(ownership: Ownership, near: Nearness, target: Ints) -> Ints:
    """The target after all exchanges that make it better."""
    layout = _layout(ownership, near)
    if layout.groups:
        alone = _individuals(layout) if (ownership.member >= 0).any() else layout
        takers = MOST_TAKERS + 1 if alone is layout else _takers(alone, target)
        if takers > MOST_TAKERS:
            target = _improved(ownership, layout, target)
        if takers <= MOST_TAKERS or alone.rows > layout.rows:
            target = _improved(ownership, alone, target, gives=takers > 0)
    return target


def _takers(alone: ClassLayout, target: Ints) -> int:
    """How many members can take any: few if one has joined, none if one has left; large if counting takes too long."""
    if alone.far.any() or alone.wants.size > MOST_CELLS:
        return MOST_TAKERS + 1
    counts = alone.count(target)
    return len(can_take(counts, alone.wants, counts.sum(axis=1)))


def _layout(ownership: Ownership, near: Nearness) -> ClassLayout:
    """A row for each kind of member, a group for each kind of partition."""
    space = ownership.space
    subscribers = space.subscribers
    rows, row = np.unique(space.kind[subscribers] * len(near.far) + near.of_member[subscribers], return_inverse=True)
    class_of, first = space.partition_classes
    keys = np.repeat(np.where(space.wants.any(axis=0), class_of * near.far.shape[1], NO_MEMBER), space.counts)
    if near.matters:
        keys += np.where(keys >= 0, near.of_place, 0)
    groups = np.flatnonzero(np.bincount(keys[keys >= 0], minlength=1))
    number = np.full(int(groups[-1]) + 2 if len(groups) else 1, NO_MEMBER)  # the last one: places without a subscriber
    number[groups] = np.arange(len(groups))
    row_of = np.full(len(space.ids), NO_MEMBER)
    row_of[subscribers] = row
    classes, sites = np.divmod(groups, near.far.shape[1])
    kinds, homes = np.divmod(rows, len(near.far))
    return ClassLayout(row_of, number[keys], space.wants[np.ix_(kinds, first[classes])], near.far[np.ix_(homes, sites)])


def _individuals(layout: ClassLayout) -> ClassLayout:
    """The same layout with a row for each subscriber."""
    subscribers = np.flatnonzero(layout.row_of >= 0)
    row_of = np.full(len(layout.row_of), NO_MEMBER)
    row_of[subscribers] = np.arange(len(subscribers))
    kinds = layout.row_of[subscribers]
    return replace(layout, row_of=row_of, wants=layout.wants[kinds], far=layout.far[kinds])


def _improved(ownership: Ownership, layout: ClassLayout, target: Ints, *, gives: bool = True) -> Ints:
    """The target after all exchanges between rows that make it better; ``gives``: some owner has to lose partitions."""
    table = Table(
        counts=layout.count(target),
        owns=layout.count(ownership.member),
        wants=layout.wants,
        far=layout.far,
        members=np.bincount(layout.row_of[layout.row_of >= 0]),
        ages=_ages(ownership, layout) if gives else np.zeros(0, np.int64),
    )
    _improve_or_level(table, MOST_WORK // table.counts.size)
    if not gives and (table.counts < table.owns).any():
        return _improved(ownership, layout, target)
    counts, members = table.counts, table.members
    del table  # its memory is needed
    # The counts alone don't tell that owners keep their own: partitions of one kind may have been exchanged.
    owners_keep_all = not ((ownership.member >= 0) & (target != ownership.member)).any()
    if owners_keep_all and (counts == layout.count(target)).all() and _is_even(layout, target, members):
        return target
    return round_table(ownership, layout, target, counts)


def _improve_or_level(table: Table, most: int) -> None:
    if not table.owns.any():
        level_loads(table)
        if not table.far.any():
            return  # balance is all there is to improve
    elif (table.members == 1).all():
        relieve_rows(table)
    if not improve_table(table, most):
        # Out of budget: balance is made exact in any case, then the same budget goes to racks and moves.
        level_loads(table)
        improve_table(table, most)


def _ages(ownership: Ownership, layout: ClassLayout) -> Ints:
    """How long each owned partition has been held, by row, then group, then the oldest first; empty if all are equal."""
    places = np.flatnonzero(ownership.member >= 0)
    if ownership.acquisitions is None or not len(places):
        return places[:0]
    ages = ownership.acquisitions[places]
    ages -= ages.min()
    if not (most := int(ages.max())):
        return places[:0]
    order = by_key(ages, most + 1)
    cells = layout.cells(places, ownership.member[places])
    return most - ages[order[by_key(cells[order], layout.rows * layout.groups)]]


def _is_even(layout: ClassLayout, target: Ints, members: Ints) -> bool:
    """Whether the members of each row differ by one at most."""
    if (members == 1).all():
        return True
    loads = np.bincount(target[target >= 0], minlength=len(layout.row_of))
    row_of = layout.row_of[layout.row_of >= 0]
    most, least = np.zeros(len(members), np.int64), np.full(len(members), len(target) + 1)
    np.maximum.at(most, row_of, loads[layout.row_of >= 0])
    np.minimum.at(least, row_of, loads[layout.row_of >= 0])
    return bool((most - least <= 1).all())
