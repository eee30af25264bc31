"""Where a query starts, how much a batch takes, what is subscribed: option by option, on a real broker."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  everybody's name for it

from tests.kit import consumer_groups, delivery
from tests.kit.batch_reads import at
from tests.kit.broker import Broker
from tests.kit.produce import produce
from tests.kit.streams import ASAP, FORMS, PLAIN_COLUMNS, Stream, options, together

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a query slow

HOUR_MS = 3_600_000
BASE_MS = int(time.time() * 1000) - 2 * HOUR_MS  # of late: Kafka's retention counts from a record's timestamp
OLD, YOUNG = 100, 60  # records per partition, an hour apart


def test_once_and_available_now(spark: SparkSession, broker: Broker, topic: str, checkpoint: Path) -> None:
    """Once takes all in one batch, AvailableNow batches of the limit and all, to lag 0 in Kafka's own tool."""
    broker.admin.create_topic(topic, 4)
    source = options(broker, topic, maxOffsetsPerTrigger=700)
    produce(broker.bootstrap, topic, 1_200, partitions=4)
    once = Stream(spark, source, checkpoint, trigger={"once": True}).finish()
    assert [len(rows) for rows in once.batches.values()] == [1_200]
    produce(broker.bootstrap, topic, 2_000, partitions=4, first=300)
    run = Stream(spark, source, checkpoint, batches=once.batches).finish()
    assert {number: len(rows) for number, rows in run.batches.items()} == {0: 1_200, 1: 700, 2: 700, 3: 600}
    delivery.check(run.delivered(), delivery.held(broker.bootstrap, [topic])).assert_exact()
    assert [(row.partition, row.lag) for row in consumer_groups.describe(broker.bootstrap, topic)] == [
        (number, 0) for number in range(4)
    ]


@pytest.fixture(scope="module")
def started(broker: Broker) -> str:
    """A topic of three partitions: 100 old records in each, then 60 an hour younger in the first two."""
    topic = "starts"
    broker.fill(topic, 3 * OLD, 3, timestamp_ms=BASE_MS)
    produce(broker.bootstrap, topic, 2 * YOUNG, partitions=2, first=OLD, timestamp_ms=BASE_MS + HOUR_MS)
    return topic


# What is asked for beside ``test_scenarios``, and where each partition has to start.
STARTS: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    "committed, earliest else": ({"startingOffsets": None}, (40, 0, 0)),
    "committed, latest else": ({"startingOffsets": "committed", "startingOffsets__fallback": "latest"}, (40, 160, 100)),
    "JSON in part": (
        {"startingOffsets": '{"starts":{"1":70}}', "startingOffsets__fallback": at("starts", 20, 30, 40)},
        (20, 70, 40),
    ),
}


def test_starts(spark: SparkSession, broker: Broker, started: str, topic: str, checkpoint: Path) -> None:
    """A new query starts where the options say, and commits up to the end: each case a source of one query."""
    sources = {}
    for name, (changes, _) in STARTS.items():
        sources[name] = options(broker, started, group__id=f"{topic}-{name}", **changes)
        broker.admin.commit(f"{topic}-{name}", started, {0: 40})  # by whom, does not matter
    ends = (OLD + YOUNG, OLD + YOUNG, OLD)
    for name, found in together(spark, sources, checkpoint).items():
        starts = enumerate(STARTS[name][1])
        assert found == [("starts", number, at) for number, start in starts for at in range(start, ends[number])], name
        assert broker.admin.committed(f"{topic}-{name}") == {("starts", number): end for number, end in enumerate(ends)}


