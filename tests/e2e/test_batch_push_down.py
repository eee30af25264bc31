"""What Spark pushes to a batch read where it knows Cohort's jar: filters, columns, limits, each scan its own, beside Spark's own source.

Each task has ten offsets at most, so that their number tells how many offsets a scan reads.
"""

from __future__ import annotations

import json
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  everybody's name for it

from tests.kit.batch_reads import load, ordered
from tests.kit.broker import Broker
from tests.kit.jars import reader_jar
from tests.kit.produce import produce, producer
from tests.kit.streams import Stream, options
from tests.kit.tier import of_tier

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(not reader_jar(), reason="a run without the jar (COHORT_READER)"),
]

HOUR_MS = 3_600_000
BASE_MS = int(time.time() * 1000) // HOUR_MS * HOUR_MS - 12 * HOUR_MS
FORMS = ("cohort", "kafka")
BOTH = "pushed-left,pushed-right"
TENS: dict[str, Any] = {"maxRecordsPerPartition": 10}
FIELDS = ", ".join(f"f{number} BIGINT" for number in range(17)) + ", name STRING, more STRUCT<a: INT, b: STRING>"


@pytest.fixture(scope="module")
def both(broker: Broker) -> str:
    """Two topics of two partitions with 40 records each: 20 of one hour, 10 of two hours later, 10 of the hour between."""
    for topic in BOTH.split(","):
        broker.admin.create_topic(topic, 2)
        for first, count, hours in ((0, 20, 0), (20, 10, 2), (30, 10, 1)):
            at = BASE_MS + hours * HOUR_MS
            produce(broker.bootstrap, topic, 2 * count, partitions=2, first=first, timestamp_ms=at)
    return BOTH


def _at(hours: float) -> str:
    return f"timestamp_millis({BASE_MS + int(hours * HOUR_MS)})"


# A filter, and the number of tasks that its scan has of 16.
FILTERS = {
    "partition = 1": 8,
    "topic = 'pushed-left' and offset >= 35": 2,
    "5 > offset": 4,
    "(partition = 0 and offset < 10) or (partition = 1 and 30 <= offset)": 4,
    "topic in ('pushed-right', 'none') and offset in (3, 12)": 2,
    "offset between 10 and 19 or value is null": 16,
    "offset <=> 39 and partition > 0 and partition <= 7": 2,
    "partition = 0 and cast(cast(key as string) as int) % 7 = 3": 8,
    "not (partition = 0)": 16,
    "topic > 'pushed-left'": 8,
    "topic = 'none'": 0,
    f"timestamp >= {_at(1)}": 8,
    f"timestamp > {_at(1)}": 8,
    f"timestamp = {_at(0)}": 16,
    f"timestamp between {_at(1)} and {_at(1.5)} and offset < 30": 4,
    f"timestamp < {_at(1)}": 16,
    f"timestamp >= {_at(10)}": 0,
    "timestamp > '1960-01-01'": 16,
}  # fmt: skip


@pytest.mark.parametrize("filters", of_tier(quick=list(FILTERS)[3::7], thorough=list(FILTERS)))
def test_a_filter_narrows_what_is_read_and_no_row_less(
    spark: SparkSession, broker: Broker, both: str, filters: str
) -> None:
    """Offsets, partitions, topics, and the lower bounds of times; records out of order are found."""
    ours, theirs = (load(spark, broker, both, form, **TENS).where(filters) for form in FORMS)
    assert ours.rdd.getNumPartitions() == FILTERS[filters]
    assert ordered(ours) == ordered(theirs)
    assert ordered(ours) == ordered(load(spark, broker, both, reader="python").where(filters))


def _explained(frame: DataFrame) -> str:
    text = StringIO()
    with redirect_stdout(text):
        frame.explain()
    return text.getvalue()


def test_one_load_with_several_filters(spark: SparkSession, broker: Broker, both: str) -> None:
    """A union, a join, a view of it: each scan is of its own filter, of the ranges that the first one fixed."""
    answers: list[list[list[Row]]] = []
    for form in FORMS:
        rows = load(spark, broker, both, form, **TENS).where("topic = 'pushed-left'")
        left, right = rows.where("partition = 0 and offset < 12"), rows.where("partition = 1 and offset >= 8")
        united = left.union(right)
        joined = left.select("offset", "key").join(right.select("offset", F.col("key").alias("other")), "offset")
        itself = left.union(left).groupBy("offset").count()
        rows.createOrReplaceTempView("pushed_view")
        of_view = spark.sql("SELECT a.key, b.value FROM pushed_view a JOIN pushed_view b ON a.offset = b.offset "
                            "WHERE a.partition = 0 AND b.partition = 1 AND a.offset > 33")  # fmt: skip
        answers.append([sorted(each.collect()) for each in (united, joined, itself, of_view)])
        if form == "cohort":
            assert united.rdd.getNumPartitions() == 2 + 4
            assert rows.rdd.getNumPartitions() == 8
            explained = _explained(united)
            assert "partition = 1, offset >= 8]" in explained and "offset < 12]" in explained
    assert answers[0] == answers[1]
    assert [len(each) for each in answers[0]] == [12 + 32, 4, 12, 6]


