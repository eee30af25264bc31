"""Sinks for driver scripts, keyed by batch id: a batch that runs again replaces what it wrote before.

Usage, in a script that ``tests.kit.spark`` runs::

    stream.writeStream.foreachBatch(sink.parquet(path))         # volume: written by the executors
    stream.writeStream.foreachBatch(sink.json_lines(path))      # odd data: every column, collected on the driver
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

BatchFunction = Callable[["DataFrame", int], None]


def parquet(path: Path | str) -> BatchFunction:
    """A foreachBatch function that writes topic, partition, offset, key and value to ``path/batch_id=N``."""

    def write(batch: DataFrame, batch_id: int) -> None:
        chosen = batch.select("topic", "partition", "offset", "key", "value")
        chosen.write.mode("overwrite").parquet(f"{path}/batch_id={batch_id}")

    return write


def json_lines(path: Path | str) -> BatchFunction:
    """A foreachBatch function that writes every column to ``path/N.jsonl``, bytes as base64, times as ISO text."""

    def write(batch: DataFrame, batch_id: int) -> None:
        target = Path(path) / f"{batch_id}.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"batch_id": batch_id, **plain(row)}) + "\n" for row in batch.collect()]
        fresh = target.with_suffix(".tmp")
        fresh.write_text("".join(lines))
        fresh.replace(target)

    return write


def plain(row: Row) -> dict[str, Any]:
    """One row of the Kafka schema as JSON values."""
    return {name: _plain(value) for name, value in row.asDict(recursive=True).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [{name: _plain(part) for name, part in each.items()} for each in value]
    return value.isoformat() if hasattr(value, "isoformat") else value
