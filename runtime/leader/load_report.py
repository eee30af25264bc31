"""What a member observes of its partitions: smoothed rates, and the report that carries them to the coordinator.

A rate is what came in a window, of which the older part counts less and less (weights fall by e in a window): both the
records and the time that they took are summed so, and a rate is one by the other.  So there's no slow start, a
partition that falls silent fades, and a pulse (a micro-batch is one) is flattened where the window is longer than it.

Records are offsets that the query has passed, by whichever reader; bytes are the fetched records' mean size times those.
The backlog is the log's end, as of the last fetch, less the query's position.

A report is JSON, its ``v`` a version: a reader takes those that it knows.  Figures stand in columns by topic, rounded:

>>> encode("m-1", {TopicPartition("t", 0): Load(12.34, 5678.9, 3), TopicPartition("t", 4): Load()})
b'{"v":1,"member":"m-1","loads":{"t":[[0,4],[12.3,0.0],[5679,0],[3,0]]}}'
>>> decode(_) == ("m-1", {TopicPartition("t", 0): Load(12.3, 5679, 3), TopicPartition("t", 4): Load()})
True
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp
from typing import Any, Final, NamedTuple

from sparkcohort.assignors import Load
from sparkcohort.assignors.load_weights import credible
from sparkcohort.runtime.protocol.partitions import TopicPartition

VERSION: Final = 1
REPORTS_A_WINDOW: Final = 12
_LEAST_INTERVAL_MS, _MOST_INTERVAL_MS = 100, 5_000


class MalformedReport(ValueError):
    """Bytes that are no report, or one with figures that no partition has."""


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


def encode(member_id: str, observed: Mapping[TopicPartition, Load]) -> bytes:
    """A member's report."""
    columns: dict[str, list[list[float]]] = {}
    for (topic, number), load in sorted(observed.items()):
        row = (number, round(load.records, 1), round(load.bytes), load.backlog)
        for column, value in zip(columns.setdefault(topic, [[], [], [], []]), row, strict=True):
            column.append(value)
    report = {"v": VERSION, "member": member_id, "loads": columns}
    return json.dumps(report, separators=(",", ":")).encode()


def decode(data: bytes) -> tuple[str, dict[TopicPartition, Load]]:
    """The member that reports, and its loads.  Raises MalformedReport."""
    try:
        report = json.loads(data)
        if report["v"] != VERSION:
            raise MalformedReport(f"a report of loads in version {report['v']!r:.20}: {VERSION} is known")
        return str(report["member"]), dict(_row(topic, *row) for topic, row in _rows(report["loads"]))
    except (LookupError, TypeError, AttributeError, RecursionError, ValueError) as error:
        if isinstance(error, MalformedReport):
            raise
        raise MalformedReport(f"not a report of loads: {type(error).__name__}") from None


def _rows(columns: Mapping[str, Any]) -> list[tuple[str, tuple[Any, ...]]]:
    return [(topic, row) for topic, four in columns.items() for row in zip(*four, strict=True)]


def _row(topic: str, number: Any, *figures: Any) -> tuple[TopicPartition, Load]:
    if type(number) is not int or any(type(figure) not in (int, float) for figure in figures):
        raise TypeError(f"a figure of {topic}")
    records, size, backlog = figures
    load = Load(records, size, backlog)
    if type(backlog) is not int or not credible(load):
        raise MalformedReport(f"a report of loads: {topic}-{number} has {load}, which no partition can have"[:200])
    return TopicPartition(topic, number), load
