"""Partitions that an open transaction blocks, under ``isolation.level=read_committed``.

Such a reader gets records before the last stable offset (LSO), the first record of an open transaction.  Between two
transactions the LSO advances.  Where it stands for ``STANDS_MS`` below the log's end, the producer is slow, or it is gone and
its transaction *hangs*, maybe for ever (KIP-664).  Nothing else shows it: the lag is 0.

>>> tp = TopicPartition("orders", 3)
>>> tracks = after_round({}, {tp: BothEnds(stable=120, end=150)}, now_ms=0)
>>> standing(tracks, now_ms=4_000)
{}
>>> tracks = after_round(tracks, {tp: BothEnds(stable=120, end=577)}, now_ms=10_000)
>>> standing(tracks, now_ms=12_000)
{TopicPartition(topic='orders', partition=3): OpenTransaction(records=457, seconds=12.0)}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from sparkcohort.runtime.protocol.partitions import TopicPartition

STANDS_MS: Final = 5_000


class BothEnds(NamedTuple):
    """The last stable offset (LSO), and the log's end with the records of open transactions."""

    stable: int
    end: int


class OpenTransaction(NamedTuple):
    """The number of offsets between the LSO and the log's end, and for how long the LSO has stood."""

    records: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StableOffset:
    """One partition whose leader has answered."""

    stable: int  # the LSO of the last answer
    since_ms: int  # the first answer of those in a row with this stable offset, below the end
    records: int  # between both by the last answer; 0: no transaction is open
    heard_ms: int  # the last answer


TransactionTracks = Mapping[TopicPartition, StableOffset]


def after_round(
    tracks: TransactionTracks, answers: Mapping[TopicPartition, BothEnds], now_ms: int
) -> dict[TopicPartition, StableOffset]:
    """The tracks after leaders have answered; a partition without an answer keeps its track."""
    return {**tracks, **{tp: _next_track(tracks.get(tp), answer, now_ms) for tp, answer in answers.items()}}


def standing(tracks: TransactionTracks, now_ms: int) -> dict[TopicPartition, OpenTransaction]:
    """The partitions that an open transaction blocks."""
    return {
        tp: OpenTransaction(track.records, (now_ms - track.since_ms) / 1000)
        for tp, track in tracks.items()
        if track.records and track.heard_ms - track.since_ms >= STANDS_MS
    }


def _next_track(track: StableOffset | None, answer: BothEnds, now_ms: int) -> StableOffset:
    records = max(answer.end - answer.stable, 0)
    unmoved = track is not None and records and track.records and track.stable == answer.stable
    since_ms = track.since_ms if track is not None and unmoved else now_ms
    return StableOffset(answer.stable, since_ms, records, now_ms)
