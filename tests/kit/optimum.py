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

Members = Mapping[str, MemberSubscription]
Owner = Mapping[Partition, str]


class Cost(NamedTuple):
    """What a target costs, most important first; ``ages``: how late what is taken away was acquired, as less."""

    squares: int
    far: int
    moves: int
    ages: int


class Group(NamedTuple):
    """What an assignor is asked about."""

    topics: dict[str, int]
    members: dict[str, MemberSubscription]
    racks: dict[str, list[list[str]]]


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


# --- groups ------------------------------------------------------------------------------------------


def drawn(random: Random) -> Group:
    """A small group of any kind: alike, of some kinds, in a ring; with racks or without; and what has happened to it."""
    most = random.choice((3, 5, 9))
    topics = {f"t{n}": random.randint(0, most + 3) for n in range(random.randint(1, most // 2 + 1))}
    names, letters = tuple(topics), "abcd"[: random.randint(1, 4)]
    shape = random.choice(("alike", "kinds", "random", "ring"))
    kinds = [names, names[:-1] or names, names[1:] or names]

    def wanted(number: int) -> tuple[str, ...]:
        if shape == "random":
            return tuple(topic for topic in names if random.random() < 0.6)
        if shape == "ring":
            return tuple(dict.fromkeys((names[number % len(names)], names[(number + 1) % len(names)])))
        return random.choice(kinds) if shape == "kinds" else names

    def member(number: int) -> MemberSubscription:
        return MemberSubscription(wanted(number), rack=random.choice((*letters, *letters, None)))

    known = random.random() < 0.75
    racks = {t: [random.sample(letters, random.random() < 0.9) for _ in range(n)] for t, n in topics.items() if known}
    members = {f"m{number}": member(number) for number in range(random.randint(1, most + 2))}
    _happens(random, random.choice(EVENTS), Group(topics, members, racks))
    if random.random() < 0.3:
        members |= {f"n{number}": member(number) for number in range(random.choice((1, 1, 2)))}
    return Group(topics, members, racks)


EVENTS = ("fresh", "any", "any", "settled", "left", "grown")


def _happens(random: Random, event: str, group: Group) -> None:
    """Members own nothing, anything, or what they were given before one left or a topic grew."""
    topics, members, racks = group
    if event == "fresh":
        return
    given: Mapping[str, Collection[Partition]] = balance_partitions(topics, members, None, random.choice((racks, {})))
    if event == "any":
        free = [(topic, number) for topic, count in topics.items() for number in range(count + 1)]
        random.shuffle(free)
        given = {
            name: [free.pop() for _ in range(min(random.choice((0, 0, 1, 3, 6, 10)), len(free)))] for name in members
        }
    ages = random.choice(((1,), (1, 2, 3)))
    for name, said in members.items():
        since = {partition: random.choice(ages) for partition in given[name]}
        members[name] = replace(said, owned=tuple(given[name]), generation=random.choice((3, 3, 3, 2)), since=since)
    if event == "left" and len(members) > 1:
        del members[random.choice(list(members))]
    elif event == "grown":
        topic = random.choice(list(topics))
        topics[topic] += 2
        racks.get(topic, []).extend(([], []))


def wrong(seed: int) -> str:
    """What a drawn group's target costs too much, in words; empty when nothing is better."""
    ours, best = both(drawn(Random(seed)))
    return f"seed {seed}: {ours}, the least is {best}" if ours != best else ""


def both(group: Group) -> tuple[Cost, Cost]:
    """What the sticky assignors' target costs, and the least."""
    topics, members, racks = group
    known = resolve_ownership(topics, members)
    ours = cost(balance_partitions(topics, members, known, racks), members, known.owner, racks)
    best = least(topics, members, known.owner, racks)
    assert best <= ours, f"the optimum of {group} is none"
    return ours, best


def main(count: str, first: str = "0") -> None:
    """Compare so many groups, and tell how many targets are not the best."""
    found = [words for seed in range(int(first), int(first) + int(count)) if (words := wrong(seed))]
    sys.stdout.write("".join(f"{words}\n" for words in [*found, f"{count} groups, {len(found)} not the best"]))
    sys.exit(bool(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
