"""A Python source that yields batches made beforehand: what the way from Python into the JVM costs alone.

No Kafka, no agents, no look-ups: nothing that yields the same columns through PySpark's source can be faster.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType, TimestampType

FORMAT = "ready-made"
BATCH_ROWS = 10_000
KEY_BYTES = 7  # that of a record number in the millions, as in the topics of the bench
SCHEMA = (
    StructType()
    .add("key", BinaryType())
    .add("value", BinaryType())
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("timestamp", TimestampType())
    .add("timestampType", IntegerType())
)


def make_batch(rows: int, value_bytes: int) -> pa.RecordBatch:
    """One batch of the seven columns, with random keys and values."""
    at = pa.scalar(datetime.now(UTC), pa.timestamp("us", tz="UTC"))
    columns = {
        "key": _binary(rows, KEY_BYTES),
        "value": _binary(rows, value_bytes),
        "topic": pa.repeat("ready-made", rows),
        "partition": pa.repeat(pa.scalar(0, pa.int32()), rows),
        "offset": pa.array(np.arange(rows, dtype=np.int64)),
        "timestamp": pa.repeat(at, rows),
        "timestampType": pa.repeat(pa.scalar(0, pa.int32()), rows),
    }
    return pa.RecordBatch.from_pydict(columns)


def _binary(rows: int, size: int) -> pa.Array:
    ends = np.arange(0, (rows + 1) * size, size, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(os.urandom(rows * size))]
    )


@dataclass(frozen=True)
class Rows(InputPartition):
    """So many rows."""

    count: int


class ReadyMade(DataSource):
    """``format("ready-made")`` with the options records, maxOffsetsPerTrigger and slots."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Spark's Kafka row."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> ReadyMadeReader:  # noqa: ARG002, N802  PySpark's signature
        """The reader of one query."""
        return ReadyMadeReader(*(int(self.options[name]) for name in ("records", "maxOffsetsPerTrigger", "slots")))


class ReadyMadeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """``records`` rows in triggers of ``limit``, each in ``slots`` tasks."""

    def __init__(self, records: int, limit: int, slots: int) -> None:
        self._records, self._limit, self._slots = records, limit, slots

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  PySpark's name
        """It is bounded anyway."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  PySpark's name
        """Rows of a trigger."""
        return ReadMaxRows(self._limit)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  PySpark's name
        """No row yet."""
        return {"row": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802  PySpark's name
        """A trigger's rows further, or the end."""
        return {"row": min(start["row"] + self._limit, self._records)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Rows]:
        """The rows between, shared evenly."""
        count = end["row"] - start["row"]
        return [Rows(count * (slot + 1) // self._slots - count * slot // self._slots) for slot in range(self._slots)]

    def read(self, partition: Rows) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """The same batch again and again."""
        ready = make_batch(BATCH_ROWS, 100)
        for _ in range(partition.count // BATCH_ROWS):
            yield ready
        if partition.count % BATCH_ROWS:
            yield ready.slice(0, partition.count % BATCH_ROWS)
