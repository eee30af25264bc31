"""``spark.read.format("cohort")`` beside Spark's own source, in one run: options, rows, tasks, errors, data that is odd or gone."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from tests.kit.batch_reads import at, load, ordered, told
from tests.kit.broker import Broker
from tests.kit.produce import produce, producer
from tests.kit.streams import FORMS
from tests.kit.tier import of_tier

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a query slow

HOUR_MS = 3_600_000
# Of late: Kafka's retention counts from a record's timestamp.
BASE_MS = int(time.time() * 1000) // HOUR_MS * HOUR_MS - 12 * HOUR_MS
HOURS, PER_HOUR = 6, 40
DAY_MS = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp() * 1000)  # the guide's
GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/batch-reads.md"
PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"  # Spark's, off by default


@contextmanager
def pushed_down(spark: SparkSession) -> Iterator[None]:
    """Spark's filter push-down for Python sources is on in this block."""
    spark.conf.set(PUSH_DOWN, "true")
    try:
        yield
    finally:
        spark.conf.unset(PUSH_DOWN)


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
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 200, partitions=2)
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
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 100)
    frame = load(spark, broker, topic)
    assert frame.rdd.getNumPartitions() == 1
    broker.admin.delete_topic(topic)
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 160)
    assert "the topic was deleted and created anew" in told(lambda: frame)
    assert load(spark, broker, topic).count() == 160


def test_what_a_group_has_yet_to_read(spark: SparkSession, broker: Broker, topic: str) -> None:
    """``committed`` starts at the group's offsets, at the fallback where it has none, joins nothing and commits nothing."""
    broker.admin.create_topic(topic, 3)
    produce(broker.bootstrap, topic, 300, partitions=3)
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


# --- filters ----------------------------------------------------------------------------------------

EXACT = {"maxOutOfOrderness": "0s"}
FILTERS: dict[str, tuple[str, dict[str, str], int]] = {  # with the offsets that are left to read
    "a partition": ("partition = 1", {}, 240),
    "partitions": ("partition in (0, 2, 9)", {}, 240),
    "offsets": ("offset >= 10 and offset < 20", {}, 20),
    "one offset": ("offset = 17 and partition = 0", {}, 1),
    "some offsets": ("offset in (3, 7, 9)", {}, 14),
    "a topic": ("topic = 'hours' and partition > 0", {}, 240),
    "another topic": ("topic = 'elsewhere'", {}, 0),
    "from a time on": ("timestamp >= timestamp_millis({later})", {}, 240),
    "after a time": ("timestamp > timestamp_millis({base})", {}, 400),
    "at a time, in order": ("timestamp = timestamp_millis({base})", EXACT, 80),
    "an hour, in order": (
        "timestamp >= timestamp_millis({later}) and timestamp < timestamp_millis({hour_on})",
        EXACT,
        80,
    ),
    "an hour": ("timestamp >= timestamp_millis({later}) and timestamp < timestamp_millis({hour_on})", {}, 240),
    "between": ("timestamp between timestamp_millis({base}) and timestamp_millis({later})", EXACT, 240),
    "no time": ("timestamp > timestamp_millis({hour_on}) and timestamp < timestamp_millis({later})", EXACT, 0),
    "what bounds nothing": ("length(value) > 3 or offset = 5", {}, 480),
    "something besides": ("offset < 30 and cast(value as string) like '0:%'", {}, 60),
    "not a partition": ("partition <> 1 and offset is not null", {}, 480),
}


def read_and_kept(frame: DataFrame) -> tuple[int, list[Row]]:
    """How many rows the source gave to Spark (what the scan has read), and those that the filter behind it has kept."""
    plan: Any = frame._jdf.queryExecution().executedPlan()
    kept = ordered(frame)
    scans = [plan]
    while scans:
        node = scans.pop()
        if node.nodeName().startswith("BatchScan"):
            return int(node.metrics().apply("numOutputRows").value()), kept
        children = node.children()
        scans += [children.apply(number) for number in range(children.size())]
    raise AssertionError(plan.toString())


@pytest.fixture(scope="module")
def theirs(spark: SparkSession, broker: Broker, hours: str) -> DataFrame:
    """All that the topic has, read once (in ``make test-all`` by Spark's own source)."""
    return load(spark, broker, hours, FORMS[-1]).cache()


@pytest.mark.parametrize("name", of_tier(quick=list(FILTERS)[1::4], thorough=list(FILTERS)))
def test_filters_are_offsets(spark: SparkSession, broker: Broker, hours: str, theirs: DataFrame, name: str) -> None:
    """The rows are those of an unfiltered read behind the same filter, and no more is read than the filter's bounds say."""
    condition, more, left = FILTERS[name]
    condition = condition.format(base=BASE_MS, later=LATER, hour_on=LATER + HOUR_MS)
    with pushed_down(spark):
        frame = load(spark, broker, hours, pushDownPredicate="true", **more).where(condition)
        assert read_and_kept(frame) == (left, ordered(theirs.where(condition)))


