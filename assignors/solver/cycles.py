"""Improves an assignment to the cheapest one: cancels negative cycles, many partitions at a time.

Partitions with the same subscribers (and the same racks) are one *group*, each member is a *row*.  An assignment is
then a table: how many of each group each row has.  Its cost has four parts, the most important first:
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
>>> table = Table(counts, counts.copy(), wants, none, ages=np.zeros(6, np.int64))
>>> improve_table(table, 100), table.counts.tolist()
(True, [[3, 0], [0, 3]])
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sparkcohort.assignors.solver.space import Bools, Ints, distinct

NEVER: Final = 1 << 60
_MOST: Final = 1 << 56
_NO_NODE: Final = -1


class Table:
    """The assignment to improve; all but ``ages`` are by row and group.

    ``counts``: how many it has now; ``owns``: how many it owns; ``wants``: whether it may have any; ``far``: whether
    these are far from its rack.  ``ages``: how long each owned partition has been held, by row, then group, then the
    oldest first.
    """

    def __init__(self, counts: Ints, owns: Ints, wants: Bools, far: Bools, ages: Ints) -> None:
        self.counts, self.owns, self.wants, self.far = counts, owns, wants, far
        self.first = (np.cumsum(owns) - owns.ravel()).reshape(owns.shape)
        steps = 2 * min(counts.shape) + 3
        loads = 2 * int(counts.sum(axis=1).max(initial=0)) + 2
        # An age whose weight does not fit into 64 bits counts as the highest one that does.
        self.ages = np.minimum(np.append(ages, 0), _MOST // (loads * (2 * steps) ** 3))
        move = steps * int(self.ages.max()) + 1
        far_weight = 2 * steps * move
        self.weights = (2 * steps * far_weight, far_weight, move)

    def cost_of_one_less(self) -> Ints:
        """The cost of having one less, by row and group."""
        _, far, move = self.weights
        lost_ages = self.ages.take(self.first + self.counts - 1, mode="clip")
        cost: Ints = np.where(self.counts <= self.owns, move + lost_ages, 0) - far * self.far
        cost[self.counts <= 0] = NEVER
        return cost

    def cost_of_one_more(self) -> Ints:
        """The cost of having one more, by row and group."""
        _, far, move = self.weights
        kept_ages = self.ages.take(self.first + self.counts, mode="clip")
        cost: Ints = np.where(self.counts < self.owns, -move - kept_ages, 0) + far * self.far
        cost[~self.wants] = NEVER
        return cost

    def gaining(self, load: Ints) -> Ints:
        """The cost of a row's load growing from ``load`` by one."""
        cost: Ints = self.weights[0] * (2 * load + 1)
        return cost

    def change(self, row: int, group: int, step: int) -> tuple[int, int]:
        """The cost of changing a cell by one, up or down, and how many times in a row it costs that."""
        count, owns, first = int(self.counts[row, group]), int(self.owns[row, group]), int(self.first[row, group])
        far = step * self.weights[1] * int(self.far[row, group])
        if count > owns or (count == owns and step > 0):
            return far, count - owns if step < 0 else len(self.ages) + int(self.counts.sum())
        ages = self.ages[first : first + count][::-1] if step < 0 else self.ages[first + count : first + owns]
        return far - step * (self.weights[2] + int(ages[0])), int(np.count_nonzero(ages == ages[0]))


def improve_table(table: Table, most: int) -> bool:
    """Change ``table.counts`` to the cheapest; False if that takes more than ``most`` rounds: then it is cheaper than before."""
    while most > 0:
        cycles, rounds = _negative_cycles(table)
        if not cycles:
            return True
        for cycle in cycles:
            _cancel(table, cycle)
        most -= rounds
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
    changes = [table.change(*cell, -1) for cell in gives] + [table.change(*cell, 1) for cell in takes]
    times = min(most for _, most in changes)
    if pool in cycle:
        # The cost of loads only grows: the cycle is carried out while the difference outweighs the fixed part.
        gainer, loser = next(x for x, y in edges if y == pool), next(y for x, y in edges if x == pool)
        difference = int(table.counts[loser].sum() - table.counts[gainer].sum())
        bonus = (-sum(cost for cost, _ in changes) - 1) // (2 * table.weights[0])
        times = min(times, (difference + 1 + bonus) // 2)
    for row, group in gives:
        table.counts[row, group] -= times
    for row, group in takes:
        table.counts[row, group] += times
