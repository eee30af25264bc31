"""Sinks for driver scripts, keyed by batch id: a batch that runs again replaces what it wrote before.

Usage, in a script that ``tests.kit.spark`` runs::

    stream.writeStream.foreachBatch(sink.parquet(path))         # volume: written by the executors
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BatchFunction = Callable[["DataFrame", int], None]


def parquet(path: Path | str) -> BatchFunction:
    """A foreachBatch function that writes topic, partition, offset, key and value to ``path/batch_id=N``."""

    def write(batch: DataFrame, batch_id: int) -> None:
        chosen = batch.select("topic", "partition", "offset", "key", "value")
        chosen.write.mode("overwrite").parquet(f"{path}/batch_id={batch_id}")

    return write
