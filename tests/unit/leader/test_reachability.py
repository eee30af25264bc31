"""Members that can't fetch what others can: barred, held, let back, without a to and fro."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.leader.reachability import (
    FORGET_MS,
    GOOD_MS,
    HOLD_MS,
    MOST_HOLD_MS,
    SILENT_MS,
    Abilities,
    avoiding,
    changes,
    cut_off,
    lift_expired,
    tried,
    without,
)
from sparkcohort.runtime.protocol.partitions import TopicPartition

A, B, C = (TopicPartition("t", number) for number in range(3))
MEMBERS = ("m", "n", "o")
STEP_MS = 1_000


def barred(known: Abilities, member: str = "m") -> set[TopicPartition]:
    """What a member is barred from."""
    return set(known.barred.get(member, {}))


def run(known: Abilities, start: int, until: int, reached: list[TopicPartition]) -> tuple[Abilities, int]:
    """A member that tries every second and reaches these; returns when it was let back to something, or ``until``."""
    now, before = start, barred(known)
    while now < until and barred(known) == before:
        now += STEP_MS
        known = lift_expired(tried(known, "m", reached, now), MEMBERS, now)
    return known, now


def test_it_is_let_back_when_it_has_reached_the_leader_for_a_while() -> None:
    """Not before the hold is over, nor while it fails; each partition by itself."""
    known = cut_off(Abilities(), "m", {A: "silence", B: "silence"}, 0)
    known, now = run(known, 0, 60_000, [])
    assert now == 60_000 and barred(known) == {A, B}
    known, now = run(known, now, 120_000, [A])
    assert now == 60_000 + STEP_MS + GOOD_MS and barred(known) == {B}
    fresh, now = run(cut_off(Abilities(), "m", {A: "silence"}, 0), 0, 60_000, [A])
    assert now == HOLD_MS and barred(fresh) == set()


def test_one_try_that_fails_begins_anew() -> None:
    """A way that is there now and then is not there."""
    known = cut_off(Abilities(), "m", {A: "silence"}, 0)
    for now in range(0, 300_000, STEP_MS):
        known = lift_expired(tried(known, "m", [] if now % 3_000 == 0 else [A], now), MEMBERS, now)
        assert barred(known) == {A}


def test_a_cut_that_comes_again_is_held_longer() -> None:
    """Twice as long each time, up to a bound; after a good while it is a first time again."""
    known, now, holds = Abilities(), 0, []
    for _ in range(8):
        began = now
        known, now = run(cut_off(known, "m", {A: "silence"}, now), now, now + 10 * MOST_HOLD_MS, [A])
        holds.append(now - began)
    assert holds == [min(HOLD_MS << time, MOST_HOLD_MS) for time in range(8)]
    known, end = run(cut_off(known, "m", {A: "silence"}, now + FORGET_MS + 1), now + FORGET_MS + 1, 10**9, [A])
    assert end - (now + FORGET_MS + 1) == HOLD_MS and not barred(known)


def test_what_shows_one_after_the_other_is_one_cut() -> None:
    """A second partition of the same broker, a moment later, is no second time."""
    known = cut_off(cut_off(Abilities(), "m", {A: "x"}, 0), "m", {A: "y", B: "y"}, 500)
    assert known.past["m"].times == 1
    assert known.barred["m"][A].why == "x" and known.barred["m"][B].why == "y"
    assert cut_off(known, "m", {A: "z"}, 600) is known


def test_who_says_nothing_is_let_back() -> None:
    """An agent that was replaced knows nothing of what it is barred from; if it is cut off, too, that shows anew."""
    known = cut_off(Abilities(), "m", {A: "silence"}, 0)
    assert barred(lift_expired(known, MEMBERS, SILENT_MS)) == {A}
    assert barred(lift_expired(known, MEMBERS, SILENT_MS + 1)) == set()


def test_who_has_left_is_forgotten() -> None:
    """All of it: a member id doesn't come back."""
    known = lift_expired(cut_off(Abilities(), "m", {A: "silence"}, 0), ("n", "o"), 1)
    assert known == Abilities()


def test_what_others_make_of_it() -> None:
    """The plan takes no cut-off owner for one; a slot knows who can't read it; changes are told by name."""
    none = Abilities()
    known = cut_off(none, "m", {A: "silence", C: "silence"}, 0)
    assert without(known.barred, {A: "m", B: "m", C: "n"}) == {B: "m", C: "n"}
    assert avoiding(known.barred, [B, C]) == {"m"} and avoiding(known.barred, [B]) == frozenset()
    assert changes(none.barred, known.barred) == ({"m": [A, C]}, {})
    assert changes(known.barred, none.barred) == ({}, {"m": [A, C]})


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
    known, now = Abilities(), 0
    for what, member, partitions, pause in events:
        now += pause
        before = known
        if what == "cut":
            known = cut_off(known, member, dict.fromkeys(partitions, "silence"), now)
        elif what == "try":
            known = tried(known, member, partitions, now)
        known = lift_expired(known, MEMBERS, now)
        new, back = changes(before.barred, known.barred)
        assert not new or (what == "cut" and set(new) == {member} and set(new[member]) <= partitions)
        for who, tps in back.items():
            for bar in (before.barred[who][tp] for tp in tps):
                assert now >= bar.hold_until_ms or now - bar.heard_ms > SILENT_MS
        assert all(known.barred.values()) and all(1 <= past.times <= 8 for past in known.past.values())
