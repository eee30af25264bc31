"""Rows into Kafka by ``format("cohort")``: what Spark's own sink takes, says and writes, on both formats."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  everybody's name for it

from sparkcohort import describe
from sparkcohort.runtime.errors import CohortError
from tests.kit.broker import Broker
from tests.kit.jars import reader_jar
from tests.kit.pages import README, section
from tests.kit.produce import produce
from tests.kit.streams import ASAP, FORMS, Stream, error, options
from tests.kit.tier import of_tier
from tests.kit.waiting import wait_until
from tests.kit.writes import LineStream, stored, values, write

pytestmark = pytest.mark.timeout(900)  # a busy machine makes a query slow

HEADERS: Final = "array<struct<key:string,value:binary>>"
AT_MS: Final = int(time.time() * 1000) - 3_600_000


def test_topic_to_topic(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """A stream of one topic becomes another one, record for record: keys, values, partitions, timestamps."""
    broker.fill(topic, 60, 3, timestamp_ms=AT_MS)
    broker.admin.create_topic(f"{topic}-out", 3)
    source = Stream(spark, options(broker, topic, maxOffsetsPerTrigger=40), tmp_path).load()
    writer = source.select("key", "value", "partition", "timestamp").writeStream.format("cohort")
    writer = writer.option("kafka.bootstrap.servers", broker.bootstrap).option("topic", f"{topic}-out")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(180)
    assert _records(spark, broker, f"{topic}-out") == _records(spark, broker, topic)
    assert [progress["sink"]["numOutputRows"] for progress in query.recentProgress][:2] == [40, 20]


def _records(spark: SparkSession, broker: Broker, topic: str) -> list[list[Any]]:
    columns = ("partition", "offset", "key", "value", "timestamp")
    return [[row[name] for name in columns] for row in stored(spark, broker, topic)]


@pytest.mark.thorough("test_a_batch has the write, tests/e2e/test_upsert.py foreachBatch")
def test_a_batch_write_for_each_batch(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """A batch write in foreachBatch, and another one of the same rows to a second topic: both have every record, in order."""
    broker.fill(topic, 60, 3, timestamp_ms=AT_MS)
    copies = [f"{topic}-first", f"{topic}-second"]
    for copy in copies:
        broker.admin.create_topic(copy, 3)

    def write_batch(batch: DataFrame, number: int) -> None:
        rows = batch.select("key", "value", "partition", "timestamp").persist()
        for copy in copies:
            write(rows, broker, "cohort", topic=copy)
        rows.unpersist()

    source = Stream(spark, options(broker, topic, maxOffsetsPerTrigger=40), tmp_path).load()
    writer = source.writeStream.foreachBatch(write_batch).option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(180)
    for copy in copies:
        assert _records(spark, broker, copy) == _records(spark, broker, topic)


@pytest.mark.thorough("test_topic_to_topic has the same way")
def test_the_documented_copy(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """README's example as it stands, but for the names of topics and group."""
    broker.fill(topic, 60, 3)
    broker.admin.create_topic(f"{topic}-out", 3)
    text = section(README.read_text(), "copy").removeprefix("```python\n").removesuffix("```")
    for name, own in (("orders", topic), ("billing", topic), ("billed", f"{topic}-out")):
        assert text.count(f'"{name}")') == 1
        text = text.replace(f'"{name}")', f'"{own}")')
    names: dict[str, Any] = {"spark": spark, "brokers": broker.bootstrap, "checkpoint": str(tmp_path / "checkpoint")}
    exec(compile(text, "README.md", "exec"), names)  # noqa: S102  the example as it is shown
    query = names["query"]
    wait_until(lambda: sum(broker.admin.ends(f"{topic}-out").values()) >= 60, 90, "all records")
    query.stop()
    assert query.exception() is None
    wanted = sorted(bytes(row.value).upper().decode() for row in stored(spark, broker, topic))
    assert values(spark, broker, f"{topic}-out") == wanted


