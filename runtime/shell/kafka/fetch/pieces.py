"""Pieces of ranges, as readers hand them out, and another way to have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import pyarrow as pa

from sparkcohort.runtime.batches.offset_runs import OffsetRuns
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition

Piece: TypeAlias = tuple[TopicPartition, int, pa.RecordBatch | None]
"""The partition, the next offset, and the rows that came before it, if any."""


class Elsewhere(Protocol):
    """Another way to the same records; see ``relay.RelayedReader``."""

    reason: str

    def wants(self, tp: TopicPartition, silent_s: float | None, idle_s: float) -> bool:
        """Whether to read it that way now."""

    def read(self, ranges: Sequence[Range], ids: Mapping[str, str]) -> Sequence[Piece]:
        """Some of the ranges, one a partition, as ``RangeReader.read`` has them; nothing where they don't come that way either."""


def trim(batch: pa.RecordBatch, runs: OffsetRuns, start: int, end: int) -> pa.RecordBatch | None:
    """Return the rows with offsets in [start, end) without copying; None when there are none."""
    n = batch.num_rows
    first, last = runs.rows_below(start, n), runs.rows_below(end, n)
    if (first, last) == (0, n):
        return batch
    return batch.slice(first, last - first) if first < last else None
