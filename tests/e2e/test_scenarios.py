"""Scenarios of Spark's own Kafka suites that no other test runs, with what both formats make of each.

``tests/kit/scenarios.py`` has all of them by name, and which test runs each.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.kit.batch_reads import load, ordered, told
from tests.kit.broker import Broker
from tests.kit.produce import produce, producer
from tests.kit.streams import ASAP, FORMS, Batches, Places, Stream, assert_outcome, error, options
from tests.kit.tier import of_tier
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.timeout(300)  # a busy machine makes a query slow

OLD, YOUNG, LATER = 10, 4, 6  # records of each partition: an hour old, of now, and those that come between two runs
HOUR_MS: Final = 3_600_000
NOW_MS: Final = int(time.time() * 1000)
# Where in each partition a first run begins.
FIRST_RUN: Final = {
    "latest": (OLD + YOUNG, OLD + YOUNG),
    "earliest": (0, 0),
    "offsets": (3, OLD + YOUNG),
    "timestamps": (OLD, OLD),
    "a timestamp": (OLD, OLD),
}


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
    broker.fill(topic, 2 * OLD, 2, timestamp_ms=NOW_MS - HOUR_MS)
    produce(broker.bootstrap, topic, 2 * YOUNG, partitions=2, first=OLD, timestamp_ms=NOW_MS)
    return topic


def outcome(
    spark: SparkSession, broker: Broker, topic: str, at: Path, form: str, changes: Mapping[str, Any]
) -> Places | str:
    """Where the rows of one AvailableNow run are, or the error with which the query is refused or ends."""
    return Stream(spark, options(broker, topic, **changes), at / form, form=form).outcome()


def ends(checkpoint: Path) -> list[dict[str, dict[str, int]]]:
    """What the offset log has as the end of each batch, without the ids that ours has besides."""
    files = sorted(
        (file for file in (checkpoint / "offsets").iterdir() if file.name.isdigit()), key=lambda file: int(file.name)
    )
    logged = [json.loads(file.read_text().splitlines()[-1]) for file in files]
    return [{name: each for name, each in end.items() if "@" not in name} for end in logged]


PAIRS: Final = [(kind, start) for kind in ("assign", "subscribe", "pattern") for start in FIRST_RUN]


@pytest.mark.parametrize(("kind", "start"), of_tier(quick=PAIRS[2::6], thorough=PAIRS))  # each kind
def test_where_streams_start(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, kind: str, start: str
) -> None:
    """A run, then records and, but for ``assign``, a partition more, then a run that goes on: also where the first one had none.

    One run has failOnDataLoss=true, the other false, in both orders: nothing is lost, and neither makes a difference.
    """
    filled(broker, topic)
    changes = subscriptions(topic)[kind] | starts(topic)[start]
    losses = ("true", "false") if start in ("earliest", "offsets") else ("false", "true")
    found: dict[str, list[Places | str]] = {form: [] for form in FORMS}
    for run, loss in enumerate(losses):
        for form, runs in found.items():
            runs.append(outcome(spark, broker, topic, tmp_path, form, changes | {"failOnDataLoss": loss}))
        if run == 0:
            produce(broker.bootstrap, topic, 2 * LATER, partitions=2, first=OLD + YOUNG)
            if kind != "assign":
                broker.admin.add_partitions(topic, 3)
                produce(broker.bootstrap, topic, 3 * LATER, partitions=3, first=OLD + YOUNG + LATER)
    later = [(topic, number, at) for number in range(2) for at in range(OLD + YOUNG, OLD + YOUNG + LATER)]
    if kind != "assign":
        later += [
            (topic, number, at) for number in range(2) for at in range(OLD + YOUNG + LATER, OLD + YOUNG + 2 * LATER)
        ]
        later += [(topic, 2, at) for at in range(LATER)]
    first = [(topic, number, at) for number, begin in enumerate(FIRST_RUN[start]) for at in range(begin, OLD + YOUNG)]
    assert found == {form: [first, sorted(later)] for form in FORMS}


@pytest.mark.thorough("topics that come and go between four runs")
def test_what_is_empty(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """A topic without a record, one empty partition among filled ones, no topic any more, another one: the same rows and offset logs.

    But for the end of a run that finds no partition: Spark's own keeps the offsets it has (SPARK-41375), here what is gone
    leaves them, so that a topic of that name is read from its beginning.
    """
    for form in FORMS:
        name, seen = f"{topic}-{form}", list[Any]()
        changes = {"subscribe": None, "subscribePattern": f"^{name}", "group__id": name, "failOnDataLoss": "false"}
        broker.admin.create_topic(name, 3)
        for step in ("no record", "an empty partition", "no topic", "another topic"):
            if step == "an empty partition":
                produce(broker.bootstrap, name, 10, partitions=2)
            elif step == "no topic":
                broker.admin.delete_topic(name)
            elif step == "another topic":
                broker.fill(f"{name}-b", 5)
            rows = outcome(spark, broker, name, tmp_path, form, changes)
            assert not isinstance(rows, str), rows
            seen.append([row[2] for row in rows])
        assert seen == [[], [*range(5), *range(5)], [], [*range(5)]]
        logged = [{key.removeprefix(name): end[key] for key in end} for end in ends(tmp_path / form)]
        gone: list[Any] = [{}] if form == "cohort" else []
        empty, filled_in = ({"": {"0": end, "1": end, "2": 0}} for end in (0, 5))
        assert logged == [empty, filled_in, *gone, {"-b": {"0": 5}}]


@pytest.mark.thorough("a union that is stopped and goes on")
def test_a_source_that_has_nothing_new(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """A union of ten records and a hundred, five a batch of each: batch for batch the same, also when one has run dry, and after a stop (SPARK-22956)."""
    for name, count in {"small": 10, "large": 100}.items():
        broker.fill(f"{topic}-{name}", count)
    for form in FORMS:
        small, large = (
            options(broker, f"{topic}-{name}", maxOffsetsPerTrigger=5, group__id=f"{topic}-{name}-{form}")
            for name in ("small", "large")
        )
        batches: Batches = {}
        for rows in (25, 35):
            more = Stream(spark, small, tmp_path, form=form).load()
            run = Stream(spark, large, tmp_path / form, form=form, trigger=ASAP, transform=more.union, batches=batches)
            with run:
                run.wait_for_rows(rows)
        found = [sorted(row.offset for row in batches[number]) for number in range(5)]
        both = [sorted([*range(at, at + 5)] * 2) for at in (0, 5)]
        assert found == [*both, *([*range(at, at + 5)] for at in (10, 15, 20))]


@pytest.mark.thorough("limits and tasks beside Spark's own source")
def test_limits_of_a_batch(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """The largest number there is takes all (SPARK-26718); minOffsetsPerTrigger where less is there: AvailableNow reads it all."""
    filled(broker, topic)
    both: dict[str, Any] = {"minOffsetsPerTrigger": 8, "maxOffsetsPerTrigger": 10, "maxTriggerDelay": "1s"}
    for number, changes in enumerate([{"maxOffsetsPerTrigger": 2**63 - 1}, both]):
        for form in FORMS:
            ran = Stream(spark, options(broker, topic, **changes), tmp_path / f"{form}-{number}", form=form).finish()
            assert [len(rows) for rows in ran.batches.values()] == ([10, 10, 8] if number else [2 * (OLD + YOUNG)])


@pytest.mark.thorough("limits and tasks beside Spark's own source")
@pytest.mark.parametrize("asked", [1, 2, 5, 14])
def test_tasks_of_a_stream(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, asked: int) -> None:
    """At least minPartitions tasks in both, with the same rows (SPARK-30656)."""
    filled(broker, topic)
    for form in FORMS:
        frame = Stream(spark, options(broker, topic, minPartitions=asked), tmp_path, form=form).load()
        tasks, rows = list[int](), list[tuple[int, int]]()

        def keep(batch: DataFrame, _: int, tasks: list[int] = tasks, rows: list[tuple[int, int]] = rows) -> None:
            tasks.append(batch.rdd.getNumPartitions())
            rows += [(row.partition, row.offset) for row in batch.collect()]

        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / form))
        assert writer.trigger(availableNow=True).start().awaitTermination(120)
        assert sorted(rows) == [(number, at) for number in range(2) for at in range(OLD + YOUNG)]
        assert tasks[0] >= asked


# What is refused, and what Spark's own says of it; ours names the option, or the topic.
REFUSED: Final = {
    **{
        f"unsupported kafka configs: {name}": ({f"kafka.{name}": value}, f"Kafka option '{name}' is not supported")
        for name, value in {
            "auto.offset.reset": "latest",
            "key.deserializer": "x",
            "value.deserializer": "x",
            "enable.auto.commit": "true",
            "interceptor.classes": "x",
        }.items()
    },
    "throw exception when invalid isolation level set": (
        {"kafka.isolation.level": "nonsense"},
        "IsolationLevel.NONSENSE",
    ),
    "testNonExistingTopic": ({"subscribe": "no-such-topic"}, "UnknownTopicOrPartitionException"),
}


@pytest.mark.thorough("each refusal in both formats; tests/unit/options has ours")
@pytest.mark.parametrize(("changes", "theirs"), REFUSED.values(), ids=REFUSED)
def test_refused_by_name(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, changes: dict[str, str], theirs: str
) -> None:
    """Both end with an error; ours names the option."""
    broker.admin.create_topic(topic)
    (name,) = changes
    impatient = {"kafka__default__api__timeout__ms": 5000, "kafka__request__timeout__ms": 4000}
    words = {
        "kafka": theirs,
        "cohort": "option subscribe names topic no-such-topic" if name == "subscribe" else f"option {name}",
    }
    for form in FORMS:
        source = options(broker, topic, **impatient) | changes
        assert_outcome(Stream(spark, source, tmp_path / form, form=form).outcome(), words[form])


TAKEN: Final = {
    "kafka__client__id": "mine",
    "kafka__max__poll__records": 100,
    "kafka__max__poll__interval__ms": 60_000,
    "kafka__session__timeout__ms": 30_000,
    "kafka__heartbeat__interval__ms": 3_000,
    "kafka__fetch__min__bytes": 1,
    "kafka__fetch__max__bytes": 10_000_000,
    "kafka__fetch__max__wait__ms": 100,
    "kafka__max__partition__fetch__bytes": 1_000_000,
    "kafka__receive__buffer__bytes": 65_536,
    "kafka__send__buffer__bytes": 65_536,
    "kafka__metadata__max__age__ms": 30_000,
    "kafka__check__crcs": "false",
    "kafka__client__rack": "a",
    "kafka__connections__max__idle__ms": 60_000,
    "kafka__security__protocol": "PLAINTEXT",
    "kafka__group__instance__id": None,
}


def test_the_same_whatever_is_asked(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Kafka's settings, options in capitals, a prefix of groups: all rows in both, stream and batch read."""
    broker.fill(topic, 20, 2)
    everything = [(number, offset) for number in range(2) for offset in range(10)]
    plain = options(broker, topic, maxOffsetsPerTrigger=6)
    asked = {
        "settings": plain | options(broker, topic, **TAKEN),
        "capitals": {
            name.upper() if name in ("subscribe", "startingOffsets", "maxOffsetsPerTrigger") else name: value
            for name, value in plain.items()
        },
        "prefix": plain | {"groupIdPrefix": "of-mine"},
    }
    for name in of_tier(quick=["settings"], thorough=list(asked)):
        for form in FORMS:
            run = Stream(spark, asked[name], tmp_path / f"{name}-{form}", form=form).finish()
            assert sorted((row.partition, row.offset) for row in run.rows) == everything, (name, form)
            assert [len(rows) for rows in run.batches.values()] == [6, 6, 6, 2]
    loud = {"STARTINGOFFSETS": f'{{"{topic}":{{"0":4,"1":2}}}}', "ENDINGOFFSETS": f'{{"{topic}":{{"0":6,"1":-1}}}}'}
    for form in FORMS:
        rows = ordered(load(spark, broker, topic, form, **loud))
        assert [(row.partition, row.offset) for row in rows] == [(0, 4), (0, 5), *((1, at) for at in range(2, 10))]


