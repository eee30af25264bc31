"""Pieces of ranges, as readers hand them out, and who else may have them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

import pyarrow as pa

from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.kafka.consumer import arrow_rows

Piece: TypeAlias = tuple[TopicPartition, int, pa.RecordBatch | None]
"""The partition, the next offset, and the rows that came before it, if any."""


class Elsewhere(Protocol):
    """Somebody else who reads the same; see ``relay.Through``."""

    why: str
    replaced: set[str]

    def is_all(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether none of these is worth waiting for here."""

    def wants(self, tp: TopicPartition, silent_s: float | None, idle_s: float) -> bool:
        """Whether to read it there now."""

    def read(self, ranges: Sequence[Range], ids: Mapping[str, str]) -> Sequence[Piece]:
        """Some of the ranges, one a partition, as ``RangeReader.read`` has them; nothing where they don't come there either."""


def trim(batch: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch | None:
    """Return the rows with offsets in [start, end) without copying; None when there are none."""
    offsets = batch.column(arrow_rows.OFFSET)
    n = len(offsets)
    first = 0 if offsets[0].as_py() >= start else _count_below(offsets, start)
    last = n if offsets[n - 1].as_py() < end else _count_below(offsets, end)
    if (first, last) == (0, n):
        return batch
    return batch.slice(first, last - first) if first < last else None


def _count_below(offsets: pa.Array, limit: int) -> int:
    # Not by pyarrow.compute: a scalar to compare with imports pandas, a third of a second of a process's first batch.
    return bisect_left(range(len(offsets)), limit, key=lambda place: offsets[place].as_py())
