"""An AvailableNow run that says so and waits in one of its batches."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tests.kit import sink
from tests.kit.driver import arguments, report, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GIVEN = arguments()


def write(batch: DataFrame, batch_id: int) -> None:
    """The sink."""
    sink.parquet(GIVEN["out"])(batch, batch_id)
    if batch_id == GIVEN["waits"]:
        report("in batch")
        threading.Event().wait(120)


spark = session()
stream = spark.readStream.format("cohort").options(**GIVEN["options"]).load()
query = stream.writeStream.foreachBatch(write).option("checkpointLocation", GIVEN["checkpoint"])
query.trigger(availableNow=True).start().awaitTermination()
spark.stop()
