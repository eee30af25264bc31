"""``spark.read.format("cohort")`` beside Spark's own source, in one run: options, rows, tasks, errors, data that is odd or gone."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.kit.batch_reads import at, load, ordered, told
from tests.kit.broker import Broker
from tests.kit.produce import produce
from tests.kit.streams import FORMS
from tests.kit.tier import of_tier

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a query slow

HOUR_MS = 3_600_000
# Of late: Kafka's retention counts from a record's timestamp.
BASE_MS = int(time.time() * 1000) // HOUR_MS * HOUR_MS - 12 * HOUR_MS
HOURS, PER_HOUR = 6, 40
DAY_MS = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp() * 1000)  # the guide's
GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/batch-reads.md"


@pytest.fixture(scope="module")
def hours(broker: Broker) -> str:
    """A topic of three partitions: in the first two 40 records of each of six hours, in order; the third is empty."""
    topic = "hours"
    broker.admin.create_topic(topic, 3)
    for hour in range(HOURS):
        produce(
            broker.bootstrap,
            topic,
            2 * PER_HOUR,
            partitions=2,
            first=hour * PER_HOUR,
            timestamp_ms=BASE_MS + hour * HOUR_MS,
        )
    return topic


LATER = BASE_MS + 2 * HOUR_MS + 1
SINCE = {"startingTimestamp": LATER, "startingOffsetsByTimestampStrategy": "latest"}
UNTIL = {"endingTimestamp": LATER + HOUR_MS}
# Which offsets of the first two partitions (4.2.0's own source reads the same).
READS: dict[str, tuple[dict[str, Any], tuple[int, int], tuple[int, int]]] = {
    "default starting and ending offsets": ({}, (0, 240), (0, 240)),
    "explicit earliest to latest offsets": (
        {"startingOffsets": "earliest", "endingOffsets": "LATEST"},
        (0, 240),
        (0, 240),
    ),
    "explicit offsets": (
        {"startingOffsets": at("hours", 10, -2, -2), "endingOffsets": at("hours", 100, -1, -1)},
        (10, 100),
        (0, 240),
    ),
    "nothing between": (
        {"startingOffsets": at("hours", 10, 10, 0), "endingOffsets": at("hours", 10, 10, 0)},
        (0, 0),
        (0, 0),
    ),
    "global timestamp provided for starting and ending": (SINCE | UNTIL, (120, 160), (120, 160)),
    "timestamp provided for starting, ending not provided": (SINCE, (120, 240), (120, 240)),
    "timestamp provided for ending, starting not provided": (UNTIL, (0, 160), (0, 160)),
    "timestamp provided for starting, offset provided for ending": (
        SINCE | {"endingOffsets": at("hours", 200, -1, 0)},
        (120, 200),
        (120, 240),
    ),
    "timestamp provided for ending, offset provided for starting": (
        UNTIL | {"startingOffsets": at("hours", 20, 0, 0)},
        (20, 160),
        (0, 160),
    ),
    "no matched offset for timestamp - endingOffsets": (
        {"endingTimestamp": LATER + 100 * HOUR_MS},
        (0, 240),
        (0, 240),
    ),
    "an end before all": ({"endingTimestamp": 1000}, (0, 0), (0, 0)),
    "a start after all": (SINCE | {"startingTimestamp": 2**42}, (0, 0), (0, 0)),
    "timestamp provided for starting and ending": (
        {
            "startingOffsetsByTimestamp": at("hours", LATER, BASE_MS, BASE_MS),
            "endingOffsetsByTimestamp": at("hours", LATER + HOUR_MS, LATER, LATER),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        (120, 160),
        (0, 120),
    ),
    "preferences on offset related options": (
        {
            "startingOffsets": at("hours", 30, 30, 0),
            "endingOffsets": at("hours", 40, 40, 0),
            "endingTimestamp": LATER,
        },
        (30, 120),
        (30, 120),
    ),
    "default starting and ending offsets with headers": ({"includeHeaders": "true"}, (0, 240), (0, 240)),
    "pattern": ({"subscribe": None, "subscribePattern": "^hour."}, (0, 240), (0, 240)),
    "a pattern of nothing": ({"subscribe": None, "subscribePattern": "^nosuchtopic"}, (0, 0), (0, 0)),
    "assign": ({"subscribe": None, "assign": '{"hours":[0,2]}'}, (0, 240), (0, 0)),
    "options of streams": (
        {"maxOffsetsPerTrigger": 5, "minOffsetsPerTrigger": 2, "maxTriggerDelay": "1s"},
        (0, 240),
        (0, 240),
    ),
    "committed reads": (
        {"kafka__isolation__level": "read_committed", "kafka__group__id": "of-hours"},
        (0, 240),
        (0, 240),
    ),
}


@pytest.mark.parametrize("name", of_tier(quick=list(READS)[2::6], thorough=list(READS)))
def test_reads_are_those_of_sparks_own_source(spark: SparkSession, broker: Broker, hours: str, name: str) -> None:
    """Schema, rows and their order in each partition, option by option."""
    changes, first, second = READS[name]
    frames = [load(spark, broker, hours, form, **changes) for form in FORMS]
    found = [(frame.schema, ordered(frame)) for frame in frames]
    assert [each for each in found if each != found[0]] == []
    expected = [(number, offset) for number, span in enumerate((first, second)) for offset in range(*span)]
    assert [(row.partition, row.offset) for row in found[0][1]] == expected


def test_views_and_tables_of_sql(spark: SparkSession, broker: Broker, hours: str) -> None:
    """A temporary view reads as Spark's own does.  A table can't: Spark makes its reader without the options, so it isn't made."""
    given = f"OPTIONS ('kafka.bootstrap.servers' '{broker.bootstrap}', subscribe '{hours}', endingOffsets 'latest')"
    spark.sql(f"CREATE TEMPORARY VIEW cohort_hours USING cohort {given}")
    assert ordered(spark.table("cohort_hours")) == ordered(load(spark, broker, hours, FORMS[-1]))
    message = told(lambda: spark.sql(f"CREATE TABLE hours_table USING cohort {given}"))
    assert "CREATE TABLE is not supported" in message and "use CREATE TEMPORARY VIEW" in message


