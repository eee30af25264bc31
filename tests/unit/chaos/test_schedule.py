"""What a seed draws: the same each time, within its time, and of all kinds."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from tests.chaos.faults import _FAULTS
from tests.chaos.schedule import BY_NAME, KILL_NOBODY, KINDS, LONGEST_S, draw

HOUR_S = 3600.0


def test_the_same_seed_draws_the_same() -> None:
    """And another one others."""
    assert draw(7, HOUR_S) == draw(7, HOUR_S)
    assert draw(7, HOUR_S) != draw(8, HOUR_S)
    assert all(fault.kind.name == "agent-killed" for fault in draw(7, HOUR_S, ["agent-killed"]))


def test_all_is_over_before_the_end() -> None:
    """In order of time, none longer than it may be, and what wants to be alone is."""
    for seed in range(20):
        faults = draw(seed, 600.0)
        assert len(faults) > 20
        assert all(fault.end_s <= 600.0 - LONGEST_S for fault in faults)
        assert all(before.at_s <= after.at_s for before, after in pairwise(faults))
        for fault in (each for each in faults if each.kind.alone):
            others = [each for each in faults if each is not fault]
            assert not [each for each in others if each.at_s <= fault.end_s and each.end_s >= fault.at_s]


def test_two_hours_have_every_kind() -> None:
    """Several times."""
    counts = Counter(fault.kind.name for fault in draw(1, 2 * HOUR_S))
    assert counts.keys() == BY_NAME.keys()
    assert min(counts.values()) > 3


def test_each_kind_is_carried_out() -> None:
    """There is a function for each, and no other."""
    assert {kind.name for kind in KINDS} == _FAULTS.keys()


def test_who_is_killed_is_said() -> None:
    """By the names: what is killed, scaled or stopped ends processes; and so does whatever always ends a query."""
    kills = BY_NAME.keys() - set(KILL_NOBODY)
    ours = ("agent", "executor", "worker", "runner", "driver")
    assert {
        kind.name
        for kind in KINDS
        if (kind.ends and kind.name != "driver-frozen") or (kind.name.endswith("-killed") and kind.target in ours)
    } <= kills
    assert len(KILL_NOBODY) > 20
