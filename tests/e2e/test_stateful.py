"""Queries that keep state, join and unite give, batch for batch, what they give on ``format("kafka")``."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  everybody's name for it
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from tests.kit.broker import Broker
from tests.kit.produce import abort, produce, transact
from tests.kit.streams import FORMS, Stream, options
from tests.kit.waiting import wait_until

pytestmark = [
    pytest.mark.thorough("queries with state, beside Spark's own source"),
    pytest.mark.timeout(300),
]  # a busy machine makes a query slow

STEP_MS, STEPS, EACH = 600_000, 4, 50
BASE_MS = (
    int(time.time() * 1000) // STEP_MS * STEP_MS - 2 * STEPS * STEP_MS
)  # of late: Kafka's retention counts from it
LIMIT = 2 * EACH
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
Query = Callable[[DataFrame, DataFrame], DataFrame]


def in_windows(orders: DataFrame, _: DataFrame) -> DataFrame:
    """Counts by ten minutes of event time."""
    counts = orders.withWatermark("timestamp", "5 minutes").groupBy(F.window("timestamp", "10 minutes"), "partition")
    return counts.count().select("window.start", "partition", "count")


def without_duplicates(orders: DataFrame, _: DataFrame) -> DataFrame:
    """Each key is in both partitions."""
    return orders.withWatermark("timestamp", "1 hour").dropDuplicatesWithinWatermark(["key"]).select("key")


def joined(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """Two streams by key and time."""
    left = orders.select(F.col("key").alias("order"), F.col("timestamp").alias("ordered"), "offset")
    right = payments.select(F.col("key").alias("payment"), F.col("timestamp").alias("paid"))
    left, right = left.withWatermark("ordered", "5 minutes"), right.withWatermark("paid", "5 minutes")
    near = "order = payment and paid between ordered and ordered + interval 5 minutes"
    return left.join(right, F.expr(near), "left_outer")


def counted_by_a_processor(orders: DataFrame, _: DataFrame) -> DataFrame:
    """A state of one's own by partition: how many rows so far."""

    class Counts(StatefulProcessor):
        """In here, so that it travels by value."""

        def init(self, handle: StatefulProcessorHandle) -> None:
            """Its state."""
            self._total = handle.getValueState("total", "total LONG")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803  PySpark's names
            """Count."""
            import pandas as pd

            total = (self._total.get() or (0,))[0] + sum(len(each) for each in rows)
            self._total.update((total,))
            yield pd.DataFrame({"partition": [key[0]], "total": [total]})

        def close(self) -> None:
            """Nothing is held."""

    grouped = orders.groupBy("partition")
    return grouped.transformWithStateInPandas(Counts(), "partition INT, total LONG", "Update", "None")


QUERIES: dict[str, tuple[Query, str]] = {
    "windows": (in_windows, "append"),
    "dropDuplicatesWithinWatermark": (without_duplicates, "append"),
    "left join": (joined, "append"),
    "transformWithState": (counted_by_a_processor, "update"),
}


@pytest.fixture(scope="module")
def topics(broker: Broker) -> tuple[str, str]:
    """Orders and payments: event times that rise from batch to batch; every second order is paid a minute later."""
    names = "stateful-orders", "stateful-payments"
    for name in names:
        broker.admin.create_topic(name, 2)
    for step in range(STEPS):
        at, first = BASE_MS + step * STEP_MS, step * EACH
        produce(broker.bootstrap, names[0], 2 * EACH, partitions=2, first=first, timestamp_ms=at)
        produce(broker.bootstrap, names[1], EACH, partitions=2, first=first, timestamp_ms=at + 60_000)
    return names


def run(
    spark: SparkSession, broker: Broker, topics: tuple[str, str], form: str, query: Query, mode: str, at: Path
) -> Any:
    """The rows by batch, of an AvailableNow query over both topics."""

    def load(topic: str, limit: int) -> DataFrame:
        given = options(broker, topic, group__id=f"{at.parent.name}-{topic}", maxOffsetsPerTrigger=limit)
        return Stream(spark, given, at, form=form).load()

    batches: dict[int, Counter[Row]] = {}
    frame = query(load(topics[0], LIMIT), load(topics[1], LIMIT // 2))
    writer = frame.writeStream.outputMode(mode).trigger(availableNow=True).option("checkpointLocation", str(at))
    ran = writer.foreachBatch(lambda rows, number: batches.update({number: Counter(rows.collect())})).start()
    try:
        assert ran.awaitTermination(120), ran.status
    finally:
        ran.stop()
    return batches


@pytest.mark.parametrize(("query", "mode"), QUERIES.values(), ids=QUERIES)
def test_queries_with_state(
    spark: SparkSession, broker: Broker, topics: tuple[str, str], tmp_path: Path, query: Query, mode: str
) -> None:
    """The limits make the same batches, so every batch has the same rows."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)  # which transformWithState needs
    found = {form: run(spark, broker, topics, form, query, mode, tmp_path / form) for form in FORMS}
    assert sum(found["kafka"].values(), Counter()).total() > 0
    assert found["cohort"] == found["kafka"]


def test_transactions_that_limits_cut(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Batches end within transactions and beside control records; what was aborted never comes."""
    broker.admin.create_topic(topic, 1)
    for number in range(4):
        transact(broker.bootstrap, topic, 25, first=25 * number, transactional_id=f"{topic}-{number}")
        abort(broker.bootstrap, topic, 7)
    rows: dict[str, list[list[int]]] = {}
    for form in FORMS:
        source = options(broker, topic, maxOffsetsPerTrigger=10, kafka__isolation__level="read_committed")
        ran = Stream(spark, source, tmp_path / form, form=form).finish()
        rows[form] = [sorted(row.offset for row in each) for each in ran.batches.values()]
    assert rows["cohort"] == rows["kafka"]
    assert sum(map(len, rows["cohort"])) == 100


def test_progress_and_plan(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Progress has the same offsets and counts for the same batches; ``explain`` shows a plan, and no secret."""
    broker.fill(topic, 300, 2)
    told: dict[str, list[Any]] = {}
    for form in FORMS:
        ran = Stream(spark, options(broker, topic, maxOffsetsPerTrigger=100), tmp_path / form, form=form).finish()
        wait_until(lambda ran=ran: len(ran.query.recentProgress) >= 3, 20, "progress")  # type: ignore[misc]
        told[form] = [(each["batchId"], each["numInputRows"], *offsets(each)) for each in ran.query.recentProgress]
        told[form] += [names(each) for each in ran.query.recentProgress]
        capsys.readouterr()
        ran.query.explain()
        assert "MicroBatchScan" in capsys.readouterr().out
    assert told["cohort"] == told["kafka"]


def names(progress: Any) -> list[set[str]]:
    """What a progress event has to tell: of the query, of its times, of the only source; all but the source's own metrics."""
    whole = json.loads(progress.json)
    (source,) = whole["sources"]
    return [set(whole), set(whole["durationMs"]), set(source) - {"metrics"}]


def offsets(progress: Any) -> Iterator[dict[str, dict[str, int]]]:
    """Of the only source: start, end and latest, without the topics' ids."""
    (source,) = progress["sources"]
    for name in ("startOffset", "endOffset", "latestOffset"):
        value = source[name]
        value = json.loads(value) if isinstance(value, str) else value
        yield {topic: partitions for topic, partitions in (value or {}).items() if partitions}
