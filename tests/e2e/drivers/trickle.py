"""Reads topics with trigger 0, one after the other, and reports the tasks of each stage; then drains what is left.

Arguments: ``bootstrap``, ``directory``, ``topics`` (in the order to read them), ``batches`` a reading.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kit import sink
from tests.kit.driver import arguments, report, session
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

READING_S = 120.0


def prepared(spark: SparkSession, given: dict[str, Any], topic: str, done: threading.Semaphore) -> DataStreamWriter:
    """A query on ``topic``, to be given a trigger; ``done`` is released after each batch."""
    folder = Path(given["directory"]) / topic
    write = sink.json_lines(folder / "out")

    def batch(rows: DataFrame, batch_id: int) -> None:
        write(rows, batch_id)
        done.release()

    options = {"kafka.bootstrap.servers": given["bootstrap"], "subscribe": topic, "group.id": topic}
    stream = spark.readStream.format("cohort").options(**options, startingOffsets="earliest").load()
    return stream.writeStream.foreachBatch(batch).option("checkpointLocation", str(folder / "checkpoint"))


def reading(spark: SparkSession, given: dict[str, Any], topic: str) -> list[int]:
    """Run the query for a number of batches; the number of tasks of each stage that it ran."""
    done = threading.Semaphore(0)
    query = prepared(spark, given, topic, done).trigger(processingTime="0 seconds").start()
    for _ in range(given["batches"]):
        if not done.acquire(timeout=READING_S):
            raise RuntimeError(f"no batch of {topic} for {READING_S} s: {query.status} {query.exception()}")
    seen = tasks(spark, query)
    query.stop()
    return seen


def tasks(spark: SparkSession, query: StreamingQuery) -> list[int]:
    """The number of tasks of each stage of ``query`` so far, in the order in which they ran."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in sorted(tracker.getJobIdsForGroup(query.runId))]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return [stage.numTasks for stage in stages if stage is not None]


def main() -> None:
    """Read, wait until the producers have stopped, drain."""
    given, spark = arguments(), session()
    for topic in given["topics"]:
        report("reading", topic=topic, tasks=reading(spark, given, topic))
    stopped = Path(given["directory"]) / "stopped"
    wait_until(stopped.exists, READING_S, "the end of the producers")
    for topic in set(given["topics"]):
        prepared(spark, given, topic, threading.Semaphore(0)).trigger(availableNow=True).start().awaitTermination()
    spark.stop()


main()
