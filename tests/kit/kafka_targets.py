"""What comes from Kafka's brokers and is read in Python, as targets of ``targets``; what brokers say is in their corpora."""

from __future__ import annotations

import hashlib
import hmac
import socket
import time
from base64 import b64encode
from contextlib import suppress

from sparkcohort.runtime.kafka import cluster_messages, handover, run_epoch, sasl
from sparkcohort.runtime.kafka.fetch_messages import (
    MOST_UNUSABLE,
    MalformedResponse,
    Node,
    address_error,
    fetch_answer,
    metadata_answer,
)
from sparkcohort.runtime.kafka.produce_messages import ProducerIdQuestion
from sparkcohort.runtime.kafka.produce_progress import BatchProgress, RetryLimits, judge
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch import connection
from sparkcohort.runtime.shell.kafka.fetch.broker import MOST_THROTTLE_S, FrameReader
from sparkcohort.runtime.shell.kafka.fetch.connection import Transport
from sparkcohort.runtime.shell.kafka.produce.produce_link import ProduceLink
from sparkcohort.runtime.shell.options.connection_settings import Settings, TransportError
from tests.kit.parts import Read, decoder
from tests.kit.record_batches import LOG_APPEND_TIME, Batch, compressed, framed
from tests.kit.targets import Target

# --- answers --------------------------------------------------------------------------------------


def metadata(data: bytes) -> None:
    """Brokers that are left have addresses; what is wrong with others is said of a few, on a line each."""
    with suppress(MalformedResponse):
        found = metadata_answer(bytearray(data), len(data), 9)
        assert not any(address_error(*node) for node in found.nodes.values())
        assert len(found.unusable) <= MOST_UNUSABLE
        assert all(words.isprintable() and len(words) < 500 for words in found.unusable)
        assert all(len(topic.topic_id) == 16 for topic in found.topics.values())


def fetched(data: bytes) -> None:
    """Batches lie inside of the answer, in the order of the partitions."""
    with suppress(MalformedResponse):
        at = 0
        for each in fetch_answer(memoryview(bytearray(data)), len(data), 9).partitions:
            assert at <= each.start <= each.end <= len(data)
            at = each.end


def epoch_ends(data: bytes) -> None:
    """One error at most."""
    with suppress(MalformedResponse):
        cluster_messages.EpochEndsQuestion({}).read(bytearray(data), 9)


SENT = [TopicPartition("a", 0), TopicPartition("a", 3)]
RETRIES = RetryLimits(5, 0.1, 1.0)


def produced(data: bytes) -> None:
    """A version, then the answer to what was sent: each partition is judged, or is under way as before.  ``i``: of a producer id."""
    version, frame = data[:1], data[1:]
    if version == b"i":
        with suppress(MalformedResponse):
            ProducerIdQuestion().read(bytearray(frame), 9)
        return
    ours, theirs = socket.socketpair()
    with ours, theirs:
        link, answered = ProduceLink(1, Node("h", 1), 1 << 16), []
        link.connected(Transport("h:1", ours, {}, float("inf"), ""), 0.0)
        link.in_flight[9] = (0.0, 8 if version == b"8" else 9, SENT)
        theirs.sendall(len(frame).to_bytes(4) + frame)
        with suppress(MalformedResponse, TransportError):
            answer = link.receive_answer(1.0)
            assert answer is not None
            answered, partitions = answer[0], answer[1].partitions
            verdicts = [judge(BatchProgress(2, 99.0), each.error, 1.0, RETRIES) for each in partitions.values()]
            assert all(verdict.batch.not_before <= 2.0 for verdict in verdicts)
            assert 0.0 <= link.not_before <= 1.0 + MOST_THROTTLE_S
        assert answered + link.take_in_flight() == SENT


# --- connections ----------------------------------------------------------------------------------

LOGIN = Settings.parse(
    {
        "bootstrap.servers": "h",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "u",
        "sasl.password": "p",
    }
)


def login(data: bytes) -> None:
    """A connection is made, or an error says why not."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        setup = connection._Setup("h", "h:1", LOGIN, time.monotonic() + 10, socket.AF_INET)
        setup._socket.close()
        setup._socket = ours
        with suppress(TransportError, MalformedResponse):  # ``run`` makes one of the other
            setup._login(setup._versions())


def frames(data: bytes) -> None:
    """Answers come whole and in order, or an error; no more memory is taken than one may have."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        transport, reader = Transport("h:1", ours, {}, 0.0, ""), FrameReader(1 << 16, 1 << 12)
        with suppress(TransportError):
            at = 0
            for piece in (data[:3], data[3:9], data[9:]):
                if piece:
                    theirs.sendall(piece)
                while (answer := reader.read(transport)) is not None:
                    assert bytes(answer) == data[at + 4 : at + 4 + len(answer)]
                    at += 4 + len(answer)
            assert reader.filled == len(data) - at