# Spark's own tells of it in its condition's words, without its name.
OVERFLOW: Final = {
    "cohort": "KAFKA_MALFORMED_RECORD_TIMESTAMP",
    "kafka": "overflows when converting to Spark's microsecond",
}


@pytest.mark.thorough("a timestamp beside Spark's own source")
def test_a_timestamp_that_overflows(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """A record in nanoseconds: the same condition, with topic, partition and offset, by stream and by batch read."""
    broker.admin.create_topic(topic, configs={"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)})
    client = producer(broker.bootstrap)
    client.produce(topic, b"v", b"k", 0, timestamp=1_790_000_000_000_000_000)
    assert client.flush(60) == 0
    for form in FORMS:
        for said in (
            error(Stream(spark, options(broker, topic), tmp_path / form, form=form).finish),
            told(lambda form=form: load(spark, broker, topic, form)),
        ):
            assert OVERFLOW[form] in said
            assert f"topic {topic} partition 0 offset 0" in said, form


@pytest.mark.thorough("a trigger that Spark refuses")
def test_continuous_is_refused(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Spark's own source runs by Trigger.Continuous; for a Python source Spark refuses it."""
    broker.admin.create_topic(topic)
    for form in FORMS:
        stream = Stream(spark, options(broker, topic), tmp_path, form=form).load().writeStream.format("noop")
        writer = stream.option("checkpointLocation", str(tmp_path / form)).trigger(continuous="1 second")
        if form == "cohort":
            assert "continuous" in error(lambda writer=writer: writer.start().awaitTermination(60)).lower()  # type: ignore[misc]
        else:
            query = writer.start()
            wait_until((tmp_path / form / "commits" / "0").exists, 90, "an epoch")
            query.stop()


@pytest.mark.thorough("a plain run after an asynchronous one")
def test_asynchronous_progress(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Logs that are written behind the query's back: all rows in both, and logs that a plain run goes on from."""
    broker.fill(topic, 20, 2)
    for form in FORMS:
        writer = Stream(spark, options(broker, topic), tmp_path, form=form).load().writeStream.format("memory")
        writer = writer.queryName(f"asynchronous_{form}").option("checkpointLocation", str(tmp_path / form))
        writer = writer.option("asyncProgressTrackingEnabled", "true").trigger(processingTime="0 seconds")
        query = writer.option("asyncProgressTrackingCheckpointIntervalMs", "0").start()
        try:
            wait_until(lambda form=form: spark.table(f"asynchronous_{form}").count() == 20, 90, "rows")  # type: ignore[misc]
            wait_until((tmp_path / form / "commits" / "0").exists, 60, "the commit log")
        finally:
            query.stop()
        rows = [(row.partition, row.offset) for row in spark.table(f"asynchronous_{form}").collect()]
        assert sorted(rows) == [(number, at) for number in range(2) for at in range(10)]
    produce(broker.bootstrap, topic, 4, partitions=2, first=10)
    for form in FORMS:
        again = Stream(spark, options(broker, topic), tmp_path / form, form=form).finish()
        assert sorted(row.offset for row in again.rows) == [10, 10, 11, 11]
