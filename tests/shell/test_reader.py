"""Spark's calls to the reader, in Spark's order, on a real broker: when the group has what."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from pyspark.sql.streaming.datasource import ReadMaxRows

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell import options
from sparkcohort.streaming.reader import NO_LIMIT, CohortStreamReader
from tests.support.broker import Broker
from tests.support.produce import produce
from tests.support.waiting import wait_until

ALL = ReadMaxRows(NO_LIMIT)


class Calls:
    """Spark's stream runner: one thread, not the main one, which would take over its signals."""

    def __init__(self, reader: CohortStreamReader, thread: ThreadPoolExecutor) -> None:
        """Nothing is called yet."""
        self.reader, self._thread = reader, thread

    def __call__(self, name: str, *arguments: Any) -> Any:
        """What the reader answers; raises what it raises."""
        return self._thread.submit(getattr(self.reader, name), *arguments).result(60)


@contextmanager
def called(broker: Broker, topic: str) -> Iterator[Calls]:
    """A reader of the topic in the group of the topic's name."""
    said = {"kafka.bootstrap.servers": broker.bootstrap, "group.id": topic, "subscribe": topic}
    with ThreadPoolExecutor(1) as thread:
        calls = Calls(CohortStreamReader(options.parse({**said, "startingOffsets": "earliest"})), thread)
        try:
            yield calls
        finally:
            calls("stop")


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
            assert end == {topic: {"0": 10 * batch}}
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