def test_the_first_scan_fixes_the_ranges(spark: SparkSession, broker: Broker, topic: str) -> None:
    """Newer records are in no scan of the same load(), whatever it is of; explain() asks nothing."""
    broker.fill(topic, 40, 2, timestamp_ms=BASE_MS)
    rows = load(spark, broker, topic)
    explained = _explained(rows.where("offset > 3 and partition = 1").select("value"))
    assert "PushedFilters: [offset > 3, partition = 1], ReadSchema: struct<value:binary," in explained
    assert rows.where("offset > 9").count() == 20
    produce(broker.bootstrap, topic, 20, partitions=2, first=20, timestamp_ms=BASE_MS + HOUR_MS)
    assert (rows.count(), rows.where("offset >= 15").count(), rows.where(f"timestamp > {_at(0)}").count()) == (
        40,
        10,
        0,
    )
    assert load(spark, broker, topic).where(f"timestamp > {_at(0)}").count() == 20


def test_a_filter_by_time_hides_no_loss(spark: SparkSession, broker: Broker, topic: str) -> None:
    """Records that were deleted under a plan may have been as young as the filter wants: the read comes to the loss."""
    broker.fill(topic, 40, timestamp_ms=BASE_MS)
    rows = load(spark, broker, topic)
    assert rows.where(f"timestamp >= {_at(0)}").count() == 40
    broker.admin.delete_records(topic, {0: 20})
    assert rows.where("offset >= 20").count() == 20
    with pytest.raises(Exception, match="COULD_NOT_READ_OFFSET_RANGE"):
        rows.where(f"timestamp >= {_at(0)} and partition < 1").collect()


def test_columns_and_limits(spark: SparkSession, broker: Broker, both: str) -> None:
    """What nobody asks for is not read; rows are counted by the narrowest column; a limit is each task's."""
    for form in FORMS:
        rows = load(spark, broker, both, form, includeHeaders="true")
        assert rows.count() == 160
        assert rows.limit(7).count() == 7 and len(rows.limit(500).collect()) == 160 and rows.limit(0).count() == 0
        assert rows.select("headers").distinct().collect() == [Row(headers=None)]
        assert sorted(rows.select("Offset", "KEY").where("topic = 'pushed-left' and partition = 1").take(1)) == [
            Row(Offset=0, KEY=b"0")
        ]
    rows = load(spark, broker, both)
    assert "ReadSchema: struct<partition:int>" in _explained(rows.groupBy().count())
    assert "PushedLimit: 7, ReadSchema: struct<key:binary>" in _explained(rows.select("key").limit(7))
    declared = load(spark, broker, both, schema="Value BINARY, OFFSET BIGINT NOT NULL", **TENS)
    assert declared.where("offset < 10").rdd.getNumPartitions() == 4
    assert declared.where("offset < 10").count() == 40 == declared.select("value").where("OFFSET >= 30").count()
    assert load(spark, broker, both, schema="value BINARY").count() == 160


def _json(number: int) -> bytes:
    record: dict[str, Any] = {f"f{field}": number * 100 + field for field in range(17)}
    text = json.dumps(record | {"name": f"n{number}", "more": {"a": number, "b": "x"}}).encode()
    return {7: b"no JSON", 8: text.replace(b'"f3": 803', b'"f3": "wrong"')}.get(number, text)


def test_fields_that_nobody_asks_for(spark: SparkSession, broker: Broker, topic: str) -> None:
    """Two of 19 columns of JSON are two columns on their way; what decides which rows there are is read in full."""
    broker.admin.create_topic(topic, 1)
    writer = producer(broker.bootstrap)
    for number in range(40):
        writer.produce(topic, _json(number))
    assert writer.flush(60) == 0
    typed = {"value__format": "json", "value__schema": FIELDS, "value__corrupt__column": "bad"}
    ours, python = load(spark, broker, topic, **typed), load(spark, broker, topic, **typed, reader="python")
    asked = {
        "two": (["value.f1", "value.more.b"], "struct<value:struct<f1:bigint,more:struct<b:string>>>"),
        "no value": (["offset", "key"], "struct<key:binary,offset:bigint>"),
        "bad": (["bad", "value.f2"], "struct<key:binary,value:struct<f0:bigint,"),
        "null": (["value is null"], "struct<value:struct<f0:bigint,"),
    }
    for columns, schema in asked.values():
        read = ours.selectExpr(*columns)
        assert f"ReadSchema: {schema}" in _explained(read)
        assert read.collect() == python.selectExpr(*columns).collect()
    dropped = {**typed, "value__mode": "dropmalformed"}
    for reader in ("auto", "python"):
        rows = load(spark, broker, topic, **dropped, reader=reader)
        assert (rows.count(), rows.select("value.f1").count(), rows.where("offset > 30").count()) == (38, 38, 9)


@pytest.mark.parametrize("form", of_tier(quick=FORMS[:1], thorough=FORMS))
def test_a_stream_joined_with_a_batch(
    spark: SparkSession, broker: Broker, both: str, checkpoint: Path, form: str
) -> None:
    """Each micro-batch scans the batch again, with the filter and the columns that the join needs."""
    batch = load(spark, broker, both, form).where("topic = 'pushed-left' and partition = 0").select("offset", "value")
    source = options(broker, "pushed-right", maxOffsetsPerTrigger=30)

    def joined(rows: DataFrame) -> DataFrame:
        return rows.where("partition = 1").select("offset", "key").join(batch, "offset")

    stream = Stream(spark, source, checkpoint, form=form, columns=None, transform=joined).finish()
    assert len(stream.batches) > 2
    assert sorted(row.offset for row in stream.rows) == list(range(40))
    assert all(row.value.startswith(b"0:%d:" % row.offset) for row in stream.rows)
