"""A leader whose answer comes slowly is heard all the while: it is neither silent nor given up; one that stops is."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from sparkcohort.runtime.kafka.fetch_messages import FETCH, Node
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch import assigned_partition
from sparkcohort.runtime.shell.kafka.fetch.broker import BrokerLink, FrameReader
from sparkcohort.runtime.shell.kafka.fetch.connection import MOST_EXPECTED, Transport
from sparkcohort.runtime.shell.kafka.fetch.record_source import Records
from sparkcohort.runtime.shell.kafka.fetch.source import FetchSource
from sparkcohort.runtime.values.columns import KAFKA_ROW
from tests.kit.certificates import Authority
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
) -> Iterator[tuple[ScriptedBroker, FetchSource]]:
    """A source of the partition, whose leader is heard through a slow relay; ``said``: see ``ScriptedBroker``."""
    with ScriptedBroker(script, said=said) as broker:
        way = Relay("127.0.0.1", int(broker.bootstrap.rpartition(":")[2]))
        way.rate(RATE)
        broker.shown_port = way.port
        conf = {"bootstrap.servers": broker.bootstrap, "socket.timeout.ms": timeout_ms}
        source = FetchSource(conf, columns=KAFKA_ROW)
        source.assign({TP: (0, 1)})
        try:
            yield broker, source
        finally:
            source.close()
            way.close()


def whole(number: int) -> bytes:
    """The record."""
    return fetched(number, partition(end=1, records=DATA))


def link_of(source: FetchSource) -> BrokerLink[tuple[assigned_partition.Partition, int]] | None:
    """To the leader, once it is known."""
    assert source._fetcher is not None
    return source._fetcher._links.get(1)


def filled(source: FetchSource) -> int:
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


def secured(
    directory: Path, theirs: socket.socket, ours: socket.socket
) -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.SSLSocket]:
    """A connection of TLS: the server, what it has to send, and the client's end."""
    authority = Authority(directory)
    identity = directory / "identity.pem"
    identity.write_text(authority.identity("h").pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity)
    came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(came, goes, server_side=True)
    trusting = ssl.create_default_context(cafile=authority.path)
    client = trusting.wrap_socket(ours, do_handshake_on_connect=False, server_hostname="h")
    shaking = threading.Thread(target=client.do_handshake)
    shaking.start()
    while shaking.is_alive() or goes.pending:
        with suppress(ssl.SSLWantReadError):
            server.do_handshake()
        theirs.sendall(goes.read())
        with suppress(TimeoutError):
            came.write(theirs.recv(1 << 16))
    shaking.join()
    return server, goes, client


def test_a_part_of_a_tls_record_is_heard(tmp_path: Path) -> None:
    """OpenSSL keeps it until the record is whole, and it may take a slow leader seconds."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(0.1)
    with theirs:
        server, goes, client = secured(tmp_path, theirs, ours)
        link = BrokerLink[int](1, Node("h", 9092), "me", FrameReader(1 << 16, 1 << 16))
        link.connected(Transport("h:9092", client, {}, float("inf"), ""), 0.0)
        assert link.receive(0.0) is None  # the session's tickets
        link.send(b"", {}, time.monotonic())
        server.write(struct.pack(">i", 1_000) + bytes(1_000))
        record = goes.read()
        for now, piece in ((1.0, record[:300]), (2.0, record[300:600])):
            theirs.sendall(piece)
            assert link.readable()
            assert link.receive(now) is None
            assert (link.frames.filled, link.heard_at) == (0, now)
        theirs.sendall(record[600:])
        assert bytes(link.receive(3.0) or b"") == bytes(1_000)
        link.disconnect()
