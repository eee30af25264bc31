"""Small groups of many kinds of members or topics: looked at one by one, and as good as by the tables."""

from __future__ import annotations

import doctest
import gc
import tracemalloc
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from sparkcohort.assignors import MemberSubscription, chaining, find, moving, taking, unequal
from sparkcohort.assignors.ownership import resolve
from sparkcohort.assignors.sticky import balance
from tests.support import groups

EVENTS = ("fresh", "joins", "leaves", "wants")


def _varied(random: Random, event: str) -> tuple[dict[str, int], groups.Members]:
    """Up to eight members that want a share of up to forty topics each, settled; and then something happens."""
    topics = {f"t{n:02}": random.choice((0, 1, 1, 1, 2)) for n in range(random.randint(2, 40))}
    share = random.choice((0.1, 0.3, 0.6, 0.95))

    def wanted() -> tuple[str, ...]:
        return tuple(topic for topic in topics if random.random() < share)

    members: groups.Members = {f"m{n}": MemberSubscription(wanted()) for n in range(random.randint(2, 8))}
    return topics, _after(random, event, topics, members, MemberSubscription(wanted()))


def _chained(random: Random, event: str) -> tuple[dict[str, int], groups.Members]:
    """Up to twelve members in a row or a ring, that share topics with their neighbours; and then something happens."""
    size, width, step = random.randint(2, 12), random.choice((2, 2, 3, 5)), random.choice((1, 1, 2))
    most, ring = random.choice((1, 3, 12)), random.random() < 0.5
    topics = {f"t{n:02}": random.choice((most, random.randint(0, most))) for n in range(size * step)}
    names = list(topics)

    def wanted(first: int) -> tuple[str, ...]:
        window = range(first * step, first * step + width)
        return tuple(dict.fromkeys(names[n % len(names)] for n in window if ring or n < len(names)))

    members: groups.Members = {f"m{n:02}": MemberSubscription(wanted(n)) for n in range(size)}
    return topics, _after(random, event, topics, members, MemberSubscription(wanted(random.randrange(size))))


def _after(
    random: Random, event: str, topics: dict[str, int], members: groups.Members, other: MemberSubscription
) -> groups.Members:
    """The members, settled, after an event; ``other`` is what comes then or is wanted then."""
    if event == "fresh":
        return members
    given, ages = find("sticky").assign(topics, members), random.choice(((1,), (1, 2, 3)))
    for name, said in members.items():
        since = {partition: random.choice(ages) for partition in given[name]}
        members[name] = replace(said, owned=given[name], generation=3, since=since)
    if event == "leaves":
        members.pop(random.choice(list(members)))
    elif event == "wants":
        first = min(members)
        members[first] = replace(members[first], topics=other.topics)
    else:
        members["n"] = other
    return members


def _cost(topics: dict[str, int], members: groups.Members) -> tuple[int, int, int]:
    """Of the target: squares of the loads, moves, and how late what moves was acquired."""
    known = resolve(topics, members)
    target = balance(topics, members, known)
    given = {partition: member for member, mine in target.items() for partition in mine}
    assert len(given) == sum(map(len, target.values()))
    assert set(given) == {(t, p) for said in members.values() for t in said.topics for p in range(topics[t])}
    assert all(partition[0] in members[member].topics for partition, member in given.items())
    moved = [partition for partition, member in known.owner.items() if given[partition] != member]
    ages = -sum(members[known.owner[partition]].since[partition] for partition in moved)
    return sum(len(mine) ** 2 for mine in target.values()), len(moved), ages


@pytest.mark.parametrize("shape", [_varied, _chained])
@pytest.mark.parametrize("event", EVENTS)
def test_one_by_one_is_as_good_as_by_tables(shape: Any, event: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As even, with as few moves, of as late holdings; and it isn't the tables that did it."""
    groups = [shape(Random(f"{event}{seed}"), event) for seed in range(150)]
    did: Counter[str] = Counter()

    def counted(name: str) -> None:
        way = getattr(unequal, name)

        def counting(*arguments: Any) -> Any:
            found = way(*arguments)
            did[name] += found is not None
            return found

        monkeypatch.setattr(unequal, name, counting)

    for name in ("even_out", "taken", "moved", "_exchanged"):
        counted(name)
    monkeypatch.setattr(unequal, "_is_varied", lambda _: True)
    one_by_one = [_cost(*group) for group in groups]
    assert not did["_exchanged"]
    assert did["even_out" if event == "fresh" else "moved"] >= 20
    assert event != "joins" or did["taken"] >= 20
    monkeypatch.setattr(unequal, "taken", lambda *_: None)
    assert one_by_one == [_cost(*group) for group in groups]
    assert not did["_exchanged"]
    monkeypatch.setattr(unequal, "is_small", lambda _: False)
    assert one_by_one == [_cost(*group) for group in groups]
    assert did["_exchanged"] >= 20


def test_the_order_of_the_input_makes_no_difference() -> None:
    """Topics and members in any order: the same answer, to the last partition."""
    for seed in range(100):
        random = Random(seed)
        topics, members = _chained(random, random.choice(EVENTS))
        names, ids = list(topics), list(members)
        random.shuffle(names)
        random.shuffle(ids)
        expected = dict(balance(topics, members))
        assert dict(balance({t: topics[t] for t in names}, {m: members[m] for m in ids})) == expected


def test_what_takes_too_long_is_left_to_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """And they find as good an answer."""
    groups = [_chained(Random(seed), "leaves") for seed in range(50)]
    expected = [_cost(*group) for group in groups]
    monkeypatch.setattr(moving, "MOST_VISITS", 0)
    assert expected == [_cost(*group) for group in groups]


@pytest.mark.parametrize("event", ["joins", "leaves"])
def test_chains_need_little_room(event: str) -> None:
    """Fifty members in a ring, each pair with topics of its own: at most 195 bytes a partition at the peak."""
    size, sticky = 50, find("sticky")
    topics = {f"topic-{n:04}": 1 for n in range(20 * size)}
    wanted = [tuple(t for n, t in enumerate(topics) if (n - member) % size < 2) for member in range(size)]
    members: groups.Members = {f"m{n:02}": MemberSubscription(mine) for n, mine in enumerate(wanted)}
    given = sticky.assign(topics, members)
    owners = {m: replace(said, owned=given[m], since=dict.fromkeys(given[m], 1)) for m, said in members.items()}
    after = owners | {"n": members["m00"]} if event == "joins" else {m: owners[m] for m in owners if m != "m25"}
    sticky.assign(topics, after)  # what is imported and kept by then doesn't count
    gc.collect()
    tracemalloc.start()
    try:
        sticky.assign(topics, after)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 195 * len(topics)


@pytest.mark.parametrize("module", [chaining, moving, taking])
def test_the_examples_in_the_docs_are_true(module: Any) -> None:
    """Doctests."""
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0
