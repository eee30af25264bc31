"""The reader in the JVM: memory that it has given back is read by nobody, and it is the one that reads.

Agents of these sessions write 0xFF over all memory that comes back (``tests.kit.faults.OVERWRITTEN``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  everybody's name for it

from sparkcohort import register
from sparkcohort.streaming.installation import jar_path
from tests.kit.broker import Broker
from tests.kit.jars import reader_jar
from tests.kit.produce import produce
from tests.kit.streams import ASAP, Stream, options
from tests.kit.tier import of_tier

pytestmark = pytest.mark.skipif(not reader_jar(), reason="a run without the jar (COHORT_READER)")

PARTITIONS, BATCHES = 3, 2
RECORDS = of_tier(quick=18_000, thorough=72_000)
COLUMNS = ("partition", "offset", "key", "value")


def _extremes(rows: DataFrame) -> DataFrame:
    named = [
        F.max("value"),
        F.min("value"),
        F.first("value"),
        F.last("value"),
        F.max_by("value", "offset"),
        F.max("key"),
    ]
    return rows.where("partition = 1").agg(*named)


def _grouped(rows: DataFrame) -> DataFrame:
    by_digit = rows.groupBy("partition", (F.col("offset") % 7).alias("digit"))
    return by_digit.agg(F.max("value"), F.min("key"), F.first("value"), F.count_distinct("value"), F.mode("topic"))


def _collected(rows: DataFrame) -> DataFrame:
    few = rows.where("offset % 1000 = 0").groupBy("partition")
    return few.agg(F.sort_array(F.collect_list("value")), F.sort_array(F.collect_set("key")))


def _sorted(rows: DataFrame) -> DataFrame:
    return rows.orderBy(F.col("value").desc(), "partition").limit(100)


def _distinct(rows: DataFrame) -> DataFrame:
    return rows.select("value").dropDuplicates(["value"]).agg(F.count("value"), F.max("value"))


def _joined(rows: DataFrame) -> DataFrame:
    other = rows.where("partition = 0").select("key", F.col("value").alias("other"))
    return rows.where("partition = 1").join(other, "key").agg(F.count("*"), F.max("other"), F.min("value"))


def _hashed(rows: DataFrame) -> DataFrame:
    other = F.broadcast(rows.where("partition = 2 and offset % 10 = 0").select("key", F.col("value").alias("other")))
    return rows.where("partition = 1").join(other, "key").select("value", "other")


def _in_windows(rows: DataFrame) -> DataFrame:
    order = Window.partitionBy("partition").orderBy("offset")
    before = rows.select(
        "partition", "offset", F.lag("value", 5000).over(order).alias("before"), F.row_number().over(order)
    )
    return before.where("offset % 501 = 0")


def _by_python(rows: DataFrame) -> DataFrame:
    reversed_value = F.udf(lambda value: value[::-1], "string", useArrow=False)
    return rows.where("offset % 101 = 0").select("partition", "offset", reversed_value("value"))


def _shuffled(rows: DataFrame) -> DataFrame:
    return rows.repartition(5, "key").coalesce(1).agg(F.count("*"), F.sum(F.crc32("value")), F.min("value"))


def _united(rows: DataFrame) -> DataFrame:
    return rows.union(rows).groupBy("value").count().agg(F.min("count"), F.max("count"), F.max("value"))


OPERATORS: Sequence[Callable[[DataFrame], DataFrame]] = (
    _extremes, _collected, _sorted, _joined, _distinct, _shuffled, _grouped, _hashed, _united, _in_windows, _by_python
)  # fmt: skip


def _answers(rows: DataFrame) -> dict[str, Any]:
    """What each operator makes of the rows, with what keeps them: a cache, an iterator, a limit that ends early."""
    operators = of_tier(quick=OPERATORS[::3], thorough=OPERATORS)
    answers: dict[str, Any] = {of.__name__: sorted(map(tuple, of(rows).collect()), key=repr) for of in operators}
    answers["iterator"] = sorted(tuple(row) for row in rows.where("offset % 333 = 0").toLocalIterator())
    answers["limit"] = rows.limit(10).count()
    cached = rows.cache()
    answers["cached"] = [cached.agg(F.count("*"), F.sum(F.crc32("value"))).collect() for _ in range(2)]
    answers["of the cache"] = cached.agg(F.max("value"), F.min("key")).collect()
    cached.unpersist()
    return answers


def _plan(stream: Stream) -> str:
    text = StringIO()
    with redirect_stdout(text):
        stream.query.explain()
    return text.getvalue()


@pytest.mark.timeout(400)
def test_no_operator_reads_memory_that_went_back(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: Path
) -> None:
    """Each gives what it gives of the same records read by Spark's own source, batch for batch."""
    broker.admin.create_topic(topic, PARTITIONS)
    produce(broker.bootstrap, topic, RECORDS, partitions=PARTITIONS)
    theirs = (
        spark.read.format("kafka").options(**{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}).load()
    )
    texts = [F.col(name).cast("string").alias(name) for name in ("key", "value")]
    theirs = theirs.select("topic", "partition", "offset", *texts).cache()
    found: dict[int, tuple[Any, Any]] = {}

    def ask(batch: DataFrame, number: int) -> None:
        first, last = batch.agg(F.min("offset"), F.max("offset")).collect()[0]
        same = theirs.where(F.col("offset").between(first, last))
        found[number] = _answers(batch.select("topic", *COLUMNS)), _answers(same)

    given = options(
        broker, topic, key__format="string", value__format="string", maxOffsetsPerTrigger=RECORDS // BATCHES
    )
    stream = spark.readStream.format("cohort").options(**given).load()
    writer = stream.writeStream.foreachBatch(ask).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    theirs.unpersist()
    assert len(found) == BATCHES
    for ours, expected in found.values():
        assert ours == expected


