"""A session of a remote Spark, run by a Python that has no Cohort: what it saw, as one line of JSON.

python connect_client.py REMOTE BOOTSTRAP TOPIC FOLDER
"""

from __future__ import annotations

import importlib.util
import json
import sys
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LIMIT_S = 90
remote, bootstrap, topic, folder = sys.argv[1:5]
spark = SparkSession.builder.remote(remote).getOrCreate()
brokers = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}


def stream(group: str, **more: Any) -> DataFrame:
    """The topic as this group."""
    options = {**brokers, "group.id": group, **more}
    return spark.readStream.format("cohort").options(**options).load()


def finish(writer: Any, name: str) -> dict[str, Any]:
    """Run an AvailableNow query to its end: what its last progress says of it."""
    query = writer.option("checkpointLocation", f"{folder}/{name}-checkpoint").trigger(availableNow=True).start()
    if not query.awaitTermination(LIMIT_S):
        raise SystemExit(f"{name} still runs")
    if error := query.exception():
        raise error
    return {"progress": [each.numInputRows for each in query.recentProgress]}


def each_batch(batch: DataFrame, number: int) -> None:
    """Runs in a process of the server."""
    batch.write.mode("overwrite").parquet(f"{folder}/batches/{number}")


def refused() -> str:
    """What a wrong option says."""
    try:
        spark.readStream.format("cohort").options(**brokers, **{"group.id": "g", "no.such": "1"}).load().schema  # noqa: B018
    except PySparkException as error:
        return str(error)
    return ""


def copy(group: str) -> DataFrame:
    """The columns of the topic's records that a write takes."""
    return stream(group, maxOffsetsPerTrigger="400").select("key", "value", "partition")


sink = {"kafka.bootstrap.servers": bootstrap}
batch = spark.read.format("cohort").options(**brokers).load()
day = batch.where("partition = 0 and offset < 10").select("offset").collect()
batch.select("key", "value", "partition").write.format("cohort").options(**sink, topic=f"{topic}-batch").mode(
    "append"
).save()
print(  # noqa: T201
    json.dumps(
        {
            "has_cohort": importlib.util.find_spec("sparkcohort") is not None,
            "batch": batch.count(),
            "filtered": sorted(row.offset for row in day),
            "files": finish(
                stream(f"{topic}-files").writeStream.format("parquet").option("path", f"{folder}/files"), "files"
            ),
            "batches": finish(
                stream(f"{topic}-batches", maxOffsetsPerTrigger="400").writeStream.foreachBatch(each_batch), "each"
            ),
            "copy": finish(
                copy(f"{topic}-copy").writeStream.format("cohort").options(**sink, topic=f"{topic}-stream"), "copy"
            ),
            "refused": refused(),
        }
    )
)
spark.stop()
