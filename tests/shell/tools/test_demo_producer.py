"""The demo's producer and its books, on the demo's embedded broker."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import islice

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.kit.mock import MockCluster
from tests.kit.waiting import wait_until
from tools.demo import flights
from tools.demo.producer import FlightProducer

PARTITIONS = 12


@pytest.fixture
def bootstrap(mock_broker: MockCluster) -> str:
    """The address of a broker with the demo's topic."""
    mock_broker.create_topic("flights", PARTITIONS)
    return mock_broker.bootstrap


def columns(value: bytes) -> int:
    """The checksum of what is inside of a value."""
    said = json.loads(value)
    said["time_hour"] = int(datetime.fromisoformat(said["time_hour"]).timestamp())
    return flights.checksum(said.values())


def read(bootstrap: str, count: int) -> dict[int, dict[int, int]]:
    """Checksums of the columns by partition and offset, as a consumer of its own reads them."""
    conf = {"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0}
    consumer = Consumer(conf)
    found: dict[int, dict[int, int]] = {number: {} for number in range(PARTITIONS)}
    try:
        consumer.assign([TopicPartition("flights", number, 0) for number in found])
        while sum(map(len, found.values())) < count:
            for message in consumer.consume(1000, 0.5):
                found[message.partition() or 0][message.offset() or 0] = columns(message.value() or b"")
    finally:
        consumer.close()
    return found


def test_the_books_are_what_the_broker_has(bootstrap: str) -> None:
    """Partition, offset and checksum of each flight, of the first part and of those written in the background."""
    producer = FlightProducer(bootstrap, "flights", PARTITIONS, at_once=3_000, rate=20_000)
    producer.fill()
    assert producer.count == 3_000
    producer.start()
    wait_until(lambda: producer.count > 5_000, 30, "flights in the background")
    producer.stop()
    assert producer.error is None
    assert read(bootstrap, producer.count) == producer.acknowledged
    written = {flight.checksum for flight in islice(flights.events(), producer.count)}
    assert {checksum for offsets in producer.acknowledged.values() for checksum in offsets.values()} == written
