"""Balance alone, for tables in which there is much to balance: many chains of members at a time.

A chain hands one partition on from each row to the next, so that only the load of its first row falls and that of
its last rises.  All loads are as even as they can be if and only if no chain leads from a member to one that has two
fewer (there is no cheaper flow, see ``exchange``).  For every row the highest load is looked for from which a chain
leads to it; then all chains are taken that help and have no row or group in common.

>>> table = Table(np.array([[4, 0], [0, 4], [0, 0]]), *(np.zeros((3, 2), np.int64),
...     np.array([[True, True], [False, True], [True, False]]), np.zeros((3, 2), np.bool_)), np.ones(3, np.int64))
>>> level(table)
>>> table.has.sum(axis=1).tolist()
[3, 3, 2]
"""

from __future__ import annotations

import numpy as np

from sparkcohort.assignors.exchange import Table, last
from sparkcohort.assignors.packed import Ints

_NONE = -1


def level(table: Table) -> None:
    """Change ``table.has`` to one with the least sum of squares of the members' loads."""
    while chains := _chains(table):
        for rows, groups in chains:
            times = _times(table, rows, groups)
            table.has[rows[:-1], groups] -= times
            table.has[rows[1:], groups] += times


def _chains(table: Table) -> list[tuple[list[int], list[int]]]:
    """The rows and, between them, the groups of disjoint chains that help, those that help most first."""
    load = table.has.sum(axis=1)
    from_row, from_group, highest = _highest(table, np.where(load > 0, (load - 1) // table.members, _NONE))
    helps = highest - load // table.members
    used: set[tuple[str, int]] = set()
    chains = []
    for row in np.argsort(-helps, kind="stable")[: int(np.count_nonzero(helps > 0))].tolist():
        rows, groups = [row], list[int]()
        while (group := int(from_group[rows[-1]])) != _NONE:
            groups.append(group)
            rows.append(int(from_row[group]))
        nodes = {*(("row", node) for node in rows), *(("group", node) for node in groups)}
        if used.isdisjoint(nodes):
            used |= nodes
            chains.append((rows[::-1], groups[::-1]))
    return chains


def _highest(table: Table, own: Ints) -> tuple[Ints, Ints, Ints]:
    """By group the row, by row the group (-1: none) through which the highest load comes to it; by row that load."""
    row, group = own.copy(), np.full(table.has.shape[1], _NONE)
    from_row, from_group = np.full(len(group), _NONE), np.full(len(row), _NONE)
    while True:
        has = np.where(table.has > 0, row[:, None], _NONE)
        best = has.argmax(axis=0)
        found = has[best, np.arange(len(group))]
        better = np.flatnonzero(found > group)
        group[better], from_row[better] = found[better], best[better]
        wants = np.where(table.wants, group, _NONE)
        best = wants.argmax(axis=1)
        found = wants[np.arange(len(row)), best]
        better = np.flatnonzero(found > row)
        row[better], from_group[better] = found[better], best[better]
        if not len(better):
            return from_row, from_group, row


def _times(table: Table, rows: list[int], groups: list[int]) -> int:
    """How often a chain can be gone along and helps."""
    load = table.has.sum(axis=1)
    high, low = (int(load[row]) for row in (rows[0], rows[-1]))
    above, below = (int(table.members[row]) for row in (rows[0], rows[-1]))
    return last(
        lambda time: (high - time) // above > (low + time - 1) // below, int(table.has[rows[:-1], groups].min())
    )
