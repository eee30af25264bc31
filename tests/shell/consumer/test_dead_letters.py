"""Bad records at the seam of sources: in the dead letter topic as they came, before anything behind them is delivered."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer, Message
from confluent_kafka import TopicPartition as KafkaPartition

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.events import PartitionError, Records
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.shell.options.parse import parse
from sparkcohort.runtime.values.columns import Columns, UserColumn, chosen_columns
from sparkcohort.runtime.values.types import BIGINT, STRING, struct
from tests.kit.broker import Broker
from tests.kit.produce import FLUSH_TIMEOUT_S, producer
from tests.kit.record_sources import SOURCES, read_by
from tests.kit.tier import of_tier
from tests.kit.waiting import wait_until

NO_END = 2**63 - 1
AT_MS = int(time.time() * 1000) - 60_000
BAD_KEY = b"\xff no text"  # a key of strings is any bytes
HEADERS: list[tuple[str, str | bytes | None]] = [("trace", b"1"), ("trace", None)]


def letters_of(broker: Broker, topic: str) -> list[Message]:
    """All records of a topic of one partition, which is complete."""
    conf = {"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False}
    client = Consumer(conf)
    try:
        client.assign([KafkaPartition(topic, 0, 0)])
        count = broker.admin.ends(topic)[0]
        found: list[Message] = []

        def has_all() -> bool:
            found.extend(client.consume(100, 0.1))
            return len(found) >= count

        wait_until(has_all, 60, f"{count} dead letters")
        return found
    finally:
        client.close()


def columns(topic: str, **more: str) -> Columns:
    """The value alone, in part."""
    given = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "subscribe": topic,
        "group.id": topic,
        "key.format": "string",
        "value.format": "json",
        "value.schema": "id BIGINT, name STRING",
        "dead.letter.topic": f"{topic}-dead",
        **{name.replace("__", "."): text for name, text in more.items()},
    }
    asked = [UserColumn("value", struct({"id": BIGINT})), UserColumn("key", STRING)]
    return chosen_columns(asked, parse(given).columns)


def fill(broker: Broker, topic: str, values: list[tuple[int, bytes]]) -> None:
    """Values in partitions, with what else a record has."""
    client = producer(broker.bootstrap)
    for number, (partition, value) in enumerate(values):
        client.produce(topic, value, BAD_KEY, partition, headers=HEADERS, timestamp=AT_MS + number)
    assert client.flush(FLUSH_TIMEOUT_S) == 0


@pytest.mark.parametrize("source_name", of_tier(quick=SOURCES[:1], thorough=SOURCES))
@pytest.mark.parametrize("mode", of_tier(quick=["dropmalformed"], thorough=["permissive", "dropmalformed"]))
def test_a_partition_waits_until_its_bad_records_are_written(
    broker: Broker, topic: str, source_name: str, mode: str
) -> None:
    """Without the topic nothing of its batch is delivered, and others go on; then all is as it came."""
    broker.admin.create_topic(topic, 2)
    fill(broker, topic, [(0, b'{"id": 1}'), (0, b'{"id": "secret'), (1, b'{"id": 2}'), (0, b'{"id": 3}'), (0, b"[]")])
    bad, good = TopicPartition(topic, 0), TopicPartition(topic, 1)
    stands, values = dict.fromkeys((bad, good), 0), list[Any]()

    with read_by(source_name):
        source = RecordSource({"bootstrap.servers": broker.bootstrap}, columns=columns(topic, value__mode=mode))
    with closing(source):

        def read_to(partition: TopicPartition, end: int) -> bool:
            for event in source.poll(0.1):
                assert not isinstance(event, PartitionError)
                if isinstance(event, Records):
                    stands[event.tp] = event.next_offset
                    values.extend(event.batch.column("value").to_pylist() if event.batch is not None else [])
            return stands[partition] == end

        source.assign(dict.fromkeys(stands, (0, NO_END)))
        wait_until(lambda: read_to(good, 1) and source.last_error, 60, "the other partition")
        assert stands[bad] <= 1  # librdkafka may give the first record by itself
        assert f"can't be written to {topic}-dead (dead.letter.topic)" in source.last_error
        assert "there is no such topic: create it" in source.last_error
        assert source.malformed == {}  # they are counted when they are passed
        broker.admin.create_topic(f"{topic}-dead")
        wait_until(lambda: read_to(bad, 4), 60, "the bad records to be passed")
        assert source.malformed.total() == 2
    nulls = [None, None] if mode == "permissive" else []
    assert sorted((value or {}).get("id", 0) for value in values) == [*(0 for _ in nulls), 1, 2, 3]
    found = {(each.value(), each.timestamp()[1]): each for each in letters_of(broker, f"{topic}-dead")}
    assert set(found) == {(b'{"id": "secret', AT_MS + 1), (b"[]", AT_MS + 4)}
    for (_, at_ms), letter in found.items():
        assert letter.key() == BAD_KEY
        headers: list[Any] = list(letter.headers() or ())
        own, added = headers[:2], dict(headers[2:])
        assert own == HEADERS
        message = added.pop("__connect.errors.exception.message")
        assert message
        assert b"secret" not in message
        assert added == {
            "__connect.errors.topic": topic.encode(),
            "__connect.errors.partition": b"0",
            "__connect.errors.offset": b"1" if at_ms == AT_MS + 1 else b"3",
            "__connect.errors.stage": b"VALUE_CONVERTER",
            "__connect.errors.exception.class.name": b"syntax" if at_ms == AT_MS + 1 else b"not_object",
        }
