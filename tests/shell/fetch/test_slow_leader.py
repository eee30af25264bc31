"""A leader whose answer comes slowly is heard all the while: it is neither silent nor given up; one that stops is."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError

from sparkcohort.runtime.kafka.fetch_messages import FETCH, Node
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch import assigned_partition
from sparkcohort.runtime.shell.kafka.fetch.broker import FetchLink, FrameReader
from sparkcohort.runtime.shell.kafka.fetch.connection import MOST_EXPECTED
from sparkcohort.runtime.shell.kafka.fetch.events import Records
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.values.columns import KAFKA_ROW
from tests.kit.polled import complaint
from tests.kit.record_batches import Batch, Record, encode
from tests.kit.relay import Relay
from tests.kit.scripted_broker import Script, ScriptedBroker, fetched, partition
from tests.kit.waiting import wait_until

TP = TopicPartition("t", 0)
SIZE = MOST_EXPECTED + 100_000
DATA = encode(Batch(0, (Record(0, value=b"v" * SIZE),)))
RATE = 200_000  # bytes a second: a selector that waits for most of them is quiet for 2.6 s


@contextmanager
def fetching(
    script: Script, timeout_ms: int, said: bytes | None = None
) -> Iterator[tuple[ScriptedBroker, RecordSource]]:
    """A source of the partition, whose leader is heard through a slow relay; ``said``: see ``ScriptedBroker``."""
    with ScriptedBroker(script, said=said) as broker:
        way = Relay("127.0.0.1", int(broker.bootstrap.rpartition(":")[2]))
        way.rate(RATE)
        broker.shown_port = way.port
        conf = {"bootstrap.servers": broker.bootstrap, "socket.timeout.ms": timeout_ms}
        source = RecordSource(conf, columns=KAFKA_ROW)
        source.assign({TP: (0, 1)})
        try:
            yield broker, source
        finally:
            source.close()
            way.close()


def whole(number: int) -> bytes:
    """The record."""
    return fetched(number, partition(end=1, records=DATA))


def link_of(source: RecordSource) -> FetchLink | None:
    """To the leader, once it is known."""
    assert source._fetcher is not None
    return source._fetcher._links.get(1)


def filled(source: RecordSource) -> int:
    """How much there is of an answer, after another poll."""
    source.poll(0.05)
    link = link_of(source)
    return link.frames.filled if link is not None else 0


def test_a_slow_leader_is_never_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much more than has come a selector waits for."""
    monkeypatch.setattr(assigned_partition, "SLOW_S", 0.5)
    silent_s = list[float]()
    with fetching(whole, 60_000) as (broker, source):
        wait_until(lambda: filled(source), 20, "the answer's first bytes", every_s=0)
        while not any(isinstance(event, Records) for event in source.poll(0.05)):
            silent_s.append((source.silence() or {})[TP])
        assert max(silent_s) < 1
        assert broker.counts[FETCH] == 1


def test_a_slow_leader_is_not_given_up() -> None:
    """Its answer may take longer than socket.timeout.ms, and nobody may poll for as long; it is asked once."""
    with fetching(whole, 1_000) as (broker, source):
        wait_until(lambda: filled(source), 20, "the answer's first bytes", every_s=0)
        threading.Event().wait(2)
        wait_until(lambda: any(isinstance(event, Records) for event in source.poll(0.05)), 20, "the record", every_s=0)
        assert not source.complaints
        assert broker.counts[FETCH] == 1


def test_what_has_come_of_an_answer_is_read() -> None:
    """Also where the rest never comes: the time that the leader is given for it begins with the last byte."""
    with fetching(lambda _: bytes(100_000), 60_000, struct.pack(">i", SIZE)) as (_, source):
        wait_until(lambda: filled(source) == 100_004, 20, "all that has come to be read", every_s=0)
        assert not source.complaints


def test_a_part_of_an_answer_that_stops_is_given_up() -> None:
    """As is a leader that never answers."""
    with fetching(lambda _: bytes(100_000), 500, struct.pack(">i", SIZE)) as (_, source):
        assert complaint(source) == {KafkaError._TRANSPORT}
        assert "socket.timeout.ms" in source.last_error


def test_a_part_of_a_tls_record_is_heard() -> None:
    """OpenSSL keeps it until the record is whole, and it may take a slow leader seconds."""
    silent = cast("Any", SimpleNamespace(flush=lambda: True, recv_into=lambda _: 0, expect=lambda _: None))
    link = FetchLink(1, Node("h", 9092), "me", FrameReader(1 << 16, 1 << 16))
    link.transport = silent
    assert link.receive(7.0) is None
    assert (link.frames.filled, link.heard_at) == (0, 7.0)
