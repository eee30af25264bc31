"""The least that any assignment of a group can cost, exactly: a minimum-cost flow, one shortest path after the other.

Every partition is brought in by the cheapest path there is: it goes to a member, which may hand one on to another, and
so on; the load of the last one rises.  What one more costs only grows, so after every path the flow is the cheapest of
all (successive shortest paths).  It shares nothing with the assignors but their values.

As a program: groups are drawn, and the sticky assignors' targets compared with it.

    python -m tests.kit.optimum 20000 [FIRST_SEED]
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from random import Random
from typing import NamedTuple

from sparkcohort.assignors import MemberSubscription, Partition, Racks
from sparkcohort.assignors.solver.ownership import resolve_ownership
from sparkcohort.assignors.sticky import balance_partitions
from tests.kit.assignor_cases import Known, fresh, lived
from tests.kit.kafka_assignors import Case

Members = Mapping[str, MemberSubscription]
Owner = Mapping[Partition, str]


class Cost(NamedTuple):
    """What a target costs, most important first; ``ages``: how late what is taken away was acquired, as less."""

    squares: int
    far: int
    moves: int
    ages: int


def cost(target: Mapping[str, Collection[Partition]], members: Members, owner: Owner, racks: Racks) -> Cost:
    """That of a target."""
    prices = [_price(partition, member, members, owner, racks) for member, mine in target.items() for partition in mine]
    far, moves, ages = map(sum, zip(*prices, strict=True)) if prices else (0, 0, 0)
    return Cost(sum(len(mine) ** 2 for mine in target.values()), far, moves, ages)


def _price(partition: Partition, member: str, members: Members, owner: Owner, racks: Racks) -> tuple[int, int, int]:
    """Far, moved, and the age of what is taken from its owner."""
    topic, number = partition
    where = [rack for rack in racks[topic][number] if rack] if topic in racks else []
    rack, had = members[member].rack, owner.get(partition)
    moved = had is not None and had != member
    age = members[had].since.get(partition, -1) if had is not None and moved else 0
    return bool(rack and where and rack not in where), moved, -age


def least(topics: Mapping[str, int], members: Members, owner: Owner, racks: Racks) -> Cost:
    """The least that any complete assignment costs."""
    size = sum(topics.values()) + 1
    ages = 2 * size * (2 + max((age for said in members.values() for age in said.since.values()), default=0))
    weights = (2 * size * ages, ages, 1)  # each above all that the later ones can sum up to
    held: dict[str, dict[Partition, None]] = {member: {} for member in members}
    prices: dict[Partition, dict[str, int]] = {}
    for partition in [(topic, number) for topic, count in topics.items() for number in range(count)]:
        prices[partition] = {
            member: sum(map(int.__mul__, weights, map(int, _price(partition, member, members, owner, racks))))
            for member, said in members.items()
            if partition[0] in said.topics
        }
        if prices[partition]:
            _bring(partition, prices, held, 4 * size * weights[0])
    return cost(held, members, owner, racks)


def _bring(
    partition: Partition,
    prices: Mapping[Partition, Mapping[str, int]],
    held: dict[str, dict[Partition, None]],
    load: int,
) -> None:
    """One partition more, by the cheapest path (Bellman and Ford: giving back pays, so edges cost less than nothing, too)."""
    distance = dict(prices[partition])
    came: dict[str, tuple[str, Partition]] = {}
    edges = [edge for giver in held for edge in _edges(giver, prices, held[giver])]
    changed = True
    while changed:
        changed = False
        for giver, taker, price, what in edges:
            if giver in distance and (taker not in distance or distance[giver] + price < distance[taker]):
                distance[taker], came[taker], changed = distance[giver] + price, (giver, what), True
    taker = min(distance, key=lambda member: (distance[member] + load * (2 * len(held[member]) + 1), member))
    while taker in came:
        giver, what = came[taker]
        del held[giver][what]
        held[taker][what] = None
        taker = giver
    held[taker][partition] = None


def _edges(
    giver: str, prices: Mapping[Partition, Mapping[str, int]], mine: Collection[Partition]
) -> list[tuple[str, str, int, Partition]]:
    """The cheapest that can go to each other member."""
    best: dict[str, tuple[int, Partition]] = {}
    for partition in mine:
        row = prices[partition]
        for taker, price in row.items():
            best[taker] = min(best.get(taker, (price - row[giver], partition)), (price - row[giver], partition))
    return [(giver, taker, price, what) for taker, (price, what) in best.items() if taker != giver]


def drawn(seed: int) -> Case:
    """A small group of any kind, in racks or not: one that begins, or one to which something has happened; what is owned has an age."""
    random = Random(seed)
    racks: Known = random.choice(("none", "some", "all"))
    case = fresh(seed, racks=racks) if random.random() < 0.2 else lived(seed, racks=racks)
    ages = random.choice(((1,), (1, 2, 3)))
    members = {
        name: replace(said, since={partition: random.choice(ages) for partition in said.owned})
        for name, said in case.members.items()
    }
    return replace(case, members=members)


def wrong(seed: int) -> str:
    """What a drawn group's target costs too much, in words; empty when nothing is better."""
    ours, best = both(drawn(seed))
    return f"seed {seed}: {ours}, the least is {best}" if ours != best else ""


def both(case: Case) -> tuple[Cost, Cost]:
    """What the sticky assignors' target costs, and the least."""
    topics, members, racks = case.topics, case.members, case.racks
    known = resolve_ownership(topics, members)
    ours = cost(balance_partitions(topics, members, known, racks), members, known.owner, racks)
    best = least(topics, members, known.owner, racks)
    assert best <= ours, f"the optimum of {case} is none"
    return ours, best


def main(count: str, first: str = "0") -> None:
    """Compare so many groups, and tell how many targets are not the best."""
    found = [words for seed in range(int(first), int(first) + int(count)) if (words := wrong(seed))]
    sys.stdout.write("".join(f"{words}\n" for words in [*found, f"{count} groups, {len(found)} not the best"]))
    sys.exit(bool(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
