"""Late partitions: who is, who isn't, how far they are planned, and when they are like the others again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.batches.slow_partitions import (
    GOOD_GOALS,
    LATE_MS,
    QUIET_MS,
    SILENT_MS,
    FetchProgress,
    Track,
    after_report,
    late,
    limited,
    reasons,
)
from sparkcohort.runtime.protocol.partitions import TopicPartition

A, B, C, D = (TopicPartition("t", number) for number in range(4))
ENDS = {A: 1_000, B: 1_000, C: 1_000, D: 1_000}
STEP_MS = 250


def told(waits: dict[TopicPartition, float], position: int = 0) -> dict[TopicPartition, FetchProgress]:
    """What owners say: all fetched up to one position, these waited for so long."""
    return {tp: FetchProgress(position, waited) for tp, waited in waits.items()}


def slow_a(position: int = 100) -> dict[TopicPartition, Track]:
    """Partition A is late since 0."""
    return after_report({}, told({A: 2_000, B: 20}, position), 0, ENDS)


def test_one_that_was_waited_for_is_late() -> None:
    """It is planned up to where it is fetched, the others to their ends; the reason names both."""
    tracks = slow_a()
    assert set(late(tracks, 0)) == {A}
    assert limited(ENDS, {}, tracks, 0) == {**ENDS, A: 100}
    assert reasons(ENDS, tracks, 2_000) == {
        A: "its leader is slow, or throttles: late for 2 s, fetched up to 100, 900 records behind the log's end"
    }


def test_an_owner_that_stands_before_what_was_planned_limits_nothing() -> None:
    """Nothing but a plan gets it on: what it has is asked for by nobody any more."""
    tracks = slow_a()
    for at, end in ((99, 100), (100, 100), (101, 1_000), (1_000, 1_000)):
        assert limited(ENDS, {A: at, B: 7}, tracks, 0) == {**ENDS, A: end}


def test_waits_add_up_while_they_are_young() -> None:
    """Four quarter seconds in a row are a second; one now and then is nothing."""
    tracks: dict[TopicPartition, Track] = {}
    for step in range(5):
        tracks = after_report(tracks, told({A: 250}), step * STEP_MS, ENDS)
    assert set(late(tracks, 5 * STEP_MS)) == {A}
    tracks = {}
    for step in range(100):
        tracks = after_report(tracks, told({A: 250}), step * 4_000, ENDS)
        assert late(tracks, step * 4_000) == {}


def test_nobody_is_late_where_all_are() -> None:
    """A slow network, a busy machine: most partitions are waited for about as long."""
    assert late(after_report({}, told({A: 5_000, B: 4_000, C: 2_000}), 0, ENDS), 0) == {}
    assert set(late(after_report({}, told({A: 5_000, B: 4_000}), 0, ENDS), 0)) == {A, B}
    assert late(after_report({}, told({A: 5_000}), 0, {A: 1}), 0) == {}


def test_an_owner_that_is_gone_limits_nothing() -> None:
    """Without news for some seconds the partition is planned like any other."""
    tracks = slow_a()
    assert late(tracks, SILENT_MS) != {}
    assert limited(ENDS, {}, tracks, SILENT_MS + 1) == ENDS
    assert A not in after_report(tracks, told({B: 0}), SILENT_MS + 1, ENDS)


def follow(tracks: dict[TopicPartition, Track], lag_ms: int, steps: int) -> dict[TopicPartition, Track]:
    """A's log grows by a record a millisecond, and its owner fetches what there was so long ago."""
    for step in range(1, steps + 1):
        now = step * STEP_MS
        ends = ENDS | {A: 1_000 + now}
        tracks = after_report(tracks, {A: FetchProgress(max(100, 1_000 + now - lag_ms), 0)}, now, ends)
    return tracks


def test_it_is_in_time_again_when_it_keeps_up() -> None:
    """Fetching what the log held within a second, several times; a leader that stays slow stays late."""
    steps = 4 * (GOOD_GOALS + 1) + 1
    assert late(follow(slow_a(), 500, steps), steps * STEP_MS) == {}
    assert set(late(follow(slow_a(), 2_000, 40), 40 * STEP_MS)) == {A}


def test_it_takes_several_goals_in_time() -> None:
    """One that is come to within a second is luck; so many in a row are a leader that is well again."""
    tracks, now = slow_a(), 0
    for goal in range(GOOD_GOALS):
        assert set(late(tracks, now)) == {A}, f"after {goal} goals"
        end = 1_000 * (goal + 1)
        for position in (end - 900, end):  # there is something to fetch, and a moment later it is fetched
            now += STEP_MS
            tracks = after_report(tracks, {A: FetchProgress(position, 0)}, now, ENDS | {A: end})
    assert late(tracks, now) == {}


def test_a_quiet_one_is_let_go() -> None:
    """Nothing to fetch for a minute: nothing is known against it any more."""
    tracks = after_report(slow_a(1_000), {A: FetchProgress(1_000, 0)}, STEP_MS, ENDS)
    for now in range(STEP_MS, QUIET_MS + 2 * STEP_MS, STEP_MS):
        tracks = after_report(tracks, {A: FetchProgress(1_000, 0)}, now, ENDS)
    assert late(tracks, QUIET_MS + 2 * STEP_MS) == {}


def test_old_log_ends_say_nothing_of_quiet() -> None:
    """While a long batch runs nobody knows whether there is something to fetch: it stays late."""
    tracks = slow_a(1_000)
    for now in range(STEP_MS, 2 * QUIET_MS, STEP_MS):
        tracks = after_report(tracks, {A: FetchProgress(1_000, 0)}, now, ENDS, fresh=False)
    assert set(late(tracks, 2 * QUIET_MS - STEP_MS)) == {A}


WAITS = st.dictionaries(st.sampled_from([A, B, C, D]), st.floats(0, 20_000))
NEWS = st.lists(st.tuples(WAITS, st.integers(0, 2_000), st.integers(0, 10_000)), max_size=12)


@given(news=NEWS)
def test_laws(news: list[tuple[dict[TopicPartition, float], int, int]]) -> None:
    """Whatever is told: no end grows, none but a late one's shrinks, nobody is late who wasn't waited for."""
    tracks: dict[TopicPartition, Track] = {}
    now = 0
    for waits, position, pause in news:
        now += pause
        before = late(tracks, now)
        tracks = after_report(tracks, told(waits, position), now, ENDS)
        ends, behind = limited(ENDS, {}, tracks, now), late(tracks, now)
        assert ends.keys() == ENDS.keys()
        assert all(ends[tp] <= ENDS[tp] for tp in ENDS)
        assert {tp for tp in ENDS if ends[tp] < ENDS[tp]} <= behind.keys()
        assert all(track.late_since_ms is not None for track in behind.values())
        assert all(tp in waits and tracks[tp].waited_ms >= LATE_MS for tp in behind.keys() - before.keys())
