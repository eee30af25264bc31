"""Partitions that keep the others waiting: recognised by what tasks waited for, and planned only as far as they are fetched.

A partition whose leader is slow, or throttles its readers, answers whoever asks for its log's end as fast as any other:
what shows is that tasks wait for its records, in vain, while those of others come.  So owners tell for how long they
were waited for, and where fetching stands.  One that was waited for far longer than most is *late*: from then on a batch
takes of it what its owner has fetched ahead, which nobody waits for, until it comes in time again.

In time is a partition whose owner has fetched, within ``IN_TIME_MS``, what the log held when the driver last looked,
``GOOD_GOALS`` times in a row; so a backlog is caught up in pieces that are there already, and doesn't hold up the others
either.  Nothing is late where all are: a slow network, a busy machine, the beginning.

Only what is planned moves an owner on from where it can't get ahead: records that have aged out, one that is too large for it
or damaged, a buffer that nobody asks for.  So an owner tells nothing of a partition whose error the tasks are to get past, and one that
stands before what was planned already limits nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import exp
from typing import Final, NamedTuple

from sparkcohort.runtime.protocol.partitions import TopicPartition

LATE_MS: Final = 1_000
"""Waited for so long within about a window: a batch of other partitions takes less."""
WINDOW_MS: Final = 10_000
TIMES_MEDIAN: Final = 4
IN_TIME_MS: Final = 1_000
GOOD_GOALS: Final = 3
SILENT_MS: Final = 5_000
"""An owner that hasn't told for so long is gone: who reads its partitions now is anybody's guess."""
QUIET_MS: Final = 60_000
"""With nothing new to fetch for so long, a late partition is taken for a good one again."""


class FetchProgress(NamedTuple):
    """What an owner tells of a partition: where fetching stands, for how long tasks have waited since it told last."""

    position: int
    waited_ms: float


class Goal(NamedTuple):
    """A log end that fetching has to come to, and since when."""

    end: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class Track:
    """One partition of which its owner tells."""

    heard_ms: int
    position: int
    waited_ms: float  # the waits, of which older ones count less and less
    late_since_ms: int | None = None
    goal: Goal | None = None
    good: int = 0  # goals in a row that were come to in time
    busy_ms: int = 0  # when there was something to fetch last


Tracks = Mapping[TopicPartition, Track]


def after_report(
    tracks: Tracks,
    report: Mapping[TopicPartition, FetchProgress],
    now_ms: int,
    ends: Mapping[TopicPartition, int],
    *,
    fresh: bool = True,
) -> dict[TopicPartition, Track]:
    """The tracks after an owner has told; ``ends`` are the log ends of all partitions, as the driver knows them.

    ``fresh``: it has asked for them just now, so who has come to them has nothing to fetch.
    """
    heard_tracks = {tp: track for tp, track in tracks.items() if now_ms - track.heard_ms <= SILENT_MS}
    heard_tracks |= {tp: _next_track(heard_tracks.get(tp), progress, now_ms) for tp, progress in report.items()}
    bound = max(LATE_MS, TIMES_MEDIAN * _median(heard_tracks, len(ends)))
    return heard_tracks | {tp: _judged(heard_tracks[tp], bound, now_ms, ends.get(tp), fresh) for tp in report}


def late(tracks: Tracks, now_ms: int) -> dict[TopicPartition, Track]:
    """The late ones, of whose owners something has been heard lately."""
    return {
        tp: track
        for tp, track in tracks.items()
        if track.late_since_ms is not None and now_ms - track.heard_ms <= SILENT_MS
    }


def limited(
    ends: Mapping[TopicPartition, int], start: Mapping[TopicPartition, int], tracks: Tracks, now_ms: int
) -> dict[TopicPartition, int]:
    """How far to plan what comes after ``start``: the log ends, for late partitions what has been fetched of them."""
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
    """In words, for those that are late."""
    return {tp: _reason(track, ends.get(tp), now_ms) for tp, track in late(tracks, now_ms).items()}


def changed(
    earlier: Collection[TopicPartition], current: Collection[TopicPartition]
) -> tuple[list[TopicPartition], ...]:
    """Which became late, and which are in time again."""
    return sorted(set(current) - set(earlier)), sorted(set(earlier) - set(current))


def _next_track(track: Track | None, progress: FetchProgress, now_ms: int) -> Track:
    if track is None:
        return Track(now_ms, progress.position, progress.waited_ms, busy_ms=now_ms)
    weight = exp(-(now_ms - track.heard_ms) / WINDOW_MS)
    return replace(
        track, heard_ms=now_ms, position=progress.position, waited_ms=track.waited_ms * weight + progress.waited_ms
    )


def _median(tracks: Tracks, partitions: int) -> float:
    """The (lower) median wait of all partitions; those nobody tells of weren't waited for."""
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
