"""Late partitions: those for which tasks wait far longer than for others.  A batch takes only what is fetched of them.

A leader that is slow, or throttles its readers, still answers the question for the log's end fast.  What shows is that tasks
wait for its records while those of others come.  So owners report, for each partition, how long tasks have waited and how far
it is fetched.  A partition with far longer waits than most is *late*: a batch takes of it only what its owner has fetched
ahead, so no task waits for it, until it is in time again.

A partition is in time again when its owner, ``GOOD_GOALS`` times in a row, has fetched within ``IN_TIME_MS`` up to the log end
that the driver saw last.  So a backlog is read in fetched pieces, too.  No partition is late where all are: a slow network, a
busy machine, the start of a query.

An owner may be unable to fetch ahead until a batch is planned past a place: records that have aged out, a record that is too
large or damaged, a full buffer.  So owners report no partition with an error that tasks have to pass, and a position before
the planned start limits nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp
from typing import Final, NamedTuple

from sparkcohort.runtime.protocol.partitions import TopicPartition

LATE_MS: Final = 1_000
"""The least wait within about ``WINDOW_MS`` that makes a partition late: a usual batch takes less."""
WINDOW_MS: Final = 10_000
TIMES_MEDIAN: Final = 4
IN_TIME_MS: Final = 1_000
GOOD_GOALS: Final = 3
SILENT_MS: Final = 5_000
"""An owner without a report for so long counts as gone, and its reports don't count any more."""
QUIET_MS: Final = 60_000
"""With nothing new to fetch for so long, a late partition counts as in time again."""


class FetchProgress(NamedTuple):
    """An owner's report of a partition: the fetch position, and how long tasks have waited since its last report."""

    position: int
    waited_ms: float


class Goal(NamedTuple):
    """A log end that the fetch position has to reach, and since when."""

    end: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class Track:
    """One partition that its owner reports."""

    heard_ms: int  # of the last report
    position: int
    waited_ms: float  # the sum of waits, older ones with less weight (``WINDOW_MS``)
    late_since_ms: int | None = None  # None: in time
    goal: Goal | None = None  # of a late partition only
    good: int = 0  # goals in a row that were reached in time
    busy_ms: int = 0  # when there was last something to fetch


Tracks = Mapping[TopicPartition, Track]


def after_report(
    tracks: Tracks,
    report: Mapping[TopicPartition, FetchProgress],
    now_ms: int,
    ends: Mapping[TopicPartition, int],
    *,
    fresh: bool = True,
) -> dict[TopicPartition, Track]:
    """The tracks after an owner's report; ``ends`` are the log ends of all partitions, as the driver knows them.

    ``fresh``: the driver has asked for the ends just now, so a position at the end has nothing to fetch.
    """
    heard_tracks = {tp: track for tp, track in tracks.items() if now_ms - track.heard_ms <= SILENT_MS}
    heard_tracks |= {tp: _next_track(heard_tracks.get(tp), progress, now_ms) for tp, progress in report.items()}
    bound = max(LATE_MS, TIMES_MEDIAN * _median(heard_tracks, len(ends)))
    return heard_tracks | {tp: _judged(heard_tracks[tp], bound, now_ms, ends.get(tp), fresh) for tp in report}


def late(tracks: Tracks, now_ms: int) -> dict[TopicPartition, Track]:
    """The late partitions with a recent report."""
    return {
        tp: track
        for tp, track in tracks.items()
        if track.late_since_ms is not None and now_ms - track.heard_ms <= SILENT_MS
    }


def limited(
    ends: Mapping[TopicPartition, int], start: Mapping[TopicPartition, int], tracks: Tracks, now_ms: int
) -> dict[TopicPartition, int]:
    """How far to plan from ``start``: to the log ends, for late partitions to the fetch position."""
    fetched = {tp: track.position for tp, track in late(tracks, now_ms).items()}
    return {
        **ends,
        **{
            tp: min(ends[tp], position)
            for tp, position in fetched.items()
            if tp in ends and position >= start.get(tp, 0)
        },
    }


def reasons(ends: Mapping[TopicPartition, int], tracks: Tracks, now_ms: int) -> dict[TopicPartition, str]:
    """Why partitions are late, in words."""
    return {tp: _reason(track, ends.get(tp), now_ms) for tp, track in late(tracks, now_ms).items()}


def _next_track(track: Track | None, progress: FetchProgress, now_ms: int) -> Track:
    if track is None:
        return Track(now_ms, progress.position, progress.waited_ms, busy_ms=now_ms)
    weight = exp(-(now_ms - track.heard_ms) / WINDOW_MS)
    return replace(
        track, heard_ms=now_ms, position=progress.position, waited_ms=track.waited_ms * weight + progress.waited_ms
    )


def _median(tracks: Tracks, partitions: int) -> float:
    """The (lower) median wait of all partitions; one without a report has had no wait."""
    waits = sorted((track.waited_ms for track in tracks.values()), reverse=True)
    place = partitions // 2  # from above
    return waits[place] if place < len(waits) else 0.0


def _judged(track: Track, bound: float, now_ms: int, end: int | None, fresh: bool) -> Track:
    if track.late_since_ms is None:
        return replace(track, late_since_ms=now_ms, good=0, busy_ms=now_ms) if track.waited_ms >= bound else track
    track = _goal_met(track, now_ms)
    if track.goal is None and end is not None and end > track.position:
        track = replace(track, goal=Goal(end, now_ms))
    if track.goal is not None or not fresh:
        track = replace(track, busy_ms=now_ms)
    if track.good >= GOOD_GOALS or now_ms - track.busy_ms > QUIET_MS:
        return replace(track, late_since_ms=None, waited_ms=0.0, goal=None, good=0)
    return track


def _goal_met(track: Track, now_ms: int) -> Track:
    if track.goal is None or track.position < track.goal.end:
        return track
    in_time = now_ms - track.goal.since_ms <= IN_TIME_MS
    return replace(track, goal=None, good=track.good + 1 if in_time else 0)


def _reason(track: Track, end: int | None, now_ms: int) -> str:
    since_s = (now_ms - (now_ms if track.late_since_ms is None else track.late_since_ms)) // 1000
    distance = "" if end is None else f", {max(end - track.position, 0)} records behind the log's end"
    return f"its leader is slow, or throttles: late for {since_s} s, fetched up to {track.position}{distance}"