# --- logins ---------------------------------------------------------------------------------------

NONCE = "nonce"
CHALLENGE = b"r=nonce1,s=c2FsdA==,i=4096"
SIGNED = b"SIGNED"
MOST_DIGITS = 4  # of the iterations that are fed: more is as slow as it is meant to be


def scram(data: bytes) -> None:
    """The server's two messages; only who knows the password is believed: its signature stands for ``SIGNED``."""
    first, _, final = data.partition(b"\n")
    if any(part[:2] == b"i=" and len(part) > 2 + MOST_DIGITS for part in first.split(b",")) and first != CHALLENGE:
        return
    login, believed = sasl.scram("sha256", "u", "p", NONCE), False
    begun = next(login)
    with suppress(sasl.LoginRefused):
        proof = login.send(first)
        signature = b64encode(_signature(begun[3:], first, proof.rpartition(b",p=")[0]))
        try:
            login.send(final.replace(SIGNED, signature))
        except StopIteration:
            believed = True
        assert believed
        assert signature in final.replace(SIGNED, signature)


def _signature(bare: bytes, first: bytes, unproven: bytes) -> bytes:
    told = dict(part.split(b"=", 1) for part in first.split(b",") if b"=" in part)
    salted = hashlib.pbkdf2_hmac("sha256", b"p", sasl._binary(told[b"s"]), int(told[b"i"]))
    return hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), b",".join((bare, first, unproven)), "sha256")


def bearer(data: bytes) -> None:
    """A refusal in words, or the end."""
    login = sasl.bearer("token", {"a": "b"})
    next(login)
    with suppress(sasl.LoginRefused, StopIteration):
        login.send(data)
        login.send(b"")


# --- what stands in commits -----------------------------------------------------------------------

RUN = run_epoch.CommitMetadata(7, 7000, "id", "pin", "plan", "topic", "host")
PARKED = handover.HandoverRecord(handover.HandoverAnswer.PARKED, "me", 7, "id", "text")


def run_records(data: bytes) -> None:
    """Any text is a record; what is written of one is read as it was, and is shorter than Kafka allows."""
    text = data.decode(errors="surrogateescape")
    found = run_epoch.decode(text)
    assert 0 <= found.run < run_epoch.MOST
    assert found.host.isprintable()
    assert run_epoch.decode(run_epoch.encode(found)) == found
    assert run_epoch.latest([text, "{}"]).run == found.run


def handovers(data: bytes) -> None:
    """A record or none; what is written of one is read as it was."""
    found = handover.decode_handover(data.decode(errors="surrogateescape"))
    if found is not None:
        assert handover.decode_handover(handover.encode_handover(found)) == found


# --- records --------------------------------------------------------------------------------------

LONG = 3 << 19
LIMITS = ((1_000, 1 << 20, 1 << 20), (2, 100, 1), (1_000, 1 << 20, 64))


def batches(data: bytes) -> None:
    """Records or bytes that are to be some, by a real codec: rows that are whole, or a fault that stays; see ``parts.Read``."""
    if len(data) < 3:
        return
    how, number, body = data[0], data[1] % 5, data[2:]
    if how & 1:  # the body is records, to be compressed; else it is what a codec is given
        many = LONG // len(body) if how & 32 else 1  # so that it is too much for one go
        body = compressed(number, body * many, xerial=bool(how & 2))
    batch = Batch(0, codec=number, count=1 + how % 7, last=9, attributes=LOG_APPEND_TIME if how & 4 else 0)
    limit, nbytes, window = LIMITS[how >> 3 & 3] if how >> 3 & 3 < 3 else LIMITS[0]
    Read(framed(batch, body), 0, 8, limit=limit, nbytes=nbytes, by=decoder(window=window, largest=1 << 20))


BY_CODECS = Target("codecs", batches, words=(b"\x82SNAPPY\0", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"\x1f\x8b"))
TARGETS = (
    Target("metadata", metadata),
    Target("fetched", fetched),
    Target("epoch_ends", epoch_ends),
    Target("produced", produced, words=(b"8", b"9", b"i")),
    Target("login", login),
    Target("frames", frames),
    Target("scram", scram, words=(SIGNED, CHALLENGE, b"m=", b"e=", b"i=9999")),
    Target("bearer", bearer),
    Target("run_epoch", run_records, lambda: [run_epoch.encode(RUN).encode()]),
    Target("handover", handovers, lambda: [handover.encode_handover(PARKED).encode()]),
)
