"""What comes from Kafka's brokers and is read in Python, as targets of ``targets``."""

from __future__ import annotations

import hashlib
import hmac
import socket
import struct
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress

from sparkcohort.runtime.kafka import cluster_messages, handover, run_epoch, sasl
from sparkcohort.runtime.kafka.fetch_messages import (
    MOST_UNUSABLE,
    MalformedResponse,
    address_error,
    fetch_answer,
    metadata_answer,
    varint,
)
from sparkcohort.runtime.shell.kafka.fetch import connection
from sparkcohort.runtime.shell.kafka.fetch.broker import FrameReader
from sparkcohort.runtime.shell.kafka.fetch.connection import Transport
from sparkcohort.runtime.shell.options.connection_settings import Settings, TransportError
from tests.kit.parts import Read, decoder
from tests.kit.record_batches import CODECS, LOG_APPEND_TIME, Batch, Record, compressed, encoded, framed
from tests.kit.targets import Target

ID = bytes(range(16))


def _int(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


def _long(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}q", *numbers)


# --- answers --------------------------------------------------------------------------------------

HEAD = b"\0\0\0\x09\0\0\0\0\0"  # the answer to request 9, no tags, no throttling
NODES = b"\3" + _int(1) + b"\2h" + _int(9092) + b"\0\0" + _int(2) + b"\3h2" + _int(70_000) + b"\3r2\0"
LEADERS = (
    b"\3\0\0" + _int(0, 1, 7) + b"\2" + _int(1) + b"\2" + _int(1) + b"\1\0" + b"\0\5" + _int(1, -1, -1) + b"\0\0\0\0"
)
METADATA = HEAD + NODES + b"\0" + _int(1) + b"\2\0\0\2t" + ID + b"\0" + LEADERS + _int(-1) + b"\0\0"
SHARE = (
    _int(0)
    + b"\0\0"
    + _long(9, 8, 0)
    + b"\2"
    + _long(11, 5)
    + b"\0"
    + _int(-1)
    + b"\5data\1\0\x0d"
    + _int(4)
    + _long(6)
)
FETCHED = (
    HEAD
    + b"\0\0"
    + _int(5)
    + b"\2"
    + ID
    + b"\3"
    + SHARE
    + _int(1)
    + b"\0\1"
    + _long(0, 0, 0)
    + b"\0"
    + _int(2)
    + b"\0\0\0\0"
)
EPOCHS = HEAD + b"\2\2t\3\0\0" + _int(0, 4) + _long(60) + b"\0\0\1" + _int(1, -1) + _long(-1) + b"\0\0\0"


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
VERSIONS = [(1, 4, 13), (3, 0, 12), (17, 0, 1), (36, 0, 1)]


def _framed(body: bytes) -> bytes:
    return _int(len(body)) + body


def logins() -> Iterator[bytes]:
    """What brokers say to whoever connects: new ones, an old one, some that refuse."""
    told = b"".join(struct.pack(">hhhx", *each) for each in VERSIONS)
    new = _framed(_int(1) + b"\0\0" + varint(len(VERSIONS) + 1) + told + _int(0) + b"\0")
    old = _framed(_int(1) + b"\0\x23") + _framed(
        _int(2) + b"\0\0" + _int(4) + b"".join(struct.pack(">hhh", *each) for each in VERSIONS)
    )
    yield (
        new
        + _framed(_int(2) + b"\0\0" + _int(0))
        + _framed(_int(3) + b"\0\0" + b"\xff\xff" + _int(3) + b"r=x" + _long(5))
    )
    yield new + _framed(_int(2) + b"\0\x21" + _int(2) + b"\0\1a\0\5PLAIN")
    yield new + _framed(_int(2) + b"\0\0" + _int(0)) + _framed(_int(3) + b"\0\x3a" + b"\0\2no" + _int(0) + _long(0))
    yield old
    yield _framed(_int(1) + b"\0\7")


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

RECORDS = (Record(0, 0, b"k", b"value"), Record(1, 5, None, b"x" * 200, ((b"h", b"v"),)), Record(3, -1, b"", None))
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


def batch_seeds() -> Iterator[bytes]:
    """Every codec, compressed here and as it came, whole and cut."""
    plain = b"".join(map(encoded, RECORDS))
    for number in range(len(CODECS)):
        for xerial in (0, 2):
            yield bytes((1 | xerial, number)) + plain
            yield bytes((33 | xerial, number)) + plain
            packed = compressed(number, plain, xerial=bool(xerial))
            yield from (
                bytes((2, number)) + packed,
                bytes((10, number)) + packed[:-3],
                bytes((18, number)) + packed + packed,
            )


BY_CODECS = Target(
    "codecs", batches, batch_seeds, (b"\x82SNAPPY\0", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"\x1f\x8b")
)
TARGETS = (
    Target("metadata", metadata, lambda: [METADATA]),
    Target("fetched", fetched, lambda: [FETCHED]),
    Target("epoch_ends", epoch_ends, lambda: [EPOCHS]),
    Target("login", login, logins),
    Target("frames", frames, lambda: [_framed(b"abc") + _framed(b"defgh" * 9) + _int(9)]),
    Target(
        "scram", scram, lambda: [CHALLENGE + b"\nv=" + SIGNED, b"e=no\n"], (SIGNED, CHALLENGE, b"m=", b"e=", b"i=9999")
    ),
    Target("bearer", bearer, lambda: [b"", b"\xffno"]),
    Target(
        "run_epoch",
        run_records,
        lambda: [run_epoch.encode(run_epoch.CommitMetadata(7, 7000, "id", "pin", "plan", "topic", "host")).encode()],
    ),
    Target(
        "handover",
        handovers,
        lambda: [
            handover.encode_handover(
                handover.HandoverRecord(handover.HandoverAnswer.PARKED, "me", 7, "id", "text")
            ).encode()
        ],
    ),
)
