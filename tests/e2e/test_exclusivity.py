"""One reader per group and topics: the newer driver wins, a second one of an application is refused, strangers are named, and a new version takes over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer
from pyspark.sql import DataFrame, SparkSession

from tests.kit import delivery
from tests.kit.application import ALL, Application, Query
from tests.kit.broker import Broker
from tests.kit.processes import freeze
from tests.kit.produce import produce
from tests.kit.streams import ASAP, Stream, options
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a query slow

SESSION_MS = 6_000
END_S = 90.0


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """Another Spark application, with a driver of its own."""
    with Application(tmp_path_factory.mktemp("other") / "app", master="local[2]") as running:
        yield running


@contextmanager
def frozen(application: Application) -> Iterator[None]:
    """The whole application stopped, as a machine that is suspended."""
    pids = [process.pid for process in application.driver.processes()]
    for pid in pids:
        freeze(pid)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def assert_fenced(message: str | None, topic: str) -> None:
    """Check that a query's end names the fencing, the group and what to do."""
    assert message is not None
    assert "FENCED_INSTANCE_ID" in message
    assert f"in group {topic}" in message
    assert "give each its own group.id" in message


@pytest.mark.thorough("two applications")
def test_the_newer_application_wins(
    spark: SparkSession, other: Application, broker: Broker, topic: str, checkpoint: Path
) -> None:
    """Of two applications on one group and topics the newer runs on; the older ends with FENCED_INSTANCE_ID."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 100, partitions=2)
    source = options(broker, topic, session__timeout__ms=SESSION_MS, heartbeat__interval__ms=1_000)
    older = other.start("older", source)
    older.wait_for("batch", 0, END_S)
    with Stream(spark, source, checkpoint, trigger=ASAP) as newer:
        newer.wait_for_rows(100)
        assert_fenced(older.end(END_S), topic)
        produce(broker.bootstrap, topic, 100, partitions=2, first=50)
        newer.wait_for_rows(200)
    delivery.check(newer.delivered(), delivery.held(broker.bootstrap, [topic])).assert_exact()


@pytest.mark.thorough("two applications")
def test_a_driver_that_thaws_ends(
    spark: SparkSession, other: Application, broker: Broker, topic: str, checkpoint: Path
) -> None:
    """A driver frozen past its session fences nobody when it thaws: it finds the newer run and ends."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 100, partitions=2)
    source = options(broker, topic, session__timeout__ms=SESSION_MS, heartbeat__interval__ms=1_000)
    older = other.start("frozen", source)
    older.wait_for("batch", 0, END_S)
    with Stream(spark, source, checkpoint, trigger=ASAP) as newer:
        with frozen(other):
            newer.wait_for_rows(100)
            thaw_at = time.monotonic() + SESSION_MS / 1000
            wait_until(lambda: time.monotonic() > thaw_at, END_S, "the end of the frozen driver's session")
        assert_fenced(older.end(END_S), topic)
        produce(broker.bootstrap, topic, 100, partitions=2, first=50)
        newer.wait_for_rows(200)
    delivery.check(newer.delivered(), delivery.held(broker.bootstrap, [topic])).assert_exact()


