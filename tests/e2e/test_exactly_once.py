"""Exactly once from Spark: streams, batches and foreachBatch, their restarts, and what is refused."""

from __future__ import annotations

import array
import fcntl
import os
import signal
import termios
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.chaos.campaign import copied, left_open
from tests.kit.application import LIMIT_S, Application
from tests.kit.broker import Broker
from tests.kit.delivery import held
from tests.kit.jars import reader_jar
from tests.kit.processes import descendants, freeze, matching
from tests.kit.streams import ASAP, AVAILABLE_NOW, error, options
from tests.kit.waiting import hold_for, wait_until
from tests.kit.writes import LineStream, load_committed, write

pytestmark = pytest.mark.timeout(900)

RECORDS, PARTITIONS = 60_000, 6


def exactly_once(sink_id: str, **more: Any) -> dict[str, Any]:
    """The options of a write, with ``__`` for ``.``."""
    return {"delivery__guarantee": "exactly-once", "sink__id": sink_id, "topic": sink_id, **more}


def seen(spark: SparkSession, broker: Broker, topic: str) -> Counter[str]:
    """The values that a ``read_committed`` reader gets."""
    return Counter(load_committed(spark, broker, topic))


def commit_processes() -> set[int]:
    """Those of this session's JVM; one whose query has ended stays for a minute."""
    return {process.pid for process in matching("produce.commit_process", descendants(os.getpid()))}


def new_process(before: set[int]) -> int:
    """The only one that was not there before."""
    (pid,) = commit_processes() - before
    return pid


def has_unread_input(pid: int) -> bool:
    """Whether a process that stands still has got something (FIONREAD)."""
    count = array.array("i", [0])
    with open(f"/proc/{pid}/fd/0", "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as pipe:
        fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0] > 0