@pytest.mark.thorough("more filters; tests/unit/batches has their arithmetic")
def test_timestamps_out_of_order_lose_nothing(spark: SparkSession, broker: Broker, topic: str) -> None:
    """Old records behind young ones are found without a promise, and with one that holds; a lower bound needs none."""
    broker.admin.create_topic(topic)
    client = producer(broker.bootstrap)
    for number in range(200):
        late = 30_000 if number % 9 == 0 else 0
        client.produce(topic, b"%d" % number, timestamp=BASE_MS + 1_000 * number - late)
    assert client.flush(60) == 0
    condition = (
        f"timestamp >= timestamp_millis({BASE_MS + 50_000}) and timestamp < timestamp_millis({BASE_MS + 100_000})"
    )
    expected = ordered(load(spark, broker, topic, FORMS[-1]).where(condition))
    with pushed_down(spark):
        anyhow = load(spark, broker, topic, pushDownPredicate="true").where(condition)
        promised = load(spark, broker, topic, pushDownPredicate="true", maxOutOfOrderness="31s").where(condition)
        (read, kept), (fewer, kept_too) = read_and_kept(anyhow), read_and_kept(promised)
        assert kept == kept_too == expected and fewer < read == 150


@pytest.mark.thorough("more filters; tests/unit/batches has their arithmetic")
def test_each_load_has_its_own_filter(spark: SparkSession, broker: Broker, hours: str) -> None:
    """In one query and one after the other: what one has left out, another has."""
    with pushed_down(spark):
        parts = [
            load(spark, broker, hours, pushDownPredicate="true").where(f"partition = {number}") for number in (0, 1)
        ]
        assert parts[0].count() == parts[1].count() == HOURS * PER_HOUR
        assert ordered(parts[0].union(parts[1])) == ordered(load(spark, broker, hours, pushDownPredicate="true"))


def test_one_load_has_one_filter(spark: SparkSession, broker: Broker, hours: str) -> None:
    """Spark keeps what the first has left for all DataFrames of a load(): another is refused, whatever they come together in."""
    with pushed_down(spark):
        for both in (DataFrame.union, partial(DataFrame.join, on="offset")):
            frame = load(spark, broker, hours, pushDownPredicate="true")
            one, other = (frame.where(f"partition = {number}") for number in (0, 1))
            assert "call load() anew for each filter" in told(lambda: both(one, other))  # noqa: B023
        day = load(spark, broker, hours, pushDownPredicate="true").where("partition = 1 and offset < 5")
        assert [day.count(), day.union(day).count(), len(day.where("key is null").collect())] == [5, 10, 0]
        load(spark, broker, hours, pushDownPredicate="true").createOrReplaceTempView("view_with_a_filter")
        assert spark.sql("select * from view_with_a_filter where partition = 0").count() == HOURS * PER_HOUR
        assert "call load() anew" in told(lambda: spark.sql("select * from view_with_a_filter where partition = 1"))


@pytest.mark.thorough("more filters; tests/unit/batches has their arithmetic")
def test_push_down_needs_sparks_configuration(spark: SparkSession, broker: Broker, hours: str) -> None:
    """Without it Spark refuses the option and names the configuration; without the option all filters are Spark's."""
    message = told(lambda: load(spark, broker, hours, pushDownPredicate="true").where("partition = 1"))
    assert "DATA_SOURCE_PUSHDOWN_DISABLED" in message
    assert PUSH_DOWN in message
    with pushed_down(spark):
        frame = load(spark, broker, hours)
        wanted = ordered(load(spark, broker, hours, FORMS[-1]).where("partition = 1"))
        assert read_and_kept(frame.where("partition = 1")) == (2 * HOURS * PER_HOUR, wanted)
        both = frame.where("partition = 0").union(frame.where("partition = 1"))
        assert both.count() == frame.count() == 2 * HOURS * PER_HOUR


def test_the_programs_of_the_guide_run(spark: SparkSession, broker: Broker, topic: str) -> None:
    """As they stand in docs/guides/batch-reads.md, one after the other, on a topic with a day in it."""
    broker.admin.create_topic(topic, 2, configs={"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**62)})
    produce(broker.bootstrap, topic, 40, partitions=2, timestamp_ms=DAY_MS - HOUR_MS)
    produce(broker.bootstrap, topic, 20, partitions=2, first=20, timestamp_ms=DAY_MS + HOUR_MS)
    produce(broker.bootstrap, topic, 60, partitions=2, first=30, timestamp_ms=DAY_MS + 30 * HOUR_MS)
    seen: dict[str, Any] = {"spark": spark}
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    try:
        for block in blocks:
            exec(block.replace("broker:9092", broker.bootstrap).replace('"orders"', f'"{topic}"'), seen)  # noqa: S102
        counts = {name: seen[name].count() for name in ("orders", "waiting", "whole", "day")}
        assert counts == {"orders": 120, "waiting": 120, "whole": 120, "day": 20}
        assert read_and_kept(seen["day"])[0] == 20
    finally:
        spark.conf.unset(PUSH_DOWN)
