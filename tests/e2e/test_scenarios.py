"""Scenarios of Spark's own Kafka suites that no other test runs: both formats, in one run, to the same rows.

``tests/kit/scenarios.py`` has all of them by name, and which test runs each.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.kit.broker import Broker
from tests.kit.produce import produce
from tests.kit.streams import Stream, options

pytestmark = pytest.mark.timeout(300)  # a busy machine makes a query slow

OLD, YOUNG, LATER = 10, 4, 6  # records of each partition: an hour old, of now, and those that come between two runs
HOUR_MS: Final = 3_600_000
NOW_MS: Final = int(time.time() * 1000)
Places = list[list[tuple[int, int]]]


def each(topic: str, value: int, partitions: int = 2) -> str:
    """The same offset or time for every partition, in Spark's JSON."""
    return json.dumps({topic: {str(number): value for number in range(partitions)}})


def subscriptions(topic: str) -> dict[str, dict[str, Any]]:
    """The three ways to name the same two partitions."""
    return {
        "assign": {"subscribe": None, "assign": json.dumps({topic: [0, 1]})},
        "subscribe": {"subscribe": topic},
        "pattern": {"subscribe": None, "subscribePattern": f"{topic[:-1]}."},
    }


def starts(topic: str) -> dict[str, dict[str, Any]]:
    """The five ways to say where a query starts."""
    before = NOW_MS - HOUR_MS // 2
    return {
        "latest": {"startingOffsets": "latest"},
        "earliest": {"startingOffsets": "earliest"},
        "offsets": {"startingOffsets": json.dumps({topic: {"0": 3, "1": -1}})},
        "timestamps": {"startingOffsetsByTimestamp": each(topic, before), "startingOffsets": None},
        "a timestamp": {"startingTimestamp": before, "startingOffsets": None},
    }


def filled(broker: Broker, topic: str) -> str:
    """A topic of two partitions with old and young records."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 2 * OLD, partitions=2, timestamp_ms=NOW_MS - HOUR_MS)
    produce(broker.bootstrap, topic, 2 * YOUNG, partitions=2, first=OLD, timestamp_ms=NOW_MS)
    return topic


def places(spark: SparkSession, broker: Broker, topic: str, at: Path, form: str, changes: Mapping[str, Any]) -> Any:
    """Where the rows of one AvailableNow run are, by batch; None where the query is refused or fails."""
    try:
        ran = Stream(spark, options(broker, topic, **changes), at / form, form=form).finish()
    except PySparkException:
        return None
    return sorted((row.partition, row.offset) for rows in ran.batches.values() for row in rows)


@pytest.mark.parametrize("start", ["latest", "earliest", "offsets", "timestamps", "a timestamp"])
@pytest.mark.parametrize("kind", ["assign", "subscribe", "pattern"])
def test_where_streams_start(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, kind: str, start: str
) -> None:
    """A run, then records and, but for ``assign``, a partition more, then a run that goes on: also where the first one had none."""
    filled(broker, topic)
    changes = subscriptions(topic)[kind] | starts(topic)[start] | {"failOnDataLoss": "false"}
    found: dict[str, Places] = {"cohort": [], "kafka": []}
    for run in range(2):
        for form, runs in found.items():
            runs.append(places(spark, broker, topic, tmp_path, form, changes))
        if run == 0:
            produce(broker.bootstrap, topic, 2 * LATER, partitions=2, first=OLD + YOUNG)
            if kind != "assign":
                broker.admin.add_partitions(topic, 3)
                produce(broker.bootstrap, topic, 3 * LATER, partitions=3, first=OLD + YOUNG + LATER)
    assert found["cohort"] == found["kafka"]
    assert found["cohort"][1]


@pytest.mark.parametrize("kind", ["subscribe", "pattern"])
@pytest.mark.parametrize("strategy", ["error", "latest"])
@pytest.mark.parametrize("name", ["startingOffsetsByTimestamp", "startingTimestamp"])
def test_times_that_nothing_is_as_young_as(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, kind: str, strategy: str, name: str
) -> None:
    """An error in both, or nothing in both, by the strategy."""
    filled(broker, topic)
    never = 2**42
    when = {name: each(topic, never) if name == "startingOffsetsByTimestamp" else never, "startingOffsets": None}
    changes = subscriptions(topic)[kind] | when | {"startingOffsetsByTimestampStrategy": strategy}
    ours, theirs = (places(spark, broker, topic, tmp_path, form, changes) for form in ("cohort", "kafka"))
    assert ours == theirs == (None if strategy == "error" else [])


def test_a_limit_without_end(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """The largest number there is takes all, and overflows nothing (SPARK-26718)."""
    filled(broker, topic)
    changes = {"maxOffsetsPerTrigger": 2**63 - 1}
    ours, theirs = (places(spark, broker, topic, tmp_path, form, changes) for form in ("cohort", "kafka"))
    assert ours == theirs
    assert len(ours) == 2 * (OLD + YOUNG)


def test_minimum_and_maximum_of_a_batch(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """minOffsetsPerTrigger with maxOffsetsPerTrigger, also where less is there than the minimum: AvailableNow reads it all."""
    filled(broker, topic)
    changes = {"minOffsetsPerTrigger": 8, "maxOffsetsPerTrigger": 10, "maxTriggerDelay": "1s"}
    found = {}
    for form in ("cohort", "kafka"):
        ran = Stream(spark, options(broker, topic, **changes), tmp_path / form, form=form).finish()
        found[form] = [len(rows) for rows in ran.batches.values()]
    assert found["cohort"] == found["kafka"]
    assert sum(found["cohort"]) == 2 * (OLD + YOUNG)


@pytest.mark.parametrize("asked", [1, 2, 5, 14])
def test_tasks_of_a_stream(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, asked: int) -> None:
    """At least minPartitions tasks in both, with the same rows (SPARK-30656)."""
    filled(broker, topic)
    tasks: dict[str, list[int]] = {"cohort": [], "kafka": []}
    rows: dict[str, list[Any]] = {"cohort": [], "kafka": []}
    for form in ("cohort", "kafka"):
        frame = Stream(spark, options(broker, topic, minPartitions=asked), tmp_path, form=form).load()

        def keep(batch: DataFrame, _: int, form: str = form) -> None:
            tasks[form].append(batch.rdd.getNumPartitions())
            rows[form] += sorted((row.partition, row.offset) for row in batch.collect())

        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / form))
        assert writer.trigger(availableNow=True).start().awaitTermination(120)
    assert rows["cohort"] == rows["kafka"]
    assert min(tasks["cohort"][0], tasks["kafka"][0]) >= asked
