"""An AvailableNow run with ``format("dying")`` that keeps what it wrote, batch by batch, or writes it to a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kit import sink
from tests.kit.driver import arguments, session
from tests.kit.dying import DyingSource, die_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GIVEN = arguments()


def write(batch: DataFrame, batch_id: int) -> None:
    """The sink."""
    sink.parquet(GIVEN["out"])(batch, batch_id)
    die_at("sink")


spark = session()
spark.dataSource.register(DyingSource)
stream = spark.readStream.format("dying").options(**GIVEN["options"]).load()
query = stream.writeStream.option("checkpointLocation", GIVEN["checkpoint"])
query = query.format("dying").options(**GIVEN["sink"]) if "sink" in GIVEN else query.foreachBatch(write)
query.trigger(availableNow=True).start().awaitTermination()
spark.stop()
