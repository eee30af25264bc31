"""Improves an assignment to the cheapest one: cancels negative cycles, many partitions at a time.

Partitions with the same subscribers (and the same racks) are one *group*, members that are alike one *row*.  An
assignment is then a table: how many of each group each row has.  Its cost has four parts, the most important first:
the sum of the squares of the members' loads (balance), the number of partitions that are far from their member's rack,
the number that are not with their owners (moves), and how long the owners had these (age).  The four are one integer:
each is weighted above the largest sum of the later ones on one cycle.

Giving one away is an edge row → group, taking one an edge group → row.  The edges row → pool and pool → row stand for
the load that a row gains and loses.  So every change of the assignment is a set of cycles.  A row gives up its youngest
partitions first, so the cost of the next one only grows.  As all costs are convex, an assignment is the cheapest one if
and only if no cycle of negative cost is left (Klein).

Law: nothing is cheaper afterwards.  C0 has all of t0 and t1, and wants both.  C1 joins and wants t1 only.  Rows are C0
and C1, groups t0 and t1:

>>> counts, none = np.array([[3, 3], [0, 0]]), np.zeros((2, 2), np.bool_)
>>> wants = np.array([[True, True], [False, True]])
>>> table = Table(counts, counts.copy(), wants, none, members=np.array([1, 1]), ages=np.zeros(6, np.int64))
>>> improve_table(table), table.counts.tolist()
(True, [[3, 0], [0, 3]])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sparkcohort.assignors.solver.space import Bools, Ints, distinct

NEVER: Final = 1 << 60
_MOST: Final = 1 << 56
_NO_NODE: Final = -1


@dataclass
class Table:
    """The assignment to improve; all but ``members`` and ``ages`` are by row and group.

    ``counts``: how many it has now; ``owns``: how many its members own; ``wants``: whether it may have any; ``far``:
    whether these are far from its rack.  ``members``: how many members share a row's load evenly.  ``ages``: how long
    each owned partition has been held, by row, then group, then the oldest first; empty if all are equal.
    """

    counts: Ints
    owns: Ints
    wants: Bools
    far: Bools
    members: Ints
    ages: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    first: Ints = field(init=False)
    weights: tuple[int, int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.first = np.broadcast_to(np.int64(0), self.owns.shape)
        if len(self.ages):
            self.first = (np.cumsum(self.owns) - self.owns.ravel()).reshape(self.owns.shape)
        steps = 2 * min(self.counts.shape) + 3
        loads = 2 * int(self.counts.sum(axis=1).max(initial=0)) + 2
        # An age whose weight does not fit into 64 bits counts as the highest one that does.
        self.ages = np.minimum(self.ages, _MOST // (loads * (2 * steps) ** 3))
        move = steps * int(self.ages.max(initial=0)) + 1
        far = 2 * steps * move
        self.weights = (2 * steps * far, far if self.far.any() else 0, move)

    def cost_of_one_less(self) -> Ints:
        """The cost of having one less, by row and group."""
        _, far, move = self.weights
        own = self.counts <= self.owns
        cost: Ints = np.where(own, move + self._age(self.first + self.counts - 1) if len(self.ages) else move, 0)
        if far:
            cost -= far * self.far
        cost[self.counts <= 0] = NEVER
        return cost

    def cost_of_one_more(self) -> Ints:
        """The cost of having one more, by row and group."""
        _, far, move = self.weights
        own = self.counts < self.owns
        cost: Ints = np.where(own, -move - self._age(self.first + self.counts) if len(self.ages) else -move, 0)
        if far:
            cost += far * self.far
        cost[~self.wants] = NEVER
        return cost

    def holding_ages(self, first: int, end: int) -> Ints:
        """How long each of these owned partitions has been held."""
        return self.ages[first:end] if len(self.ages) else np.zeros(end - first, np.int64)

    def _age(self, indices: Ints) -> Ints:
        return self.ages.take(indices, mode="clip")

    def gaining(self, load: Ints) -> Ints:
        """The cost of a row's load growing from ``load`` by one."""
        return self.weights[0] * (2 * (load // self.members) + 1)


def improve_table(table: Table, most: int | None = None) -> bool:
    """Change ``table.counts`` to the cheapest; False if that takes more than ``most`` steps of work."""
    budget = most
    while True:
        cycles, rounds = _negative_cycles(table)
        if not cycles:
            return True
        for cycle in cycles:
            _cancel(table, cycle)
        if budget is not None:
            budget -= rounds
            if budget <= 0:
                return False


def _negative_cycles(table: Table) -> tuple[list[list[int]], int]:
    """Disjoint cycles of negative cost, each in the order of its edges; and the number of rounds.

    Bellman and Ford, from all nodes at once: rows, then groups, then the pool.  Each cycle among the predecessors has
    negative cost.  If there is a negative cycle, one is among them in the end.
    """
    rows, groups = table.counts.shape
    give, take = table.cost_of_one_less(), table.cost_of_one_more()
    load = table.counts.sum(axis=1)
    gain, lose = table.gaining(load), np.where(load > 0, -table.gaining(load - 1), NEVER)
    row, group, pool = np.zeros(rows, np.int64), np.zeros(groups, np.int64), 0
    previous = np.full(rows + groups + 1, _NO_NODE)
    for rounds in range(1, rows + groups + 3):
        costs = row[:, None] + give
        best = costs.argmin(axis=0)
        cost = costs[best, np.arange(groups)]
        better = np.flatnonzero(cost < group)
        group[better], previous[rows + better] = cost[better], best[better]
        changed = len(better) > 0
        if (cheapest := int((row + gain).min(initial=NEVER))) < pool:
            pool, previous[-1], changed = cheapest, int((row + gain).argmin()), True
        costs = group + take
        best = costs.argmin(axis=1)
        cost = costs[np.arange(rows), best]
        best, cost = np.where(pool + lose < cost, rows + groups, rows + best), np.minimum(pool + lose, cost)
        better = np.flatnonzero(cost < row)
        row[better], previous[better] = cost[better], best[better]
        if not changed and not len(better):
            return [], rounds
        if cycles := _cycles_among(previous):
            return cycles, rounds
    return [], rounds


def _cycles_among(previous: Ints) -> list[list[int]]:
    """The cycles, forwards, of a graph whose nodes have at most one predecessor each."""
    nodes = len(previous)
    jump = np.append(np.where(previous < 0, nodes, previous), nodes)
    for _ in range(nodes.bit_length()):
        jump = jump[jump]
    cycles, nodes_in_cycles = [], set[int]()
    for start in distinct(jump[jump < nodes]).tolist():
        if start not in nodes_in_cycles:
            backwards = [start]
            while (node := int(previous[backwards[-1]])) != start:
                backwards.append(node)
            nodes_in_cycles.update(backwards)
            cycles.append(backwards[::-1])
    return cycles


def _cancel(table: Table, cycle: list[int]) -> None:
    """Carry out the changes of a cycle, as often as each time pays."""
    rows, groups = table.counts.shape
    pool = rows + groups
    edges = list(zip(cycle, cycle[1:] + cycle[:1], strict=True))
    gives = [(x, y - rows) for x, y in edges if x < rows and y != pool]
    takes = [(y, x - rows) for x, y in edges if y < rows and x != pool]
    gains = [x for x, y in edges if y == pool]
    loses = [y for x, y in edges if x == pool]
    times = _times(table, gives, takes, gains, loses)
    for row, group in gives:
        table.counts[row, group] -= times
    for row, group in takes:
        table.counts[row, group] += times


def _times(
    table: Table, gives: list[tuple[int, int]], takes: list[tuple[int, int]], gains: list[int], loses: list[int]
) -> int:
    """How often a cycle pays: while its edges keep their costs, and the cost of loads, which only grows, leaves it negative."""
    fixed, limits = 0, []
    far, move = table.weights[1:]
    for row, group in gives:
        count, owns, first = int(table.counts[row, group]), int(table.owns[row, group]), int(table.first[row, group])
        fixed -= far * int(table.far[row, group])
        if count > owns:
            limits.append(count - owns)
        else:
            ages = table.holding_ages(first, first + count)
            fixed += move + int(ages[-1])
            limits.append(count - int(np.searchsorted(-ages, -ages[-1])))
    for row, group in takes:
        count, owns, first = int(table.counts[row, group]), int(table.owns[row, group]), int(table.first[row, group])
        fixed += far * int(table.far[row, group])
        if count < owns:
            ages = table.holding_ages(first + count, first + owns)
            fixed -= move + int(ages[0])
            limits.append(int(np.searchsorted(-ages, -ages[0], side="right")))
    times, load, members = min(limits), table.counts.sum(axis=1), table.members
    if gains and loses:
        gainer, loser = gains[0], loses[0]

        def pays(time: int) -> bool:
            gain = (int(load[gainer]) + time - 1) // int(members[gainer])
            loss = (int(load[loser]) - time) // int(members[loser])
            return 2 * table.weights[0] * (gain - loss) + fixed < 0

        times = find_last(pays, times)
    return times


def find_last(pays: Callable[[int], bool], most: int) -> int:
    """The last of 1 … ``most`` that pays; 1 does."""
    least = 1
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if pays(middle) else (least, middle - 1)
    return least