def test_the_jvm_reads_unless_it_is_told_not_to(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """A scan in columns needs no Python worker; ``reader=python`` has it in rows, and the same rows."""
    broker.admin.create_topic(topic, 1)
    produce(broker.bootstrap, topic, 100, partitions=1)
    rows = {}
    for reader in ("auto", "jvm", "python"):
        stream = Stream(
            spark, options(broker, topic, group__id=f"{topic}-{reader}", reader=reader), tmp_path / reader
        ).finish()
        assert ("ColumnarToRow" in _plan(stream)) == (reader != "python")
        rows[reader] = stream.rows
    assert len(rows["jvm"]) == 100
    assert rows["auto"] == rows["jvm"] == rows["python"]


def test_progress_events_have_the_readers_metrics(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Which reader had the slots, how far and how long behind the logs, partitions that are held back."""
    broker.admin.create_topic(topic, 2)
    given = options(broker, topic)
    with Stream(spark, given, tmp_path / "checkpoint", trigger=ASAP) as stream:
        for first in range(0, 10_000, 50):
            produce(broker.bootstrap, topic, 100, partitions=2, first=first)
            stream.wait_for_rows(2 * (first + 50))
            told = [dict(each["sources"][0]["metrics"]) for each in stream.query.recentProgress if each["numInputRows"]]
            if any(int(metrics["slotsByAgent"]) and "maxSecondsBehindLatest" in metrics for metrics in told):
                break
    last = told[-1]
    assert sum(int(last[name]) for name in ("slotsByAgent", "slotsDirectly", "slotsByPython")) >= len(told)
    assert int(last["slotsByAgent"]) > 0
    assert 0 <= float(last["maxSecondsBehindLatest"]) < 60
    assert (last["maxOffsetsBehindLatest"], last["partitionsHeld"]) == ("0", "0")


def test_register_brings_the_jar_to_each_session(spark: SparkSession) -> None:
    """The second one, too, in which Spark knows the name by the first one's jar."""
    try:
        for session in (spark, spark.newSession()):
            register(session)
            assert jar_path().name in {Path(row[0]).name for row in session.sql("LIST JARS").collect()}
    finally:
        spark.createDataFrame([], "none int")  # the active one again, for other tests


def test_a_jar_of_another_version_is_refused(spark: SparkSession, broker: Broker, topic: str) -> None:
    """What only the jar may say, nobody else says."""
    given = options(broker, topic) | {"reader.jar": "{}"}
    with pytest.raises(PySparkException, match=r"reader\.jar is for Cohort's jar"):
        spark.readStream.format("cohort").options(**given, reader="python").load().writeStream.format(
            "noop"
        ).start().processAllAvailable()
