"""The sticky family's targets beside an exact optimum: as even, as near, with as few moves, of as late holdings."""

from __future__ import annotations

import pytest

from sparkcohort.assignors import MemberSubscription
from tests.kit import optimum
from tests.kit.kafka_assignors import Case


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_nothing_is_better(first: int) -> None:
    """Groups alike and not, in racks and not, whatever has happened to them; ``make optimum`` draws more."""
    assert [words for seed in range(first, first + 100) if (words := optimum.wrong(seed))] == []


def _member(rack: str, **owned: dict[int, int]) -> MemberSubscription:
    """One that wants all; by topic the generation of each partition that it has."""
    since = {(topic, number): at for topic, numbers in owned.items() for number, at in numbers.items()}
    return MemberSubscription(("t0", "t1", "t2"), tuple(since), 3, rack=rack or None, since=since)


def test_who_has_as_many_as_it_should_has_its_own() -> None:
    """Once as many of a kind of partitions were with a member as were its own, and one was another's: a move for nothing."""
    nobodys = [_member(rack) for rack in ("a", "b", "", "c", "")]
    one = _member("a", t0={3: 3}, t1={0: 3, 1: 3})
    other = _member("a", t0={0: 2, 1: 3, 2: 1}, t1={2: 3, 3: 2, 4: 1})
    members = dict(zip("abcdefg", [*nobodys[:2], one, *nobodys[2:], other], strict=True))
    racks = {"t0": [["a"], ["b"], ["c"], ["b"]], "t1": [["c"], ["b"], ["b"], ["c"], ["b"]]}
    ours, best = optimum.both(Case({"t0": 4, "t1": 5}, members, racks))
    assert ours == best
    assert best.moves == 7

    nobodys = [_member(rack) for rack in ("a", "", "b", "b", "a", "b")]
    one = _member("", t1={0: 2, 4: 3}, t2={0: 3})
    other = _member("", t0={1: 2, 0: 3}, t1={1: 1, 2: 2, 3: 3})
    members = dict(zip("abcdefgh", [nobodys[0], one, other, *nobodys[1:]], strict=True))
    racks = {"t0": [["a"], ["b"]], "t1": [["a"], ["a"], ["b"], ["b"], ["b"]], "t2": [["b"]]}
    ours, best = optimum.both(Case({"t0": 2, "t1": 5, "t2": 1}, members, racks))
    assert ours == best
    assert best.moves == 6
