"""Brokers without topic ids: our own client fetches by names, in Fetch v12 or v11, and nothing is lost, doubled or altered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from sparkcohort.runtime.kafka.fetch_messages import FETCH, METADATA
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.events import Records
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.values.columns import KAFKA_ROW
from tests.kit import delivery
from tests.kit.broker import Broker, Port
from tests.kit.older_relay import OlderRelay
from tests.kit.produce import abort, produce, transact
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.thorough("a broker of its own that speaks older versions")

NO_END = 2**63 - 1
PARTITIONS = 3
LIVES = ((11, 7, 11), (12, 9, 12), (17, 13, 13), (12, 12, 12), (11, 7, 11))
"""What a broker speaks of Fetch and of Metadata, one after the other, and the version of Fetch that it is asked by."""


class Old:
    """A broker behind a relay that makes it older."""

    def __init__(self) -> None:
        """Choose ports."""
        self.port = Port("127.0.0.1")
        self.relay = OlderRelay("127.0.0.1", self.port.number)
        self.broker = Broker(doors={"RELAYED": (self.port.number, self.relay.port)})
        self.bootstrap = f"127.0.0.1:{self.relay.port}"

    def speak(self, fetch: int, metadata: int) -> None:
        """From the next connection on; the connections that there are end."""
        self.relay.most = {FETCH: fetch, METADATA: metadata}
        self.relay.cut()
        self.relay.versions.clear()


@pytest.fixture(scope="module")
def old() -> Iterator[Old]:
    """One broker for all tests here."""
    made = Old()
    with made.broker:
        yield made
    made.relay.close()
    made.port.close()


def drained(source: RecordSource, ends: dict[TopicPartition, int]) -> pa.Table:
    """All records up to these ends, as the delivery checker has them."""
    stands: dict[TopicPartition, int] = dict.fromkeys(ends, 0)
    rows: list[tuple[Any, ...]] = []

    def reached() -> bool:
        for event in source.poll(0.1):
            assert isinstance(event, Records) or not hasattr(event, "error"), event
            if not isinstance(event, Records):
                continue
            stands[event.tp] = event.next_offset
            for row in event.batch.to_pylist() if event.batch is not None else ():
                size, crc = delivery.measured(row["key"], row["value"])
                rows.append((event.tp.topic, event.tp.partition, row["offset"], size, crc, 0))
        return all(stands[tp] >= end for tp, end in ends.items())

    wait_until(reached, 60, "all records", every_s=0)
    return delivery.table(rows, delivery.DELIVERED)


@pytest.mark.parametrize(
    ("fetch", "metadata", "version"), [(12, 12, 12), (12, 9, 12), (11, 9, 11), (11, 7, 11), (13, 9, 12)]
)
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_everything_comes(old: Old, topic: str, fetch: int, metadata: int, version: int, isolation: str) -> None:
    """All records of several partitions, with sessions, transactions and compression; the client stays ours."""
    old.speak(fetch, metadata)
    old.broker.admin.create_topic(topic, PARTITIONS)
    produce(old.broker.bootstrap, topic, 3_000, partitions=PARTITIONS, compression="zstd")
    transact(old.broker.bootstrap, topic, 300, partition=1)
    abort(old.broker.bootstrap, topic, 300, partition=1)
    produce(old.broker.bootstrap, topic, 3_000, partitions=PARTITIONS, first=1_000)
    ends = {TopicPartition(topic, n): end for n, end in old.broker.admin.ends(topic).items()}
    source = RecordSource({"bootstrap.servers": old.bootstrap, "isolation.level": isolation}, columns=KAFKA_ROW)
    try:
        source.assign(dict.fromkeys(ends, (0, NO_END)))
        found = drained(source, ends)
        assert source.tells_ids is (metadata >= 12)
        assert source._fetcher is not None
    finally:
        source.close()
    assert old.relay.versions[FETCH] == {version}
    expected = delivery.held(old.broker.bootstrap, [topic], {"isolation.level": isolation})
    delivery.check(found, expected).assert_exact()


def test_a_broker_that_is_upgraded(old: Old, topic: str) -> None:
    """By names before, by ids after: the sessions change with the connections, and reading goes on where it stands."""
    old.speak(11, 7)
    old.broker.admin.create_topic(topic)
    source = RecordSource(
        {"bootstrap.servers": old.bootstrap, "topic.metadata.refresh.interval.ms": 500}, columns=KAFKA_ROW
    )
    tp, offsets = TopicPartition(topic, 0), list[int]()

    def arrived() -> bool:
        for event in source.poll(0.1):
            if isinstance(event, Records) and event.batch is not None:
                offsets.extend(event.batch.column("offset").to_pylist())
        return len(offsets) >= end and version in old.relay.versions[FETCH]

    try:
        source.assign({tp: (0, NO_END)})
        for number, (fetch, metadata, version) in enumerate(LIVES, 1):
            end = 100 * number
            old.speak(fetch, metadata)
            produce(old.broker.bootstrap, topic, 100, partitions=1)
            wait_until(arrived, 60, f"records by Fetch v{version}", every_s=0)
        assert offsets == list(range(500))
        assert source._fetcher is not None
    finally:
        source.close()
