"""Small groups with many kinds of topics: looked at one by one, and as good as by the tables."""

from __future__ import annotations

import doctest
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from sparkcohort.assignors import MemberSubscription, chaining, find, taking, unequal
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
    if event == "fresh":
        return topics, members
    given, ages = find("sticky").assign(topics, members), random.choice(((1,), (1, 2, 3)))
    for name, said in members.items():
        since = {partition: random.choice(ages) for partition in given[name]}
        members[name] = replace(said, owned=given[name], generation=3, since=since)
    if event == "leaves":
        members.pop(random.choice(list(members)))
    elif event == "wants":
        members["m0"] = replace(members["m0"], topics=wanted())
    else:
        members["n"] = MemberSubscription(wanted())
    return topics, members


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


@pytest.mark.parametrize("event", EVENTS)
def test_one_by_one_is_as_good_as_by_tables(event: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As even, with as few moves, of as late holdings; and it isn't the tables that did it."""
    groups = [_varied(Random(f"{event}{seed}"), event) for seed in range(150)]
    did: Counter[str] = Counter()

    def counted(name: str) -> None:
        way = getattr(unequal, name)

        def counting(*arguments: Any) -> Any:
            found = way(*arguments)
            did[name] += name != "taken" or found is not None
            return found

        monkeypatch.setattr(unequal, name, counting)

    for name in ("even_out", "taken", "_exchanged"):
        counted(name)
    monkeypatch.setattr(unequal, "_is_varied", lambda _: True)
    one_by_one = [_cost(*group) for group in groups]
    if event == "fresh":
        assert did["even_out"] > 100
        assert not did["_exchanged"]
    elif event == "joins":
        assert did["taken"] > 50
    monkeypatch.setattr(unequal, "is_small", lambda _: False)
    monkeypatch.setattr(unequal, "_is_varied", lambda _: False)
    assert one_by_one == [_cost(*group) for group in groups]


@pytest.mark.parametrize("module", [chaining, taking])
def test_the_examples_in_the_docs_are_true(module: Any) -> None:
    """Doctests."""
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0
