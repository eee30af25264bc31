"""The sink: one directory of Parquet a batch, keyed by batch id, so that a batch that is replayed replaces itself.

Each row tells which record was delivered, the checksum of its value, and when a task handed it out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.functions import crc32, expr

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CLOCK = "CAST(java_method('java.lang.System', 'currentTimeMillis') AS BIGINT)"  # the task's clock, row by row


class Sink:
    """Writes batches; ``delivered`` counts the rows of those that are complete."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
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
        rows = frame.select("partition", "offset", crc32("value").alias("checksum"), expr(_CLOCK).alias("at_ms"))
        rows.write.mode("overwrite").parquet(str(path))
        self._rows[batch_id] = sum(pq.read_metadata(file).num_rows for file in path.glob("*.parquet"))

    def read(self) -> pa.Table:
        """All rows of all batches: partition, offset, checksum, at_ms (milliseconds of the day's clock)."""
        files = sorted(self._directory.glob("*/*.parquet"))
        tables = [pq.ParquetFile(file).read() for file in files]
        return pa.concat_tables(tables).select(["partition", "offset", "checksum", "at_ms"])