def test_assign_and_task_sizes(spark: SparkSession, broker: Broker, started: str, topic: str, tmp_path: Path) -> None:
    """``assign`` reads the partitions named; minPartitions and maxRecordsPerPartition cut them into tasks."""

    def numbered(stream: DataFrame) -> DataFrame:
        return stream.withColumn("task", F.spark_partition_id())

    columns = (*PLAIN_COLUMNS, "task")
    sizes: dict[str, list[int]] = {}
    for name, limit in {"minPartitions": 5, "maxRecordsPerPartition": 50}.items():
        source = options(
            broker, started, subscribe=None, assign='{"starts":[0,2]}', group__id=f"{topic}-{name}", **{name: limit}
        )
        run = Stream(spark, source, tmp_path / name, columns=columns, transform=numbered).finish()
        assert {row.partition for row in run.rows} == {0, 2}
        assert len(run.rows) == 2 * OLD + YOUNG
        tasks = [row.task for row in run.rows]
        sizes[name] = [tasks.count(task) for task in set(tasks)]
    assert len(sizes["minPartitions"]) >= 5
    assert max(sizes["maxRecordsPerPartition"]) <= 50


def test_new_topics_and_partitions(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Topics that begin to match a pattern, and partitions added to a topic, are read from their beginnings."""
    first, second = f"{topic}-first", f"{topic}-second"
    broker.fill(first, 30)
    quick = {"metadata__max__age__ms": 300}
    by_pattern = options(
        broker, first, subscribe=None, subscribePattern=f"^{topic}-.*", group__id=f"{topic}-p", **quick
    )
    by_name = options(broker, first, group__id=f"{topic}-n", **quick)
    with (
        Stream(spark, by_pattern, tmp_path / "pattern", trigger=ASAP) as pattern,
        Stream(spark, by_name, tmp_path / "name", trigger=ASAP) as name,
    ):
        pattern.wait_for_rows(30)
        name.wait_for_rows(30)
        broker.fill(second, 40, 2)
        broker.admin.add_partitions(first, 3)
        produce(broker.bootstrap, first, 90, partitions=3, first=30)
        pattern.wait_for_rows(160)
        name.wait_for_rows(120)
    delivery.check(pattern.delivered(), delivery.held(broker.bootstrap, [first, second])).assert_exact()
    delivery.check(name.delivered(), delivery.held(broker.bootstrap, [first])).assert_exact()


def test_data_loss(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Records deleted before they were read fail the query by Spark's condition, or are passed over with false."""
    for form in FORMS:
        name, checkpoint = f"{topic}-{form}", tmp_path / form
        broker.fill(name, 200, 2)
        source = options(broker, name)
        run = Stream(spark, source, checkpoint, form=form).finish()
        produce(broker.bootstrap, name, 200, partitions=2, first=100)
        broker.admin.delete_records(name, {0: 150})
        message = Stream(spark, source, checkpoint, form=form, batches=run.batches).failure()
        ours = ("KAFKA_DATA_LOSS", f"topic {name} partition 0", "failOnDataLoss")
        assert [
            word for word in (ours if form == "cohort" else ("may have been lost", name)) if word not in message
        ] == []
        tolerant = source | {"failOnDataLoss": "false"}
        run = Stream(spark, tolerant, checkpoint, form=form, batches=run.batches).finish()
        offsets = {number: [row.offset for row in run.rows if row.partition == number] for number in range(2)}
        assert offsets == {0: [*range(100), *range(150, 200)], 1: [*range(200)]}
        assert set(broker.admin.committed(name).values()) == ({200} if form == "cohort" else set())


@pytest.mark.thorough("topics that change; tests/shell/driver has each without Spark")
def test_a_topic_made_anew(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """A topic deleted and created again, with a longer log, is a loss, with false read whole; Spark's own source goes on from its place."""
    for form in FORMS:
        name, checkpoint = f"{topic}-{form}", tmp_path / form
        source = options(broker, name)
        broker.fill(name, 100)
        run = Stream(spark, source, checkpoint, form=form).finish()
        broker.admin.delete_topic(name)
        broker.fill(name, 160)
        if form == "cohort":
            message = Stream(spark, source, checkpoint, batches=run.batches).failure()
            assert "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED" in message
            assert f"Topic {name} was deleted and created anew" in message
        tolerant = source | {"failOnDataLoss": "false"}
        run = Stream(spark, tolerant, checkpoint, form=form, batches=run.batches).finish()
        assert [row.offset for row in run.rows] == [*range(100), *range(0 if form == "cohort" else 100, 160)]
        assert broker.admin.committed(name) == ({(name, 0): 160} if form == "cohort" else {})
