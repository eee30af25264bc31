"""The sink: one directory of Parquet a batch, keyed by batch id, so that a batch that is replayed replaces itself.

Each row tells which record was delivered, what columns it came as, and when a task handed it out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tools.demo import flights

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tools.demo.verdict import Delivery

_CLOCK = "CAST(java_method('java.lang.System', 'currentTimeMillis') AS BIGINT)"  # the task's clock, row by row


class Sink:
    """Writes batches, ``columns`` of each record; ``delivered`` counts the rows of those that are complete."""

    def __init__(self, directory: Path, *columns: str) -> None:
        self._directory, self._columns = directory, columns
        self._rows: dict[int, int] = {}

    @property
    def delivered(self) -> int:
        """Rows in complete batches."""
        return sum(self._rows.values())

    @property
    def batches(self) -> int:
        """Complete batches."""
        return len(self._rows)

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch (for ``foreachBatch``)."""
        path = self._directory / f"{batch_id:06d}"
        rows = frame.selectExpr("partition", "offset", f"{_CLOCK} AS at_ms", *self._columns)
        rows.write.mode("overwrite").parquet(str(path))
        self._rows[batch_id] = sum(pq.read_metadata(file).num_rows for file in path.glob("*.parquet"))

    def tables(self) -> Iterator[pa.Table]:
        """All rows of all batches: partition, offset, at_ms (milliseconds of the day's clock), and the columns."""
        for file in sorted(self._directory.glob("*/*.parquet")):
            yield pq.ParquetFile(file).read()


def delivered(sink: Sink) -> Iterator[Delivery]:
    """What a sink of flights has."""
    for rows in sink.tables():
        places = (rows[name].to_pylist() for name in ("partition", "offset", "at_ms"))
        columns = (_plain(rows[name]).to_pylist() for name in flights.NAMES)
        for (partition, offset, at_ms), flight in zip(
            zip(*places, strict=True), zip(*columns, strict=True), strict=True
        ):
            yield partition, offset, flights.checksum(flight), at_ms


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Timestamps as seconds since 1970."""
    return pc.cast(pc.cast(column, pa.timestamp("s")), pa.int64()) if pa.types.is_timestamp(column.type) else column
