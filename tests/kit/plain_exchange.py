"""The plain sticky assignor's way with unequal subscribers: cancelling negative cycles, one partition at a time.

An assignment is a flow of partitions to members.  Its cost, most important first: the sum of the squares of the
loads (balance), how many partitions are away from their owners (moves), how old those holdings were (age).
The three are one integer, each weighted above all that the later ones can sum up to.

Moving one partition from member x to member y is an edge x → y.  The edges y → ``_POOL`` and ``_POOL`` → x stand
for the load that y gains and x loses, so every change of the assignment is a set of cycles.  The costs are
convex, hence an assignment is the cheapest there is if and only if no cycle of negative cost is left (Klein).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sparkcohort.assignors import Partition

_POOL = ""  # no member has an empty id
_Edges: TypeAlias = dict[str, tuple[int, Partition | None]]  # to whom, at which cost, by moving what


@dataclass
class _Flow:
    """The assignment under work, and the edges that can be derived from it, kept per member."""

    held: dict[str, set[Partition]]
    owner: Mapping[Partition, str]
    age: Mapping[Partition, int]
    wants: Mapping[str, frozenset[str]]
    move: int = 0
    load: int = 0
    edges: dict[str, _Edges] = field(default_factory=dict)

    def __post_init__(self) -> None:
        partitions = sum(map(len, self.held.values())) + 1
        self.move = partitions * (max(self.age.values(), default=0) + 1)
        self.load = partitions * 2 * self.move

    def away(self, partition: Partition) -> int:
        """What it costs that a partition is not with its owner."""
        return self.move + self.age[partition]


def improve(
    held: Mapping[str, list[Partition]],
    owner: Mapping[Partition, str],
    since: Mapping[Partition, int],
    wants: Mapping[str, frozenset[str]],
) -> dict[str, list[Partition]]:
    """Return the cheapest assignment that can be reached from ``held``: balanced, then sticky, then by age.

    ``owner`` and ``since`` (generation of acquiring) are of valid owners only; ``wants`` maps member to topics.
    """
    latest = max(since.values(), default=0)
    ages = {partition: latest - since[partition] for partition in owner}
    flow = _Flow({member: set(partitions) for member, partitions in held.items()}, owner, ages, wants)
    for member in flow.held:
        flow.edges[member] = _edges(flow, member)
    while cycle := _negative_cycle(flow):
        _cancel(flow, cycle)
    return {member: sorted(partitions) for member, partitions in flow.held.items()}


def _edges(flow: _Flow, source: str) -> _Edges:
    """The cheapest move from one member to each of the others, and the load that it'd gain."""
    home: dict[str, tuple[int, Partition]] = {}  # by topic: it has this one and owns it
    neutral: dict[str, tuple[int, Partition]] = {}  # by topic: neither owns it, to move it on costs nothing
    back: dict[str, tuple[int, Partition]] = {}  # by owner: to give it back pays
    for partition in sorted(flow.held[source], reverse=True):  # among equals the last goes first
        topic, owner = partition[0], flow.owner.get(partition)
        if owner == source:
            home[topic] = min(home.get(topic, (flow.load, partition)), (flow.away(partition), partition), key=_cost)
        else:
            neutral.setdefault(topic, (0, partition))
            if owner is not None:
                back[owner] = min(back.get(owner, (0, partition)), (-flow.away(partition), partition))
    edges: _Edges = {_POOL: (flow.load * (2 * len(flow.held[source]) + 1), None)}
    for target, topics in flow.wants.items():
        if target != source and topics:
            options = [move for kind in (home, neutral) for topic, move in kind.items() if topic in topics]
            options += [back[target]] if target in back else []
            if options:
                edges[target] = min(options)
    return edges


def _cost(move: tuple[int, Partition]) -> int:
    return move[0]


def _negative_cycle(flow: _Flow) -> list[str]:
    """Nodes of a cycle whose costs sum up to less than zero, in the order of its edges; empty when there is none.

    Bellman and Ford, from all nodes at once; whoever is still improved in the last of as many rounds as there are
    nodes hangs on such a cycle.  Mostly it shows much earlier, as a cycle among the predecessors.
    """
    pool: _Edges = {m: (-flow.load * (2 * len(held) - 1), None) for m, held in flow.held.items() if held}
    graph = flow.edges | {_POOL: pool}
    distance = dict.fromkeys(graph, 0)
    previous: dict[str, str] = {}
    changed = True
    while changed:
        changed = False
        for source, edges in graph.items():
            base = distance[source]
            for target, (cost, _) in edges.items():
                if base + cost < distance[target]:
                    distance[target] = base + cost
                    previous[target] = source
                    changed = True
        if changed and (cycle := _cycle_among(previous)):
            return cycle
    return []


def _cycle_among(previous: Mapping[str, str]) -> list[str]:
    """A cycle of the predecessor graph, forwards; such a cycle always has negative cost."""
    seen: dict[str, str] = {}
    for start in previous:
        node = start
        while node in previous and node not in seen:
            seen[node] = start
            node = previous[node]
        if seen.get(node) == start and node in previous:
            backwards = [node]
            while previous[backwards[-1]] != node:
                backwards.append(previous[backwards[-1]])
            return backwards[::-1]
    return []


def _cancel(flow: _Flow, cycle: list[str]) -> None:
    """Carry out the moves of a cycle: every member on it hands on one partition at most."""
    moves = [(x, y, flow.edges[x][y][1]) for x, y in zip(cycle, cycle[1:] + cycle[:1], strict=True) if x != _POOL]
    for source, target, partition in moves:
        if partition is not None:
            flow.held[source].remove(partition)
            flow.held[target].add(partition)
    for member in cycle:
        if member != _POOL:
            flow.edges[member] = _edges(flow, member)