@pytest.mark.skipif(not reader_jar(), reason="the jar counts (COHORT_READER)")
def test_what_a_stream_has_written(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """By topic in Spark's progress, batch by batch; in the document, all of it, also after a restart, with which it writes exactly once."""
    broker.fill(topic, 60, 1)
    broker.admin.create_topic(f"{topic}-out")
    for run, batches in enumerate(([40, 20], [30]), 1):
        source = Stream(spark, options(broker, topic, maxOffsetsPerTrigger=40), tmp_path).load().select("key", "value")
        writer = source.writeStream.format("cohort").option("kafka.bootstrap.servers", broker.bootstrap)
        writer = writer.option("topic", f"{topic}-out").option("checkpointLocation", str(tmp_path / "checkpoint"))
        if run == 2:
            writer = writer.option("delivery.guarantee", "exactly-once").option("sink.id", f"{topic}-out")
        query = writer.trigger(**ASAP).start()
        try:
            if run == 2:
                produce(broker.bootstrap, topic, 30, first=60)
            rows = 60 if run == 1 else 90
            document = wait_until(partial(_written, topic, rows), 90, f"{rows} rows in the document")
            metrics = [progress["sink"]["metrics"] for progress in query.recentProgress if progress["numInputRows"]]
        finally:
            query.stop()
        assert [int(each[f"{topic}-out.rows"]) for each in metrics] == batches
        assert [each.get("transactions") for each in metrics] == [None, None] if run == 1 else ["1"]
        assert document["commits"]["committed"] == run - 1
        assert document["topics"][f"{topic}-out"]["bytes"] > 0
        assert 0 < document["last"]["waited_s"] < document["last"]["tasks_s"] < document["tasks_s"]
        assert document["failed_batches"] == 0


def _written(group: str, rows: int) -> Any:
    """What the query has written by its document, once that is so many rows."""
    with suppress(CohortError):  # it hasn't begun
        writes = describe(group)["writes"]
        if writes and writes["topics"][f"{group}-out"]["rows"] == rows:
            return writes
    return None


def _rows(spark: SparkSession, topic: str) -> DataFrame:
    """The rows of Spark's own test of headers, a tombstone, and a column that no record has."""
    headers: list[Any] = [
        [("a", b"b")], [("c", b"d"), ("e", b"f")], [("g", b"h"), ("g", b"i")], None, [("j", None), ("m", b"")], []
    ]  # fmt: skip
    rows = [(topic, None if number == 4 else f"v{number}", each, number) for number, each in enumerate(headers)]
    return spark.createDataFrame(rows, f"topic string, value string, headers {HEADERS}, other int").coalesce(1)


def test_a_batch(spark: SparkSession, broker: Broker, topic: str) -> None:
    """Values and headers by the column topic: the same records as Spark's own sink makes of them."""
    found = {}
    for form in FORMS:
        broker.admin.create_topic(f"{topic}-{form}")
        write(_rows(spark, f"{topic}-{form}"), broker, form)
        found[form] = [(row.key, row.value, row.headers) for row in stored(spark, broker, f"{topic}-{form}")]
    wanted = [
        (None, row.value.encode() if row.value else None, row.headers or None) for row in _rows(spark, topic).collect()
    ]
    assert found == dict.fromkeys(FORMS, wanted)


def test_keys_have_their_partition(spark: SparkSession, broker: Broker, topic: str) -> None:
    """A key's partition is Java's, whoever writes; the column partition wins where it has a number."""
    frame = spark.range(200).selectExpr("cast(id as string) as key", "cast(id as string) as value")
    frames = {
        "by key": frame,
        "by column": frame.withColumn("partition", F.lit(2)),
        "null": frame.withColumn("partition", F.expr("int(null)")),
    }
    places = {}
    for form in FORMS:
        for name, rows in frames.items():
            place = f"{topic}-{form}-{name.replace(' ', '-')}"
            broker.admin.create_topic(place, 4)
            write(rows, broker, form, topic=place)
            places[form, name] = {bytes(row.key): row.partition for row in stored(spark, broker, place)}
        assert set(places[form, "by column"].values()) == {2}
        assert places[form, "by key"] == places[form, "null"] == places["cohort", "by key"]
    assert set(places["cohort", "by key"].values()) == {0, 1, 2, 3}


TOPICS: Final = {
    "a column": (("'TOPIC' as topic", "value"), False),
    "an option": (("value",), True),
    "both": (("'foo' as topic", "value"), True),
}


@pytest.mark.thorough("each way on both formats")
@pytest.mark.parametrize("way", TOPICS)
def test_where_a_stream_goes(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, way: str) -> None:
    """The column names it, or the option, which wins; batch after batch."""
    select, has_option = TOPICS[way]
    for form in FORMS:
        name = f"{topic}-{form}"
        broker.admin.create_topic(name)
        select_here = [each.replace("TOPIC", name) for each in select]
        stream = LineStream(
            spark, tmp_path / form, broker, form, select=select_here, topic=name if has_option else None
        )
        for run, lines in enumerate(("12345", "6789"), 1):
            stream.run(*lines)
            assert values(spark, broker, name) == sorted("123456789"[: 5 * run])


WRONG: Final = {
    "no topic": (("value as key", "value"), "topic option required when no 'topic' attribute is present"),
    "no value": (("'t' as topic", "value as key"), "Required attribute 'value' not found"),
    "topic": (("CAST('1' as INT) as topic", "value"), "topic must be a(n) string"),
    "value": (("'t' as topic", "CAST(value as INT) as value"), "value must be a(n) string or binary"),
    "key": (("'t' as topic", "CAST(value as INT) as key", "value"), "key must be a(n) string or binary"),
    "partition": (("'t' as topic", "value", "value as partition"), "partition must be a(n) int"),
    "headers": (
        ("'t' as topic", "value", "value as headers"),
        "headers must be a(n) array<struct<key:string,value:binary>>",
    ),
}


@pytest.mark.parametrize("case", of_tier(quick=["no value"], thorough=list(WRONG)))
def test_wrong_columns(spark: SparkSession, broker: Broker, tmp_path: Path, case: str) -> None:
    """The query ends with the words of Spark's own sink, and a batch too."""
    select, words = WRONG[case]
    for form in FORMS:
        stream = LineStream(spark, tmp_path / form, broker, form, select=select)
        assert words in error(lambda stream=stream: stream.run("1"))  # type: ignore[misc]
        frame = spark.createDataFrame([("1",)], "value string").selectExpr(*select)
        assert words in error(lambda frame=frame, form=form: write(frame, broker, form))  # type: ignore[misc]


REFUSALS: Final[dict[str, tuple[dict[str, str], str, str]]] = {
    "key.serializer": (
        {"kafka.key.serializer": "x"},
        "'key.serializer' is not supported",
        "option kafka.key.serializer is not supported",
    ),
    "value.serializer": (
        {"kafka.value.serializer": "x"},
        "'value.serializer' is not supported",
        "option kafka.value.serializer is not supported",
    ),
}


@pytest.mark.thorough("on both formats; tests/unit/options has ours")
@pytest.mark.parametrize("name", REFUSALS)
def test_refused_settings(spark: SparkSession, broker: Broker, tmp_path: Path, name: str) -> None:
    """Serializers are refused by name."""
    given, theirs, ours = REFUSALS[name]
    for form in FORMS:
        stream = LineStream(spark, tmp_path / form, broker, form, topic="t", **given)
        assert (theirs if form == "kafka" else ours) in error(lambda stream=stream: stream.run("1"))  # type: ignore[misc]


@pytest.mark.thorough("on both formats")
def test_no_topic(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """A topic that does not exist ends the query; a null topic ends a batch in Spark's words."""
    for form in FORMS:
        stream = LineStream(spark, tmp_path / form, broker, form, topic=topic)
        assert topic in error(lambda stream=stream: stream.run("1"))  # type: ignore[misc]
        frame = spark.createDataFrame([(None, "1")], "topic string, value string")
        text = error(lambda frame=frame, form=form: write(frame, broker, form))  # type: ignore[misc]
        assert form == "kafka" or "KAFKA_NULL_TOPIC_IN_DATA" in text
        assert "The Kafka message data sent to the producer contains a null topic" in text


@pytest.mark.parametrize("mode", of_tier(quick=["overwrite"], thorough=["overwrite", "ignore", "errorifexists"]))
def test_modes_of_a_batch(spark: SparkSession, broker: Broker, topic: str, mode: str) -> None:
    """Only append; Spark's own sink takes errorifexists too, its default, which Spark takes of no Python sink."""
    frame = spark.createDataFrame([("1",)], "value string")
    words = {
        "overwrite": "use .mode('append')",
        "ignore": 'Please use either the "Append"',
        "errorifexists": 'Please use either the "Append"',
    }
    broker.admin.create_topic(topic)
    with pytest.raises(PySparkException) as ours:
        write(frame, broker, "cohort", mode=mode, topic=topic)
    assert words[mode] in str(ours.value)
    if "kafka" in FORMS and mode != "errorifexists":
        assert "not allowed for Kafka" in error(lambda: write(frame, broker, "kafka", mode=mode, topic=topic))


@pytest.mark.thorough("on both formats")
def test_complete_mode(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Each batch writes the whole result anew."""
    for form in FORMS:
        name = f"{topic}-{form}"
        broker.admin.create_topic(name)
        select = ("value as key",)
        stream = LineStream(spark, tmp_path / form, broker, form, select=select, mode="complete", topic=name)
        stream.transform = lambda frame: frame.groupBy("key").agg(F.count("*").cast("string").alias("value"))
        stream.run("a", "b", "a")
        stream.run("b")
        assert sorted((bytes(row.key), bytes(row.value)) for row in stored(spark, broker, name)) == [
            (b"a", b"2"), (b"a", b"2"), (b"b", b"1"), (b"b", b"2")
        ]  # fmt: skip


@pytest.mark.skipif(not reader_jar(), reason="Spark takes output mode update of no Python sink")
def test_update_mode(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """With the jar, as Spark's own sink; progress events have the rows that were written."""
    for form in FORMS:
        name = f"{topic}-{form}"
        broker.admin.create_topic(name)
        stream = LineStream(spark, tmp_path / form, broker, form, mode="update", topic=name)
        query = stream.run("1", "2", "3")
        assert [progress["sink"]["numOutputRows"] for progress in query.recentProgress] == [3]
        assert values(spark, broker, name) == ["1", "2", "3"]


@pytest.mark.thorough("on both formats")
def test_an_analyzed_plan(spark: SparkSession, broker: Broker, topic: str) -> None:
    """A value that Spark computes (SPARK-20496), and one producer for large rows with a small buffer."""
    small: dict[str, Any] = {"kafka__buffer__memory": 16384, "kafka__batch__size": 16384}
    for form in FORMS:
        for name, frame, more in (
            ("computed", spark.range(1, 1000).select(F.to_json(F.struct("*")).alias("value")), {}),
            ("large", spark.range(1000).selectExpr("repeat('x', 15000) as value"), small),
        ):
            place = f"{topic}-{name}-{form}"
            broker.admin.create_topic(place)
            write(frame, broker, form, topic=place, **more)
            assert len(stored(spark, broker, place)) == frame.count()