@pytest.mark.thorough("tasks of a batch read beside Spark's own source")
@pytest.mark.parametrize(("least", "tasks"), [(1, 2), (2, 2), (7, 8), (30, 30)])
def test_as_many_tasks_as_sparks_own_source(
    spark: SparkSession, broker: Broker, hours: str, least: int, tasks: int
) -> None:
    """minPartitions cuts as KafkaOffsetRangeCalculator does; where nothing is cut, Spark has a task for the empty partition, too."""
    for form in FORMS:
        frame = load(spark, broker, hours, form, minPartitions=least)
        assert frame.rdd.getNumPartitions() == tasks + (form == "kafka" and least <= 2)
        assert len(ordered(frame)) == 2 * HOURS * PER_HOUR


def test_lost_records(spark: SparkSession, broker: Broker, topic: str) -> None:
    """Records that aged out before the read, or between the plan and its tasks: an error by Spark's name, or what is left."""
    broker.fill(topic, 200, 2)
    kept = {"failOnDataLoss": "false"}
    planned, tolerant = load(spark, broker, topic), load(spark, broker, topic, **kept)
    assert planned.rdd.getNumPartitions() == tolerant.rdd.getNumPartitions() == 2  # which makes the plans
    broker.admin.delete_records(topic, {0: 60})
    assert "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE]" in told(lambda: planned)
    assert ordered(tolerant) == ordered(load(spark, broker, topic, FORMS[-1]))
    changes = {"startingOffsets": at(topic, 10, 0)}
    gone = {**changes, "endingOffsets": at(topic, 50, 0)}
    for form in FORMS:
        lost = f"[10, 100) for topic partition {topic}-0" if form == "kafka" else "[10, 60)"
        said = told(lambda form=form: load(spark, broker, topic, form, **changes))
        assert f"Could not read records in offset {lost}" in said
        assert form == "kafka" or "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE]" in said
        for some, left in ((changes, 140), (gone, 0)):
            assert len(ordered(load(spark, broker, topic, form, **some, **kept))) == left


@pytest.mark.thorough("a topic is deleted under a plan")
def test_a_topic_made_anew_before_its_tasks(spark: SparkSession, broker: Broker, topic: str) -> None:
    """The ranges are of the topic that was there: records of another one of that name are a loss, not rows."""
    broker.fill(topic, 100)
    frame = load(spark, broker, topic)
    assert frame.rdd.getNumPartitions() == 1
    broker.admin.delete_topic(topic)
    broker.fill(topic, 160)
    assert "the topic was deleted and created anew" in told(lambda: frame)
    assert load(spark, broker, topic).count() == 160


def test_what_a_group_has_yet_to_read(spark: SparkSession, broker: Broker, topic: str) -> None:
    """``committed`` starts at the group's offsets, at the fallback where it has none, joins nothing and commits nothing."""
    broker.fill(topic, 300, 3)
    broker.admin.commit(topic, topic, {0: 40, 1: 100})
    changes = {"startingOffsets": "committed", "group__id": topic}
    rows = ordered(load(spark, broker, topic, **changes))
    assert [(row.partition, row.offset) for row in rows] == [
        *((0, n) for n in range(40, 100)),
        *((2, n) for n in range(100)),
    ]
    assert load(spark, broker, topic, **changes, startingOffsets__fallback="latest").count() == 60
    nobody = {"startingOffsets": "committed", "group__id": f"{topic}-nobody"}
    assert load(spark, broker, topic, **nobody).count() == 300
    assert broker.admin.committed(topic) == {(topic, 0): 40, (topic, 1): 100}
    assert broker.admin.members(topic) == []
    assert "startingOffsets=committed needs group.id" in told(
        lambda: load(spark, broker, topic, startingOffsets="committed")
    )


def test_the_programs_of_the_guide_run(spark: SparkSession, broker: Broker, topic: str) -> None:
    """As they stand in docs/guides/batch-reads.md, one after the other, on a topic with a day in it."""
    broker.fill(
        topic,
        40,
        2,
        timestamp_ms=DAY_MS - HOUR_MS,
        configs={"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**62)},
    )
    produce(broker.bootstrap, topic, 20, partitions=2, first=20, timestamp_ms=DAY_MS + HOUR_MS)
    produce(broker.bootstrap, topic, 60, partitions=2, first=30, timestamp_ms=DAY_MS + 30 * HOUR_MS)
    seen: dict[str, Any] = {"spark": spark}
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    for block in blocks:
        exec(block.replace("broker:9092", broker.bootstrap).replace('"orders"', f'"{topic}"'), seen)  # noqa: S102
    counts = {name: seen[name].count() for name in ("orders", "waiting", "whole", "day")}
    assert counts == {"orders": 120, "waiting": 120, "whole": 120, "day": 20}