def test_a_second_reader_of_one_application_is_refused(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """A second query on the group and topics, and a self-join, are refused at start; the first query runs on."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 50)
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


def test_two_topics_of_one_group_are_not_one_reader(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Two queries of one application on different topics share a group: neither fences the other, both commit."""
    topics = [f"{topic}-{letter}" for letter in "ab"]
    for each in topics:
        broker.admin.create_topic(each)
        produce(broker.bootstrap, each, 50)
    sources = [options(broker, each, group__id=topic) for each in topics]
    with Stream(spark, sources[0], tmp_path / "a", trigger=ASAP) as first:
        first.wait_for_rows(50)
        second = Stream(spark, sources[1], tmp_path / "b").finish()
        produce(broker.bootstrap, topics[0], 50, first=50)
        first.wait_for_rows(100)
        wait_until(lambda: broker.admin.committed(topic).get((topics[0], 0)) == 100, END_S, "the commit of 100")
    assert len(second.rows) == 50
    assert broker.admin.committed(topic) == {(topics[0], 0): 100, (topics[1], 0): 50}


def test_a_stranger_in_the_group_is_named(spark: SparkSession, broker: Broker, topic: str, checkpoint: Path) -> None:
    """An ordinary consumer that joins the group and gets partitions ends the query within a session, by its name."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 100, partitions=2)
    source = options(broker, topic, session__timeout__ms=SESSION_MS, heartbeat__interval__ms=1_000)
    query = Stream(spark, source, checkpoint, trigger=ASAP).start().wait_for_rows(100)
    stranger = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": topic,
            "client.id": "the-stranger",
            "partition.assignment.strategy": "range",
        }
    )
    stranger.subscribe([topic])
    wait_until(lambda: stranger.poll(0.1) is None and stranger.assignment(), END_S, "partitions of the stranger")
    began = time.monotonic()

    def ended() -> bool:
        stranger.poll(0.1)
        return not query.query.isActive

    wait_until(ended, END_S, "the end of the query")
    assert time.monotonic() - began < 2 * SESSION_MS / 1000
    message = query.failure()
    assert "client the-stranger (127.0.0.1)" in message
    assert f"in group {topic}" in message
    assert "stop that consumer, or give this query a group.id of its own" in message


# --- a hand-over ---------------------------------------------------------------------------------------

PER_ROUND, PARTITIONS = 400, 2


def delivered(*queries: Query) -> Counter[tuple[int, int]]:
    """How often the plain sinks of these queries have each record."""
    files = [path for query in queries for path in query.out.glob("batch_id=*/*.parquet")]
    rows = [row for path in files for row in pq.ParquetFile(path).read(["partition", "offset"]).to_pylist()]
    return Counter((row["partition"], row["offset"]) for row in rows)


@pytest.mark.thorough("two applications")
@pytest.mark.timeout(420)
def test_a_deployment_and_the_way_back(
    application: Application, other: Application, broker: Broker, topic: str
) -> None:
    """A new version takes over in the middle of a batch; back again by the command, on the first checkpoint: each record once.

    Two applications, two checkpoints, sinks of their own.
    """
    broker.admin.create_topic(topic, PARTITIONS)
    produce(broker.bootstrap, topic, PER_ROUND, partitions=PARTITIONS)
    options = {"kafka.bootstrap.servers": broker.bootstrap, "group.id": topic, "subscribe": topic}
    options["maxOffsetsPerTrigger"] = "100"
    old = application.start("job", options, gate=1)
    old.wait_for("begin", 2)
    new = other.start("job", {**options, "handover": "graceful", "value.format": "string"})
    new.wait(lambda: "looking -> asked" in other.driver.log(), 60, "the question")
    began = time.monotonic()
    old.allow(ALL)
    assert "HANDED_OVER" in str(old.end(60))
    new.wait_for("batch", 0)
    standstill_s = time.monotonic() - began  # from the end of the old one's batch to that of the new one's first
    print("standstill", round(standstill_s, 1), "s")  # noqa: T201  a figure
    assert standstill_s < 60
    produce(broker.bootstrap, topic, PER_ROUND, partitions=PARTITIONS)
    new.wait_for_no_lag()
    command = [sys.executable, "-P", "-m", "sparkcohort.runtime.shell.cli.main", "handover", "--group", topic]
    back = [*command, "--bootstrap-server", broker.bootstrap, "--to-checkpoint", str(old.checkpoint)]
    done = subprocess.run(back, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    assert "HANDED_OVER" in str(new.end(60))
    before = delivered(old, new)
    produce(broker.bootstrap, topic, PER_ROUND, partitions=PARTITIONS)
    again = application.start("job", options)
    again.wait_for_no_lag()
    again.stop()
    after = delivered(again, new)
    assert len(before) == 2 * PER_ROUND
    assert (len(after), set(after.values())) == (3 * PER_ROUND, {1})
