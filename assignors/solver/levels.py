"""Balance alone, for tables with much to balance: many chains of members at a time.

A chain hands on one partition from each row to the next: the load of its first row falls, that of its last rises.  The
loads are as even as possible if and only if no chain leads from a member to one with two fewer (see ``cycles``).  For
each row the highest load is computed from which a chain leads to it.  Then all chains are taken that help and have no
row or group in common.

Law: afterwards the sum of the squares of the loads is the least.  C0 has four of t0, which C2 wants too, and C1 four of
t1, which C0 wants too.  Rows are members, groups are topics:

>>> table = Table(np.array([[4, 0], [0, 4], [0, 0]]), *(np.zeros((3, 2), np.int64),
...     np.array([[True, True], [False, True], [True, False]]), np.zeros((3, 2), np.bool_)), np.ones(3, np.int64))
>>> level_loads(table)
>>> table.counts.sum(axis=1).tolist()
[3, 3, 2]
"""

from __future__ import annotations

import numpy as np

from sparkcohort.assignors.solver.cycles import NEVER, Table, find_last
from sparkcohort.assignors.solver.space import Bools, Ints

_ABSENT = -1


def level_loads(table: Table) -> None:
    """Change ``table.counts`` to the least sum of the squares of the members' loads."""
    while chains := _chains(table):
        for rows, groups in chains:
            times = _times(table, rows, groups)
            table.counts[rows[:-1], groups] -= times
            table.counts[rows[1:], groups] += times


def relieve_rows(table: Table) -> None:
    """Change ``table.counts``: the row with the fewest takes from rows with two more, the cheapest first.

    Rows are single members here.  It leaves little to ``improve_table``, and mostly nothing.
    """
    load = table.counts.sum(axis=1)
    while len(able := can_take(table.counts, table.wants, load)):
        least = int(able[load[able].argmin()])
        cost = table.cost_of_one_less() + table.cost_of_one_more()[least]
        group = cost.argmin(axis=1)
        cost = cost[np.arange(len(load)), group]
        gives = np.flatnonzero((cost < NEVER // 2) & (load > load[least] + 1))
        gives = gives[np.lexsort((cost[gives], -load[gives]))]
        gives = gives[: np.count_nonzero(load[gives] > load[least] + 1 + np.arange(len(gives)))]
        table.counts[gives, group[gives]] -= 1
        table.counts[least] += np.bincount(group[gives], minlength=table.counts.shape[1])
        load[gives] -= 1
        load[least] += len(gives)


def can_take(counts: Ints, wants: Bools, load: Ints) -> Ints:
    """The rows that can take one from a row with two more (rows are single members)."""
    highest = np.where(counts > 0, load[:, None], _ABSENT).max(axis=0, initial=_ABSENT)
    return np.flatnonzero(np.where(wants, highest, _ABSENT).max(axis=1, initial=_ABSENT) > load + 1)


def _chains(table: Table) -> list[tuple[list[int], list[int]]]:
    """The rows, and between them the groups, of disjoint chains that help, the best first."""
    load = table.counts.sum(axis=1)
    from_row, from_group, highest = _highest(table, np.where(load > 0, (load - 1) // table.members, _ABSENT))
    helps = highest - load // table.members
    chain_nodes: set[tuple[str, int]] = set()
    chains = []
    for row in np.argsort(-helps, kind="stable")[: int(np.count_nonzero(helps > 0))].tolist():
        rows, groups = [row], list[int]()
        while (group := int(from_group[rows[-1]])) != _ABSENT:
            groups.append(group)
            rows.append(int(from_row[group]))
        nodes = {*(("row", node) for node in rows), *(("group", node) for node in groups)}
        if chain_nodes.isdisjoint(nodes):
            chain_nodes |= nodes
            chains.append((rows[::-1], groups[::-1]))
    return chains


def _highest(table: Table, own: Ints) -> tuple[Ints, Ints, Ints]:
    """By group the row, and by row the group, through which the highest load reaches it (-1: none); by row that load."""
    row, group = own.copy(), np.full(table.counts.shape[1], _ABSENT)
    from_row, from_group = np.full(len(group), _ABSENT), np.full(len(row), _ABSENT)
    while True:
        sources = np.where(table.counts > 0, row[:, None], _ABSENT)
        best = sources.argmax(axis=0)
        load = sources[best, np.arange(len(group))]
        better = np.flatnonzero(load > group)
        group[better], from_row[better] = load[better], best[better]
        wants = np.where(table.wants, group, _ABSENT)
        best = wants.argmax(axis=1)
        load = wants[np.arange(len(row)), best]
        better = np.flatnonzero(load > row)
        row[better], from_group[better] = load[better], best[better]
        if not len(better):
            return from_row, from_group, row


def _times(table: Table, rows: list[int], groups: list[int]) -> int:
    """How often a chain can be carried out and helps."""
    load = table.counts.sum(axis=1)
    high, low = (int(load[row]) for row in (rows[0], rows[-1]))
    givers, takers = (int(table.members[row]) for row in (rows[0], rows[-1]))
    return find_last(
        lambda time: (high - time) // givers > (low + time - 1) // takers, int(table.counts[rows[:-1], groups].min())
    )
