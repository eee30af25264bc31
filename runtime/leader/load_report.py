"""What a member observes of its partitions: smoothed rates, and the report that carries them to the coordinator.

A rate is what came in a window, of which the older part counts less and less (weights fall by e in a window): both the
records and the time that they took are summed so, and a rate is one by the other.  So there's no slow start, a
partition that falls silent fades, and a pulse (a micro-batch is one) is flattened where the window is longer than it.

Records are offsets that the query has passed, by whichever reader; bytes are the fetched records' mean size times those.
The backlog is the log's end, as of the last fetch, less the query's position.

Figures stand by topic, rounded:

>>> report("m-1", {TopicPartition("t", 0): Load(12.34, 5678.9, 3)}).loads
{'t': (ObservedLoad(partition=0, records=12.3, bytes=5679, backlog=3),)}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp
from typing import Final, NamedTuple

from sparkcohort.assignors import Load
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import TopicPartition

REPORTS_A_WINDOW: Final = 12
_LEAST_INTERVAL_MS, _MOST_INTERVAL_MS = 100, 5_000


class Progress(NamedTuple):
    """One partition as its owner sees it: where the query stands, what was fetched so far, and the log's end if known."""

    position: int
    records: int
    bytes: int
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Meter:
    """One partition's sums over the window: time, offsets got past, and what was fetched."""

    last_ms: int
    last: Progress
    span_ms: float = 0.0
    passed: float = 0.0
    records: float = 0.0
    bytes: float = 0.0


def interval_ms(window_ms: int) -> int:
    """How often a member looks and reports."""
    return min(max(window_ms // REPORTS_A_WINDOW, _LEAST_INTERVAL_MS), _MOST_INTERVAL_MS)


def observe(
    meters: Mapping[TopicPartition, Meter], now: Mapping[TopicPartition, Progress], now_ms: int, window_ms: int
) -> dict[TopicPartition, Meter]:
    """The meters after another look; partitions that are not there any more are forgotten."""
    return {tp: _next_meter(meters.get(tp), progress, now_ms, window_ms) for tp, progress in now.items()}


def _next_meter(meter: Meter | None, progress: Progress, now_ms: int, window_ms: int) -> Meter:
    # An offset or a count that falls is of another log, or the partition was given up meanwhile.
    if meter is None or progress.position < meter.last.position or progress.records < meter.last.records:
        return Meter(now_ms, progress)
    elapsed_ms = now_ms - meter.last_ms
    weight = exp(-elapsed_ms / window_ms)
    return Meter(
        now_ms,
        progress,
        meter.span_ms * weight + elapsed_ms,
        meter.passed * weight + progress.position - meter.last.position,
        meter.records * weight + progress.records - meter.last.records,
        meter.bytes * weight + progress.bytes - meter.last.bytes,
    )


def loads(meters: Mapping[TopicPartition, Meter]) -> dict[TopicPartition, Load]:
    """The loads of those partitions that have been looked at twice."""
    return {tp: _load(meter) for tp, meter in meters.items() if meter.span_ms > 0}


def _load(meter: Meter) -> Load:
    rate = meter.passed * 1000 / meter.span_ms
    # All may have been fetched before the first look, and is passed by the query now.
    records, size = (meter.records, meter.bytes) if meter.records > 0 else (meter.last.records, meter.last.bytes)
    mean = size / records if records > 0 else 0.0
    backlog = 0 if meter.last.end is None else max(meter.last.end - meter.last.position, 0)
    return Load(rate, rate * mean, backlog)


def report(member_id: str, observed: Mapping[TopicPartition, Load]) -> calls.PartitionLoads:
    """A member's report."""
    rows: dict[str, list[calls.ObservedLoad]] = {}
    for (topic, number), load in sorted(observed.items()):
        row = calls.ObservedLoad(number, round(load.records, 1), round(load.bytes), load.backlog)
        rows.setdefault(topic, []).append(row)
    return calls.PartitionLoads(member_id, {topic: tuple(loads) for topic, loads in rows.items()})