def test_a_stream_is_written_once(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Each batch is visible when it is committed; one whose commit Spark has forgotten is not written again."""
    broker.admin.create_topic(topic, 2)
    stream = LineStream(spark, tmp_path, broker, "cohort", **exactly_once(topic))
    for number in range(3):
        stream.run(f"{number}-a", f"{number}-b")
    expected = Counter({f"{number}-{letter}": 1 for number in range(3) for letter in "ab"})
    wait_until(lambda: seen(spark, broker, topic) == expected, 60, "three batches")
    (tmp_path / "checkpoint" / "commits" / "2").unlink()
    (tmp_path / "checkpoint" / "commits" / ".2.crc").unlink(missing_ok=True)
    stream.run("3-a")
    expected["3-a"] = 1
    wait_until(lambda: seen(spark, broker, topic) == expected, 60, "a batch more")
    hold_for(lambda: seen(spark, broker, topic) == expected, 1, "nothing comes twice")


def test_a_batch_for_each_batch(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """In foreachBatch the batch's number is its txn.version: a batch that Spark runs again writes nothing.

    What the same tasks write at least once is in no transaction.
    """
    broker.admin.create_topic(topic, 2)
    broker.admin.create_topic(f"{topic}-audit", 2)
    more = exactly_once(topic, txn__app__id="copy")

    def write_batch(batch: DataFrame, number: int) -> None:
        for _ in range(2):
            write(batch, broker, "cohort", **more, txn__version=number)
        write(batch, broker, "cohort", topic=f"{topic}-audit")

    stream = LineStream(spark, tmp_path, broker, "cohort")
    stream.each_batch = write_batch
    stream.run("a", "b")
    stream.run("c")
    expected = Counter("abc")
    wait_until(lambda: seen(spark, broker, topic) == expected, 60, "two batches")
    wait_until(lambda: seen(spark, broker, f"{topic}-audit") == expected, 60, "two batches, at least once")


def test_a_job_that_is_run_again(spark: SparkSession, broker: Broker, topic: str) -> None:
    """Of a version that was written, or an older one, nothing is written; a newer one is."""
    broker.admin.create_topic(topic, 2)
    for version, value in ((7, "a"), (7, "again"), (6, "older"), (8, "b")):
        frame = spark.createDataFrame([(value,)], "value string")
        write(frame, broker, "cohort", **exactly_once(topic, txn__app__id="job", txn__version=version))
    wait_until(lambda: seen(spark, broker, topic) == Counter("ab"), 60, "two versions")


@pytest.mark.thorough("an executor that is killed: test_sink_failures.py has it at least once")
def test_an_executor_is_killed(application: Application, broker: Broker, topic: str) -> None:
    """In the middle of batches: each record is visible once, and no transaction of the dead stays open."""
    broker.fill(topic, RECORDS, PARTITIONS)
    copy = f"{topic}-copy"
    broker.admin.create_topic(copy, PARTITIONS)
    source = options(broker, topic, maxOffsetsPerTrigger=RECORDS // 10)
    sink = {"kafka.bootstrap.servers": broker.bootstrap, "topic": copy}
    sink |= {"delivery.guarantee": "exactly-once", "sink.id": copy}
    query = application.start(topic, source, trigger=AVAILABLE_NOW, sink=sink)
    query.wait(lambda: sum(broker.admin.ends(copy).values()) > RECORDS // 5, LIMIT_S, "some batches")
    os.kill(application.driver.executors()[1].pid, signal.SIGKILL)
    assert query.end() is None
    assert copied(held(broker.bootstrap, [topic]), held(broker.bootstrap, [copy])) == []
    assert left_open(sink) == []
    wait_until(lambda: len(application.driver.executors()) == 3, LIMIT_S, "another executor", every_s=0.25)


@contextmanager
def one_batch_committed(
    spark: SparkSession, broker: Broker, topic: str, folder: Path
) -> Iterator[tuple[LineStream, int, set[int]]]:
    """A query that runs and has written "0": its stream, the process that has committed it, and those of others; it is stopped."""
    broker.admin.create_topic(topic, 2)
    before = commit_processes()
    stream = LineStream(spark, folder, broker, "cohort", **exactly_once(topic))
    stream.trigger = ASAP
    query = stream.start("0")
    try:
        query.processAllAvailable()
        yield stream, new_process(before), before
    finally:
        query.stop()
    assert query.exception() is None


@pytest.mark.skipif(not reader_jar(), reason="the jar has the process")
def test_one_process_commits_all_batches_of_a_query(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """The next batch starts another one where it was killed."""
    with one_batch_committed(spark, broker, topic, tmp_path) as (stream, first, before):
        (query,) = spark.streams.active
        for line in "12":
            stream.add(line)
            query.processAllAvailable()
            assert new_process(before) == first
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: not psutil.pid_exists(first), 30, "the end of the process")
        stream.add("3")
        query.processAllAvailable()
        assert new_process(before) != first
    expected = Counter("0123")
    wait_until(lambda: seen(spark, broker, topic) == expected, 60, "four batches")


@pytest.mark.skipif(not reader_jar(), reason="the jar has the process")
def test_a_query_is_stopped_while_a_batch_is_committed(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """It stops without a failure; the process commits the batch and ends; the next start passes over it."""
    with one_batch_committed(spark, broker, topic, tmp_path) as (stream, process, _):
        freeze(process)
        stream.add("1")
        wait_until(lambda: has_unread_input(process), 60, "the second batch's commit")
    assert seen(spark, broker, topic) == Counter("0")
    os.kill(process, signal.SIGCONT)
    wait_until(lambda: seen(spark, broker, topic) == Counter("01"), 60, "the second batch")
    wait_until(lambda: not psutil.pid_exists(process), 30, "the end of the process")
    again = stream.start("2")
    try:
        again.processAllAvailable()
    finally:
        again.stop()
    wait_until(lambda: seen(spark, broker, topic) == Counter("012"), 60, "the third batch")


def test_the_committers_error_reaches_the_user(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Its name and what to do; nothing of the batch is visible."""
    broker.admin.create_topic(topic, 2)
    LineStream(spark, tmp_path / "one", broker, "cohort", **exactly_once(topic)).run("0")
    other = LineStream(spark, tmp_path / "other", broker, "cohort", **exactly_once(topic))
    text = error(lambda: other.run("1"))
    assert f"sink.id={topic} belongs to another query: batch 0 was decided by " in text
    assert f"cohort sink reset --sink-id {topic}" in text
    if reader_jar():
        assert "SINK_OF_OTHER_QUERY: sink.id=" in text
        assert "Traceback" not in text
    assert seen(spark, broker, topic) == Counter("0")
