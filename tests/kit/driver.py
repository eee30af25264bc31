"""What a driver script imports: its session, its arguments, and a way to tell the test where it stands.

A script (run by ``tests.kit.spark``; see there) looks like this::

    from tests.kit import sink
    from tests.kit.driver import arguments, report, session

    given = arguments()
    spark = session()
    stream = spark.readStream.format("cohort").options(**given["options"]).load()
    query = stream.writeStream.foreachBatch(sink.parquet(given["out"])).option("checkpointLocation", given["checkpoint"])
    query.trigger(availableNow=True).start().awaitTermination()
    report("done", rows=3)
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

# Written by tests.kit.spark, read here.
CONF, ARGUMENTS, EVENTS = "COHORT_TEST_CONF", "COHORT_TEST_ARGUMENTS", "COHORT_TEST_EVENTS"


def session() -> SparkSession:
    """The session the test asked for (master and configuration)."""
    builder = SparkSession.builder
    for key, value in json.loads(os.environ[CONF]).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def arguments() -> dict[str, Any]:
    """The values the test passed."""
    found: dict[str, Any] = json.loads(os.environ[ARGUMENTS])
    return found


def report(name: str, **values: Any) -> None:
    """Tell the test that something happened: ``Driver.events(name)`` and ``Driver.wait_for(name)`` see it."""
    line = json.dumps({"event": name, **values}) + "\n"
    with Path(os.environ[EVENTS]).open("a", encoding="utf-8") as events:
        events.write(line)
