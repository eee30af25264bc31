"""One reader per group and topics: the newer driver wins, a second one of an application is refused, strangers are named, and a new version takes over."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.kit.application import ALL, Application, Query
from tests.kit.broker import Broker
from tests.kit.command import process
from tests.kit.produce import produce
from tests.kit.streams import ASAP, Batches, Stream, options
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a query slow

END_S = 90.0


def test_a_second_reader_of_one_application_is_refused(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """A second query on the group and topics, and a self-join, are refused at start; the first query runs on."""
    broker.fill(topic, 50)
    source = options(broker, topic)
    said = "another stream of this application already reads"
    with Stream(spark, source, tmp_path / "first", trigger=ASAP) as first:
        first.wait_for_rows(50)
        message = Stream(spark, source, tmp_path / "second").failure()
        assert said in message
        assert "give each its own group.id" in message
        produce(broker.bootstrap, topic, 50, first=50)
        first.wait_for_rows(100)

    def joined(stream: DataFrame) -> DataFrame:
        right = Stream(spark, source, tmp_path).load().selectExpr("key AS right_key")
        return stream.join(right, stream["key"] == right["right_key"])

    assert said in Stream(spark, source, tmp_path / "join", transform=joined).failure()


@pytest.mark.thorough("more readers of one group")
def test_two_topics_of_one_group_are_not_one_reader(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Two queries of one application on different topics share a group: neither fences the other, both commit."""
    topics = [f"{topic}-{letter}" for letter in "ab"]
    for each in topics:
        broker.fill(each, 50)
    sources = [options(broker, each, group__id=topic) for each in topics]
    with Stream(spark, sources[0], tmp_path / "a", trigger=ASAP) as first:
        first.wait_for_rows(50)
        second = Stream(spark, sources[1], tmp_path / "b").finish()
        produce(broker.bootstrap, topics[0], 50, first=50)
        first.wait_for_rows(100)
        wait_until(lambda: broker.admin.committed(topic).get((topics[0], 0)) == 100, END_S, "the commit of 100")
    assert len(second.rows) == 50
    assert broker.admin.committed(topic) == {(topics[0], 0): 100, (topics[1], 0): 50}


# --- a hand-over ---------------------------------------------------------------------------------------

PER_ROUND, PARTITIONS = 400, 2


def delivered(*queries: Query) -> Counter[tuple[int, int]]:
    """How often the plain sinks of these queries have each record."""
    files = [path for query in queries for path in query.out.glob("batch_id=*/*.parquet")]
    rows = [row for path in files for row in pq.ParquetFile(path).read(["partition", "offset"]).to_pylist()]
    return Counter((row["partition"], row["offset"]) for row in rows)


def test_a_query_hands_over_by_the_command(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """It ends, and one with a new checkpoint goes on behind its last batch; each record once."""
    broker.admin.create_topic(topic, PARTITIONS)
    source, batches = options(broker, topic), Batches()
    for turn in range(3):
        produce(broker.bootstrap, topic, 100, partitions=PARTITIONS, first=50 * turn)
        given = source if turn == 0 else source | {"startingOffsets": "committed"}
        run = Stream(spark, given, tmp_path / str(turn), trigger=ASAP if turn == 1 else None).start()
        if turn == 1:
            run.wait_for_rows(100)
            done = process("handover", "--group", topic, "--bootstrap-server", broker.bootstrap)
            assert done.returncode == 0, done.stderr
            assert "HANDED_OVER" in run.failure()
        run = run if turn == 1 else run.finish()
        batches[turn] = run.rows
    assert [len(rows) for rows in batches.values()] == [100, 100, 100]
    places = [(row.partition, row.offset) for rows in batches.values() for row in rows]
    assert sorted(places) == [(number, at) for number in range(PARTITIONS) for at in range(150)]


@pytest.mark.thorough("two applications")
@pytest.mark.timeout(420)
def test_a_deployment_and_the_way_back(
    application: Application, other: Application, broker: Broker, topic: str
) -> None:
    """A new version takes over in the middle of a batch, and the old one again: each record once.

    Two applications, three checkpoints, sinks of their own.
    """
    broker.fill(topic, PER_ROUND, PARTITIONS)
    source = options(broker, topic, maxOffsetsPerTrigger=100, startingOffsets=None)
    old = application.start("job", source, gate=1)
    old.wait_for("begin", 2)
    new = other.start("job", {**source, "handover": "graceful", "value.format": "string"})
    new.wait(lambda: "looking -> asked" in other.driver.log(), END_S, "the question")
    old.allow(ALL)
    assert "HANDED_OVER" in str(old.end())
    new.wait_for("batch", 0)
    produce(broker.bootstrap, topic, PER_ROUND, partitions=PARTITIONS)
    new.wait_for_no_lag()
    before = delivered(old, new)
    again = application.start("again", {**source, "handover": "graceful"})
    assert "HANDED_OVER" in str(new.end())
    produce(broker.bootstrap, topic, PER_ROUND, partitions=PARTITIONS)
    again.wait_for_no_lag()
    again.stop()
    after = delivered(old, new, again)
    assert len(before) == 2 * PER_ROUND
    assert (len(after), set(after.values())) == (3 * PER_ROUND, {1})
