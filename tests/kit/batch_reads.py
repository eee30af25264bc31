"""Batch reads beside Spark's own source, in the session of the fixture ``spark``.

Usage::

    ours, theirs = (load(spark, broker, topic, form, endingOffsets="latest") for form in ("cohort", "kafka"))
    assert ordered(ours) == ordered(theirs)
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from tests.kit.broker import Cluster
from tests.kit.streams import error


def load(
    spark: SparkSession, broker: Cluster, topic: str, form: str = "cohort", schema: str = "", **more: Any
) -> DataFrame:
    """A batch read of ``topic``; ``more`` with ``__`` for ``.``, None takes an option away."""
    given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic} | {
        name.replace("__", "."): value for name, value in more.items()
    }
    reader = spark.read.format(form)
    reader = reader.schema(schema) if schema else reader
    return reader.options(**{name: str(value) for name, value in given.items() if value is not None}).load()


def ordered(frame: DataFrame) -> list[Row]:
    """All rows in the order of their places; raises AssertionError where a partition's rows came in another one."""
    rows = frame.collect()
    offsets: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        offsets.setdefault((row.topic, row.partition), []).append(row.offset)
    wrong = [place for place, found in offsets.items() if found != sorted(found)]
    if wrong:
        raise AssertionError(f"out of order: {wrong}")
    return sorted(rows, key=lambda row: (row.topic, row.partition, row.offset))


def told(read: Any) -> str:
    """The error with which a read ends."""
    return error(lambda: read().collect())


def at(topic: str, *numbers: int) -> str:
    """Offsets (or times) of the partitions 0, 1, 2 in Spark's JSON."""
    return json.dumps({topic: {str(number): each for number, each in enumerate(numbers)}})
