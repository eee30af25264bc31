"""Kafka's record batches (magic 2) written in plain Python, and which of their rows a reader sees: what a decoder is to agree with.

Usage::

    data = encode(Batch(base=5, records=(Record(0, value=b"a"), Record(3, key=b"k"))))
    rows, after, fault = visible_rows(batches, 5, 9, aborted=None, headers=True)

Layout: KIP-98, Kafka's DefaultRecordBatch and DefaultRecord; what is visible: Kafka's CompletedFetch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from sparkcohort.native import _native

HEAD = struct.Struct(">qiibIhiqqqhii")
CHECKED_FROM = 21
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 8, 16, 32
ABORT, COMMIT = 0, 1
Row = tuple[int, bytes | None, bytes | None, int, int, list[tuple[str, bytes | None]] | None]
Headers = tuple[tuple[bytes, bytes | None], ...]


class Record(NamedTuple):
    """Offset and time count from the batch's."""

    offset: int
    time: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()


@dataclass(frozen=True)
class Batch:
    """One batch; ``last`` (the delta of its last offset) and ``count`` are those of its records unless given."""

    base: int
    records: tuple[Record, ...] = ()
    last: int | None = None
    count: int | None = None
    codec: int = 0
    attributes: int = 0  # but for the codec
    first_timestamp: int = 1_000
    max_timestamp: int = 2_000
    producer: int = -1
    epoch: int = 3
    xerial: bool = True

    @property
    def last_delta(self) -> int:
        """Of the last offset."""
        return self.last if self.last is not None else max((record.offset for record in self.records), default=0)

    @property
    def next(self) -> int:
        """The offset that follows."""
        return self.base + self.last_delta + 1


def marker(base: int, producer: int, kind: int) -> Batch:
    """The control batch that ends a transaction."""
    record = Record(0, key=struct.pack(">hh", 0, kind), value=struct.pack(">hi", 0, 0))
    return Batch(base, (record,), attributes=TRANSACTIONAL | CONTROL, producer=producer)


# --- written --------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    """Zigzag, seven bits a byte."""
    raw = (number << 1 ^ number >> 63) & (1 << 64) - 1
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def _bytes(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def encoded(record: Record) -> bytes:
    """One record, its length before it."""
    headers = b"".join(_bytes(name) + _bytes(value) for name, value in record.headers)
    body = b"\0" + varint(record.time) + varint(record.offset) + _bytes(record.key) + _bytes(record.value)
    body += varint(len(record.headers)) + headers
    return varint(len(body)) + body


def compressed(codec: int, plain: bytes, *, xerial: bool = True) -> bytes:
    """As producers do it; snappy in two frames of Java's library unless it is to be plain, as librdkafka's."""
    if not codec:
        return plain
    if codec != CODECS.index("snappy"):
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, CODECS[codec]) as stream:
            stream.write(plain)
        return bytes(sink.getvalue())
    snappy = pa.Codec("snappy")
    if not xerial:
        return bytes(snappy.compress(plain))
    blocks = [bytes(snappy.compress(part)) for part in (plain[: len(plain) // 2], plain[len(plain) // 2 :])]
    framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + framed


def encode(batch: Batch) -> bytes:
    """The bytes of a batch."""
    payload = b"".join(map(encoded, batch.records))
    return framed(batch, compressed(batch.codec, payload, xerial=batch.xerial))


def framed(batch: Batch, payload: bytes) -> bytes:
    """A batch around these bytes instead of its records."""
    count = len(batch.records) if batch.count is None else batch.count
    head = HEAD.pack(
        batch.base, HEAD.size - 12 + len(payload), batch.epoch, 2, 0, batch.attributes | batch.codec, batch.last_delta,
        batch.first_timestamp, batch.max_timestamp, batch.producer, 0, 0, count,
    )  # fmt: skip
    return summed(head + payload)


def summed(data: bytes) -> bytes:
    """A batch with the checksum that it ought to have."""
    return data[:17] + struct.pack(">I", _native.crc32c(data[CHECKED_FROM:], False)) + data[CHECKED_FROM:]


# --- read -----------------------------------------------------------------------------------------


def whole(data: bytes) -> Iterator[bytes]:
    """The batches that are there to their ends."""
    at = 0
    while len(data) - at >= HEAD.size:
        end = at + 12 + int(struct.unpack_from(">i", data, at + 8)[0])
        if not at < end <= len(data):  # a length may be anything, also less than nothing
            return
        yield data[at:end]
        at = end


def visible_rows(
    log: Sequence[Batch], position: int, end: int, *, aborted: Sequence[tuple[int, int]] | None, headers: bool
) -> tuple[list[Row], int, str]:
    """The visible rows of [position, end), where reading comes to, and what stopped it: "timestamp", "header" or ""."""
    queue = sorted((first, producer) for producer, first in aborted or ())
    going: set[int] = set()
    rows: list[Row] = []
    for batch in log:
        if position >= end:
            break
        while queue and queue[0][0] < batch.next:
            going.add(queue.pop(0)[1])
        if batch.attributes & CONTROL:
            if batch.records[0].key == struct.pack(">hh", 0, ABORT):
                going.discard(batch.producer)
        elif not (batch.attributes & TRANSACTIONAL and batch.producer in going):
            for record in batch.records:
                offset = batch.base + record.offset
                if position <= offset < end:
                    if fault := _append(rows, record, batch, headers=headers):
                        return rows, offset, fault
                    position = offset + 1
        position = max(position, batch.next)
    return rows, position, ""


def _append(rows: list[Row], record: Record, batch: Batch, *, headers: bool) -> str:
    append_time = bool(batch.attributes & LOG_APPEND_TIME)
    micros = 1000 * (batch.max_timestamp if append_time else batch.first_timestamp + record.time)
    if not -(2**63) <= micros < 2**63:
        return "timestamp"
    try:
        pairs = [(name.decode(), value) for name, value in record.headers] if headers else []
    except UnicodeDecodeError:
        return "header"
    rows.append((batch.base + record.offset, record.key, record.value, micros, int(append_time), pairs or None))
    return ""
