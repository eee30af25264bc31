"""Batch 0 is written with tasks that wait for their speculative copies, batch 1 from a cache that loses blocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import StorageLevel, TaskContext
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from tests.kit import sink
from tests.kit.driver import arguments, report, session
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GIVEN = arguments()
TURN = Path(GIVEN["turn"])
WAIT_S = 60.0
ROW = (
    StructType()
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("key", BinaryType())
    .add("value", BinaryType())
)


def wait_for_the_copy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass rows on; the first attempt of task 0 holds its rows back until a copy of it has begun."""
    context = TaskContext.get()
    assert context is not None
    copied = TURN / "copied"
    if context.partitionId() == 0 and context.attemptNumber() > 0:
        copied.touch()
    for number, batch in enumerate(batches):
        if number == 0 and context.partitionId() == 0 and context.attemptNumber() == 0:
            deadline = time.monotonic() + WAIT_S
            while not copied.exists() and time.monotonic() < deadline:  # no helpers of ours on the executors
                threading.Event().wait(0.05)
        yield batch


def cached_partitions() -> int:
    """How many partitions of cached data there are on all executors."""
    return sum(int(cached.numCachedPartitions()) for cached in spark.sparkContext._jsc.sc().getRDDStorageInfo())


def write(batch: DataFrame, batch_id: int) -> None:
    """The sink."""
    plain = batch.select(*ROW.names)
    if batch_id == 0:
        sink.parquet(GIVEN["out"])(plain.mapInArrow(wait_for_the_copy, ROW), batch_id)
        return
    plain.persist(StorageLevel.MEMORY_ONLY)
    plain.count()
    report("cached", copies=len(list(TURN.glob("copied"))), blocks=cached_partitions())
    wait_until(lambda: (TURN / "killed").exists() and not cached_partitions(), WAIT_S, "the loss of all blocks")
    report("counted", rows=plain.count())
    sink.parquet(GIVEN["out"])(plain, batch_id)
    plain.unpersist()


spark = session()
stream = spark.readStream.format("cohort").options(**GIVEN["options"]).load()
query = stream.writeStream.foreachBatch(write).option("checkpointLocation", GIVEN["checkpoint"])
query.trigger(availableNow=True).start().awaitTermination()
spark.stop()
