"""The demo's query, on a cluster of three executors.

Each executor is on a host of its own (127.0.0.2 and up), as in a cluster, and the settings are those of
``conf/spark-defaults.conf``: what the demo shows is what the documents recommend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sparkcohort.streaming.installation import jar_path
from tools.demo import flights
from tools.recommended import recommended
from tools.spark import session

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tools.demo.sink import Sink

EXECUTORS: Final = 3
# Many JVMs start at once on what may be two cores: the quick compiler and collector, for a run of two minutes.
QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def cluster(directory: Path) -> AbstractContextManager[SparkSession]:
    """A Spark session whose executors are processes of their own; gone, with its JVM and files, at the end."""
    return session(f"standalone[{EXECUTORS}]", directory, recommended() | {"spark.jars": str(jar_path())}, QUICK)


def slots_read(query: StreamingQuery) -> dict[str, int]:
    """How many slots each reader has read, by Spark's last progress event; empty where Python workers alone read."""
    progress = query.lastProgress
    metrics = progress["sources"][0]["metrics"] if progress else {}
    return {name: int(value) for name, value in metrics.items() if name.startswith("slots")}


def stream(
    spark: SparkSession, bootstrap: str, topic: str, group_id: str, sink: Sink, checkpoint: Path, port: int
) -> StreamingQuery:
    """Start the query: the topic, read as a consumer group, its values as columns, into the sink."""
    columns = (
        spark.readStream.format("cohort")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("group.id", group_id)
        .option("value.format", "json")
        .option("value.schema", flights.FIELDS)
        .option("value.timezone", "UTC")
        .option("maxOffsetsPerTrigger", 20_000)
        .option("metrics.port", port)
        .load()
    )
    return (
        columns.writeStream.foreachBatch(sink.write)
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime="500 milliseconds")
        .start()
    )
