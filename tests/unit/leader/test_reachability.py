"""Members that can't fetch what others can: barred, held, let back, without a to and fro."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.leader.reachability import (
    GOOD_MS,
    HOLD_MS,
    SILENT_MS,
    Barred,
    able_owners,
    cut_off,
    lift_expired,
    new_bars,
    record_attempt,
)
from sparkcohort.runtime.protocol.partitions import TopicPartition

A, B, C = (TopicPartition("t", number) for number in range(3))
MEMBERS = ("m", "n", "o")
STEP_MS = 1_000


def run(barred: Barred, start: int, until: int, reached: list[TopicPartition]) -> tuple[Barred, int]:
    """A member that tries every second and reaches these; returns when it was let back to something, or ``until``."""
    now, before = start, set(barred["m"])
    while now < until and set(barred.get("m", {})) == before:
        now += STEP_MS
        barred = lift_expired(record_attempt(barred, "m", reached, now), MEMBERS, now)
    return barred, now


def test_it_is_let_back_when_it_has_reached_the_leader_for_a_while() -> None:
    """Not before the hold is over, nor while it fails; each partition by itself."""
    barred, now = run(cut_off({}, "m", {A: "silence", B: "silence"}, 0), 0, 60_000, [])
    assert now == 60_000 and set(barred["m"]) == {A, B}
    barred, now = run(barred, now, 120_000, [A])
    assert now == 60_000 + STEP_MS + GOOD_MS and set(barred["m"]) == {B}
    assert run(cut_off({}, "m", {A: "silence"}, 0), 0, 60_000, [A]) == ({}, HOLD_MS)


def test_one_try_that_fails_begins_anew() -> None:
    """A way that is there now and then is not there."""
    barred = cut_off({}, "m", {A: "silence"}, 0)
    for now in range(0, 300_000, STEP_MS):
        barred = lift_expired(record_attempt(barred, "m", [] if now % 3_000 == 0 else [A], now), MEMBERS, now)
        assert set(barred["m"]) == {A}


def test_what_shows_later_has_a_bar_of_its_own() -> None:
    """With its own reason; one that stands stays as it is."""
    barred = cut_off(cut_off({}, "m", {A: "x"}, 0), "m", {A: "y", B: "y"}, 500)
    assert [(bar.reason, bar.since_ms) for bar in barred["m"].values()] == [("x", 0), ("y", 500)]
    assert cut_off(barred, "m", {A: "z"}, 600) is barred


def test_who_says_nothing_is_let_back() -> None:
    """An agent that was replaced knows nothing of what it is barred from; if it is cut off, too, that shows anew."""
    barred = cut_off({}, "m", {A: "silence"}, 0)
    assert lift_expired(barred, MEMBERS, SILENT_MS) is barred
    assert lift_expired(barred, MEMBERS, SILENT_MS + 1) == {}


def test_who_has_left_is_forgotten() -> None:
    """A member id doesn't come back."""
    assert lift_expired(cut_off({}, "m", {A: "silence"}, 0), ("n", "o"), 1) == {}


def test_what_others_make_of_it() -> None:
    """The plan takes no cut-off owner for one; changes are told by name."""
    barred = cut_off({}, "m", {A: "silence", C: "silence"}, 0)
    assert able_owners(barred, {A: "m", B: "m", C: "n"}) == {B: "m", C: "n"}
    assert new_bars({}, barred) == {"m": [A, C]} and new_bars(barred, {}) == {}


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["cut", "try", "wait"]),
        st.sampled_from(MEMBERS),
        st.sets(st.sampled_from([A, B, C])),
        st.integers(0, 40_000),
    ),
    max_size=30,
)


@given(events=EVENTS)
def test_laws(events: list[tuple[str, str, set[TopicPartition], int]]) -> None:
    """Nobody is barred who wasn't cut off, nobody let back before its hold unless it fell silent, nothing empty is kept."""
    barred: Barred = {}
    now = 0
    for what, member, partitions, pause in events:
        now += pause
        before = barred
        if what == "cut":
            barred = cut_off(barred, member, dict.fromkeys(partitions, "silence"), now)
        elif what == "try":
            barred = record_attempt(barred, member, partitions, now)
        barred = lift_expired(barred, MEMBERS, now)
        new = new_bars(before, barred)
        assert not new or (what == "cut" and set(new) == {member} and set(new[member]) <= partitions)
        for who, tps in new_bars(barred, before).items():
            for bar in (before[who][tp] for tp in tps):
                assert now - bar.since_ms >= HOLD_MS or now - bar.heard_ms > SILENT_MS
        assert all(barred.values())
