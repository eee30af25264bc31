"""Tokens that a user's function makes: every kind of client logs in with them, and goes on with the next ones."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.kafka import clients, errors, tokens
from sparkcohort.runtime.shell.kafka.consumer.native_source import NativeSource
from sparkcohort.runtime.shell.kafka.consumer.python_source import PythonSource
from sparkcohort.runtime.shell.kafka.consumer.range_reader import FetchError, RangeReader
from sparkcohort.runtime.shell.kafka.consumer.record_source import Records, RecordSource
from sparkcohort.runtime.shell.kafka.fetch.source import FetchSource
from sparkcohort.runtime.shell.kafka.token_provider import NoToken
from sparkcohort.runtime.values.columns import KAFKA_ROW
from tests.kit.broker import Broker
from tests.kit.produce import produce
from tests.kit.tokens import Desk, token, token_conf
from tests.kit.waiting import wait_until

TP = TopicPartition("t", 0)
NO_END = 2**63 - 1
LIFE_S = 5.0
KINDS = {"ours": FetchSource, "librdkafka": NativeSource, "python": PythonSource}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker that wants to see a token again before it ends, and every 60 s."""
    more = {"connections.max.reauth.ms": "60000", "connection.failed.authentication.delay.ms": "0"}
    with Broker(tokens=True, properties=more) as one:
        one.admin.create_topic("t")
        one.admin.allow("alice", "topic", "t", "read", "describe")
        one.admin.allow("alice", "group", "g", "read", "describe")
        yield one


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Tokens that live for five seconds."""
    return Desk(tmp_path, lifetime_s=LIFE_S)


def polled(source: RecordSource, until: Callable[[int], bool]) -> list[int]:
    """The offsets of what comes, until ``until`` says so of the next offset, or a minute is over."""
    found: list[int] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not until(found[-1] + 1 if found else 0):
        for event in source.poll(0.1):
            if isinstance(event, Records) and event.batch is not None:
                found += event.batch.column("offset").to_pylist()
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_that_end_while_records_are_read(broker: Broker, desk: Desk, kind: str) -> None:
    """Four lives of a token: nothing is lost or comes twice, and nobody but the one thread asks for tokens."""
    conf = token_conf(broker.at["SASL_PLAINTEXT"], desk)
    start = broker.admin.log_end("t", 0) if hasattr(broker.admin, "log_end") else 0
    before = len(desk.calls())
    source = KINDS[kind](conf, columns=KAFKA_ROW)
    source.assign({TP: (start, NO_END)})
    ends, made = time.monotonic() + 4 * LIFE_S, 0
    got: list[int] = []
    try:
        while time.monotonic() < ends:
            produce(broker.bootstrap, "t", 10, partitions=1)
            made += 10
            want = (got[-1] + 1 if got else start) + 10
            got += polled(source, lambda at, want=want: at >= want)
    finally:
        source.close()
    assert got == list(range(got[0], got[0] + made))
    assert 4 <= len(desk.calls()) - before <= 9
    assert source.complaints <= {KafkaError._TRANSPORT}, source.last_error


def test_the_drivers_clients(broker: Broker, desk: Desk) -> None:
    """A consumer and an administrator share a token; both go on behind its end, polled or not."""
    conf = token_conf(broker.at["SASL_PLAINTEXT"], desk)
    refused: list[KafkaError] = []
    consumer, admin = clients.new_consumer(conf, refused.append), clients.new_admin(conf)
    assert len(desk.calls()) == 1
    ends = time.monotonic() + 3 * LIFE_S
    while time.monotonic() < ends:
        assert "t" in consumer.list_topics("t", timeout=10).topics
        assert admin.describe_cluster(request_timeout=10).result(10).nodes
        threading.Event().wait(0.5)
    consumer.poll(0)
    assert [each for each in refused if each.code() in errors.AUTHENTICATION] == []
    assert 3 <= len(desk.calls()) <= 7
    consumer.close()
