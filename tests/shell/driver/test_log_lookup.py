"""What only metrics want to know of the logs: where they start, and when records were written that nobody has fetched."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from sparkcohort.runtime.batches import open_transactions
from sparkcohort.runtime.batches.record_ages import FirstRecord
from sparkcohort.runtime.kafka.cluster_messages import MetadataQuestion
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver import log_lookup
from sparkcohort.runtime.shell.driver.discovery import Layout
from sparkcohort.runtime.shell.driver.log_lookup import LogLookup
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.kafka.fetch.first_answers import FirstRecords
from sparkcohort.runtime.shell.options.parse import parse
from tests.kit.broker import Broker
from tests.kit.produce import abort, open_transaction, produce, transact
from tests.kit.waiting import hold_for, wait_until
from tests.shell.driver.test_log_ends import log_ends

OPTIONS = {"subscribe": "t", "group.id": "g", "kafka.isolation.level": "read_committed"}
EARLIER_MS = int(time.time() * 1000) - 3_600_000


class Heard:
    """What a lookup has told."""

    def __init__(self) -> None:
        self.times: dict[TopicPartition, FirstRecord] = {}

    def __call__(self, found: FirstRecords) -> None:
        """Keep it."""
        self.times |= dict(found)


@pytest.fixture
def heard() -> Heard:
    """Nothing yet."""
    return Heard()


@pytest.fixture
def lookup(broker: Broker, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> Iterator[LogLookup]:
    """One that reads what is committed, without pauses worth mentioning."""
    monkeypatch.setattr(log_lookup, "GAP_S", 0.2)
    conf = {"bootstrap.servers": broker.bootstrap, "isolation.level": "read_committed"}
    client = ClusterClient(conf)
    client.metadata(MetadataQuestion(()), 30)
    made = LogLookup(conf, heard, client)
    yield made
    made.close()
    client.close()


def layout(topic: str, partitions: int) -> Layout:
    """All led by the only broker."""
    return Layout({TopicPartition(topic, number): 1 for number in range(partitions)})


def test_starts_and_times(broker: Broker, topic: str, lookup: LogLookup, heard: Heard) -> None:
    """The first available offset of each log, and the time of the first record that is visible from a position on."""
    first, second, empty = (TopicPartition(topic, number) for number in range(3))
    broker.admin.create_topic(topic, 3)
    produce(broker.bootstrap, topic, 20, partitions=2, timestamp_ms=EARLIER_MS)
    abort(broker.bootstrap, topic, 5, partition=1)  # to offset 15, and a mark
    transact(broker.bootstrap, topic, 1, partition=1)
    broker.admin.delete_records(topic, {0: 4})
    wanted = {first: 6, second: 10, empty: 0}

    def known() -> bool:
        lookup.want(layout(topic, 3), wanted)
        return lookup.starts() == {first: 4, second: 0, empty: 0} and heard.times.keys() >= {first, second}

    wait_until(known, 30, "an answer")
    assert heard.times[first] == FirstRecord(6, 6, EARLIER_MS)
    position, offset, written_ms = heard.times[second]
    assert (position, offset) == (10, 16), "the aborted records and their mark lie before it"
    assert abs(written_ms - time.time() * 1000) < 60_000
    assert empty not in heard.times


def test_an_open_transaction_is_told_of(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody has to ask: what waits behind it, for how long, and one warning; and it is over when the transaction is."""
    monkeypatch.setattr(log_lookup, "GAP_S", 0.2)
    monkeypatch.setattr(open_transactions, "STANDS_MS", 1_000)
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 10, partitions=2)
    held = TopicPartition(topic, 1)
    with log_ends(broker.bootstrap, subscribe=topic, kafka__isolation__level="read_committed") as ends:
        ends.start()
        lookup = LogLookup(
            parse({**OPTIONS, "kafka.bootstrap.servers": broker.bootstrap}).kafka, Heard(), ends.client, ends
        )
        lookup.start()
        try:
            hold_for(lambda: not lookup.open_transactions(), 3, "nothing open")
            client = open_transaction(broker.bootstrap, topic, 5, 12, partition=1)
            produce(broker.bootstrap, topic, 4, partitions=2, first=12)
            wait_until(lambda: lookup.open_transactions().get(held, (0, 0))[0] == 9, 60, "what waits")
            first = lookup.open_transactions()
            assert first.keys() == {held}
            wait_until(lambda: lookup.open_transactions()[held].seconds > first[held].seconds + 1, 60, "its age")
            client.commit_transaction(30)
            wait_until(lambda: not lookup.open_transactions(), 60, "its end")
        finally:
            lookup.close()
    (warning,) = [each.getMessage() for each in caplog.records if each.name == "sparkcohort.log_lookup"]
    assert warning.startswith(f"{topic}-1: open transactions hold ")
    assert "kafka-transactions find-hanging" in warning
