"""Spark's calls to the reader, in Spark's order, on a real broker: when the group has what."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from sparkcohort.runtime.batches import hold, suspected_loss
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.error_codes import UNREACHABLE
from sparkcohort.runtime.shell.driver import async_progress
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from tests.kit.broker import Broker
from tests.kit.calls import ALL, called
from tests.kit.produce import produce
from tests.kit.waiting import wait_until


def committed(broker: Broker, topic: str) -> int:
    """What the group has of partition 0."""
    client = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    (found,) = client.committed([KafkaPartition(topic, 0)], timeout=10)
    return int(found.offset)


def test_a_batch_is_committed_with_the_next_call(broker: Broker, topic: str) -> None:
    """Its end is in the group after the next ``latestOffset``, whether that finds more, or nothing."""
    broker.admin.create_topic(topic, 1)
    with called(broker, topic) as call:
        start = call("initialOffset")
        for batch in range(1, 3):
            produce(broker.bootstrap, topic, 10)
            end = call("latestOffset", start, ALL)
            assert end[topic] == {"0": 10 * batch}
            wait_until(lambda batch=batch: committed(broker, topic) == 10 * (batch - 1), 10, "the commit")  # type: ignore[misc]
            start = end
        assert call("latestOffset", start, ALL) == start
        assert committed(broker, topic) == 20  # an idle query has nothing to catch up with


def test_a_batch_is_committed_though_the_next_one_fails(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in Spark's commit log is committed before the query fails for what lies behind it."""
    broker.admin.create_topic(topic, 1)
    with called(broker, topic) as call:
        start = call("initialOffset")
        produce(broker.bootstrap, topic, 10)
        end = call("latestOffset", start, ALL)

        def fail(*_: Any) -> None:
            raise CohortError("no end")

        monkeypatch.setattr(call.reader, "_next_end", fail)
        with pytest.raises(Exception, match="no end"):
            call("latestOffset", end, ALL)
        wait_until(lambda: committed(broker, topic) == 10, 10, "the commit")


@pytest.mark.parametrize("trigger", ["available now", "once", "processing time"])
def test_tasks_are_told_of_the_batch_with_which_a_query_ends(broker: Broker, topic: str, trigger: str) -> None:
    """Of a bounded query's, and only when nothing is left before its end: behind any other there is use for agents."""
    broker.admin.create_topic(topic, 1)
    produce(broker.bootstrap, topic, 10)
    with called(broker, topic) as call:
        if trigger == "available now":
            call("prepareForTriggerAvailableNow")
        start, told = call("initialOffset"), []
        for most in (4, 4, 4):
            limit = ReadAllAvailable() if trigger == "once" else ReadMaxRows(most)
            end = call("latestOffset", start, limit)
            if end == start:
                break
            (slot, *_) = call("partitions", start, end)
            session = call.reader._session
            assert session is not None
            told.append(session.plans.claim(slot.plan_id, 0, None)[1].last)
            start = end
        assert told == {"available now": [False, False, True], "once": [True], "processing time": [False] * 3}[trigger]


THREAD = """
import subprocess, sys, threading
def run():
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
        file.write(sys.argv[1])
    print(subprocess.run([sys.executable, "-c", sys.argv[2]], capture_output=True, text=True, check=True).stdout, end="")
threading.Thread(target=run).start()
"""
ASKS = "from sparkcohort.runtime.shell.driver.async_progress import may_be_async; print(may_be_async())"


@pytest.mark.parametrize(("thread", "late"), [("async-log-write", "True"), ("stream execution", "False")])
def test_logs_written_in_the_background_are_seen(thread: str, late: str) -> None:
    """By the thread that Spark has for it, in whichever process above."""
    command = [sys.executable, "-c", THREAD, thread, ASKS]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == late


def test_what_no_log_has_yet_is_not_committed(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With asynchronous progress Spark asks on from batches that no log has; ``commit`` comes when they have them."""
    monkeypatch.setattr(async_progress, "may_be_async", lambda: True)
    broker.admin.create_topic(topic, 1)
    ends = []
    with called(broker, topic) as call:
        start = call("initialOffset")
        for _ in range(3):
            produce(broker.bootstrap, topic, 10)
            ends.append(call("latestOffset", start, ALL))
            call("partitions", start, ends[-1])
            start = ends[-1]
        assert call("latestOffset", start, ALL) == start
        assert committed(broker, topic) == 0
        call("commit", ends[1])
        wait_until(lambda: committed(broker, topic) == 20, 10, "the commit")
        assert call("latestOffset", start, ALL) == start
        assert committed(broker, topic) == 20
    with called(broker, topic) as call:  # a checkpoint's offsets are in its logs
        call("latestOffset", ends[1], ALL)
        call("latestOffset", start, ALL)
        wait_until(lambda: committed(broker, topic) == 30, 10, "the commit")


def test_a_bounded_query_does_not_wait_for_ever_for_a_loss(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that was cut, and nobody who tells where it begins: an error that names the partition, within the time-out."""
    broker.admin.create_topic(topic, 1)
    produce(broker.bootstrap, topic, 10)

    def nobody(*_: Any) -> None:
        raise CohortError("no answer", UNREACHABLE)

    monkeypatch.setattr(suspected_loss, "LAG_S", 0.2)
    monkeypatch.setattr(hold, "LAG_S", 0.2)
    monkeypatch.setattr(LogEnds, "beginnings", nobody)
    with called(broker, topic, failOnDataLoss="false", unreachable__timeout__ms="1000") as call:
        call("prepareForTriggerAvailableNow")
        with pytest.raises(CohortError, match=r"unreachable.timeout.ms\) .*-0 \(the start of its log is unknown\)"):
            call("latestOffset", {topic: {"0": 50}}, ALL)
