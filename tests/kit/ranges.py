"""What tests of the data path compare: rows per partition, whoever delivered them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher
from sparkcohort.runtime.shell.agent.task_frames import Served
from sparkcohort.runtime.shell.kafka.fetch.events import Piece
from sparkcohort.runtime.shell.kafka.fetch.range_reader import RangeReader
from sparkcohort.runtime.values.columns import KAFKA_ROW_WITH_HEADERS, Columns

Rows = dict[TopicPartition, list[dict[str, Any]]]


def rows_of(pieces: Iterable[Piece]) -> Rows:
    """The rows per partition, in order of arrival; checks that positions only grow and offsets lie below them."""
    found: Rows = {}
    stands: dict[TopicPartition, int] = {}
    for tp, next_offset, batch in pieces:
        assert next_offset > stands.get(tp, -1)
        if batch is not None:
            rows = batch.to_pylist()
            assert stands.get(tp, 0) <= rows[0]["offset"] <= rows[-1]["offset"] < next_offset
            found.setdefault(tp, []).extend(rows)
        stands[tp] = next_offset
    return found


def direct(
    conf: dict[str, Any], ranges: Sequence[Range], *, columns: Columns = KAFKA_ROW_WITH_HEADERS, **options: Any
) -> Rows:
    """The rows of the ranges, read by a RangeReader of its own; checks that every range was ended at its end."""
    reader = RangeReader(conf, columns=columns, **options)
    try:
        pieces = list(reader.read(ranges))
    finally:
        reader.close()
    ends = {tp: next_offset for tp, next_offset, _ in pieces}
    expected = {tp: max(r.end for r in ranges if r.tp == tp) for tp in {r.tp for r in ranges if r.start < r.end}}
    assert ends == expected
    return rows_of(pieces)


def tasks_read(
    conf: dict[str, Any],
    ranges: Sequence[Range],
    way: str,
    *,
    into: Rows | None = None,
    patience_s: float = 5,
    **options: Any,
) -> Rows:
    """The rows of the ranges as a task reads them: "directly", or "by the agent" and what that misses directly.

    ``into`` also has what came before an error; ``options`` are a RangeReader's.
    """
    found: Rows = {} if into is None else into
    if way == "by the agent":
        prefetcher = Prefetcher(conf, columns=KAFKA_ROW_WITH_HEADERS, patience_s=patience_s)
        prefetcher.assign({r.tp: r.start for r in reversed(ranges)})
        try:
            ranges = pull(prefetcher, ranges, 1, found)
        finally:
            prefetcher.close()
    reader = RangeReader(conf, columns=KAFKA_ROW_WITH_HEADERS, **options)
    try:
        for tp, _, batch in reader.read(ranges):
            found.setdefault(tp, []).extend([] if batch is None else batch.to_pylist())
    finally:
        reader.close()
    return {tp: rows for tp, rows in found.items() if rows}


def pull(prefetcher: Prefetcher, ranges: Sequence[Range], plan_seq: int, into: Rows) -> list[Range]:
    """What a prefetcher has of the ranges of a plan goes ``into`` the rows; returns what it misses."""
    left = list(ranges)
    for step in prefetcher.serve(ranges, [r.start for r in ranges], plan_seq):
        for row in [] if step.batch is None else step.batch.to_pylist():
            into.setdefault(TopicPartition(row["topic"], row["partition"]), []).append(row)
        for index, at in step.positions:
            left[index] = left[index]._replace(start=at)
    return [r for r in left if r.start < r.end]


def offsets(rows: Sequence[dict[str, Any]]) -> list[int]:
    """The offset column."""
    return [row["offset"] for row in rows]


def batches_to_rows(pieces: Iterable[tuple[int, pa.RecordBatch | None]]) -> list[dict[str, Any]]:
    """The rows of one served range."""
    return [row for _, batch in pieces if batch is not None for row in batch.to_pylist()]


class Missed(Exception):
    """A range that could not be served to its end; everything before ``next_offset`` was."""

    def __init__(self, next_offset: int, reason: str) -> None:
        super().__init__(f"{reason} at offset {next_offset}")
        self.next_offset = next_offset
        self.reason = reason


def one_by(
    serve: Callable[..., Iterator[Served]], wanted: Range, planned_start: int, plan_seq: int
) -> Iterator[tuple[int, pa.RecordBatch | None]]:
    """A request for one range, to a Prefetcher's ``serve`` or a TaskClient's ``read``: (next offset, batch or None).

    Raises Missed; checks that the range came to its end otherwise.
    """
    at = wanted.start
    with closing(serve([wanted], [planned_start], plan_seq)) as steps:  # type: ignore[type-var]
        for step in steps:
            for index, at in step.positions:
                assert index == 0
                yield at, step.batch
            for _, reason in step.missed:
                raise Missed(at, reason)
    assert at == wanted.end
