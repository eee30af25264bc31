"""What tests of the data path compare: rows per partition, whoever delivered them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from sparkcohort.runtime.protocol import Range, TopicPartition
from sparkcohort.runtime.shell.fetch import Piece, RangeReader
from sparkcohort.runtime.shell.prefetch import Served

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


def direct(conf: dict[str, Any], ranges: Sequence[Range], *, include_headers: bool = True, **options: Any) -> Rows:
    """The rows of the ranges, read by a RangeReader of its own; checks that every range was ended at its end."""
    reader = RangeReader(conf, include_headers=include_headers, **options)
    try:
        pieces = list(reader.read(ranges))
    finally:
        reader.close()
    ends = {tp: next_offset for tp, next_offset, _ in pieces}
    expected = {tp: max(r.end for r in ranges if r.tp == tp) for tp in {r.tp for r in ranges if r.start < r.end}}
    assert ends == expected
    return rows_of(pieces)


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
    serve: Callable[..., Iterator[Served]], wanted: Range, floor: int, plan_seq: int
) -> Iterator[tuple[int, pa.RecordBatch | None]]:
    """A request for one range, to a Prefetcher's ``serve`` or a LocalClient's ``read``: (next offset, batch or None).

    Raises Missed; checks that the range came to its end otherwise.
    """
    at = wanted.start
    with closing(serve([wanted], [floor], plan_seq)) as steps:  # type: ignore[type-var]
        for step in steps:
            for index, at in step.positions:
                assert index == 0
                yield at, step.batch
            for _, reason in step.missed:
                raise Missed(at, reason)
    assert at == wanted.end
