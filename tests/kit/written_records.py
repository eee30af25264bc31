"""Rows for a producer, the plain twin of its encoder, and what Kafka's own classes read of the batches.

Usage::

    with WrittenRecords() as java:
        java.batches(data)                  # [(codec, producer, epoch, sequence, offset, rows), ...]
        java.topic(broker.bootstrap, "t", 0, 12)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

from sparkcohort.runtime.shell.kafka.produce.row_encoding import HEADERS
from tests.kit.jars import QUICK, class_path
from tests.kit.java_program import JavaProgram

Pairs = list[tuple[str, bytes | None]]
SMALL: Final = st.one_of(st.none(), st.binary(max_size=40))
# librdkafka reads a header's name to the first NUL.
NAMES: Final = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


class WrittenRow(NamedTuple):
    """What is written of a row, but for its topic."""

    time: int
    key: bytes | None
    value: bytes | None
    headers: Pairs
    partition: int | None = None


class ReadBatch(NamedTuple):
    """A batch as Java reads it."""

    codec: str
    producer: int
    epoch: int
    sequence: int
    offset: int
    rows: list[WrittenRow]


ROWS: Final = st.lists(
    st.builds(
        WrittenRow,
        st.one_of(st.integers(0, 2**63 - 1), st.integers(1_700_000_000_000, 1_700_000_100_000)),
        SMALL,
        st.one_of(
            SMALL, st.builds(lambda byte, many: byte * many, st.binary(min_size=1, max_size=1), st.integers(0, 3000))
        ),
        st.lists(st.tuples(NAMES, SMALL), max_size=3),
        st.one_of(st.none(), st.integers(0, 4)),
    ),
    max_size=60,
)


def arrow_rows(rows: Sequence[WrittenRow], topic: str = "t") -> pa.RecordBatch:
    """The rows as a caller of the producer has them."""
    headers = [[{"key": name, "value": value} for name, value in row.headers] or None for row in rows]
    return pa.record_batch(
        {
            "topic": pa.array([topic] * len(rows), pa.string()),
            "partition": pa.array([row.partition for row in rows], pa.int32()),
            "key": pa.array([row.key for row in rows], pa.binary()),
            "value": pa.array([row.value for row in rows], pa.binary()),
            "headers": pa.array(headers, HEADERS),
            "timestamp": pa.array([row.time for row in rows], pa.int64()),
        }
    )


def plain_murmur2(data: bytes) -> int:
    """MurmurHash2 as its author wrote it down, with Kafka's seed, as Java's int."""
    by, mask = 0x5BD1E995, 0xFFFFFFFF
    hash_ = 0x9747B28C ^ len(data)
    for at in range(0, len(data) // 4 * 4, 4):
        word = int.from_bytes(data[at : at + 4], "little") * by & mask
        hash_ = (hash_ * by & mask) ^ ((word ^ word >> 24) * by & mask)
    if tail := data[len(data) // 4 * 4 :]:
        hash_ = (hash_ ^ int.from_bytes(tail, "little")) * by & mask
    hash_ = (hash_ ^ hash_ >> 13) * by & mask
    hash_ ^= hash_ >> 15
    return hash_ - (1 << 32) if hash_ >> 31 else hash_


class WrittenRecords(JavaProgram):
    """Kafka's own reader."""

    source = Path(__file__).with_name("java") / "WrittenRecords.java"

    def arguments(self) -> list[str]:
        """Java's, with the class path: the client's jars."""
        return [*QUICK, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", class_path("broker")]

    def murmur2(self, data: bytes) -> int:
        """``Utils.murmur2``."""
        return int(self.ask(f"murmur2 {data.hex()}")[1:])

    def batches(self, data: bytes) -> list[ReadBatch]:
        """All batches in these bytes."""
        return [_batch(text) for text in self.ask(f"batches {data.hex()}")[1:].split("|") if text]

    def topic(self, bootstrap: str, name: str, partition: int, end: int) -> list[WrittenRow]:
        """The records of a partition up to an offset."""
        return [_row(text) for text in self.ask(f"topic {bootstrap} {name} {partition} {end}")[1:].split(";") if text]

    def committed(self, bootstrap: str, name: str, partition: int) -> list[WrittenRow]:
        """What a ``read_committed`` reader gets of a partition, up to the first open transaction."""
        return [_row(text) for text in self.ask(f"committed {bootstrap} {name} {partition}")[1:].split(";") if text]


def _batch(text: str) -> ReadBatch:
    head, *rows = text.split(";")
    codec, *numbers = head.split(" ")
    producer, epoch, sequence, offset = map(int, numbers)
    return ReadBatch(codec, producer, epoch, sequence, offset, [_row(row) for row in rows])


def _row(text: str) -> WrittenRow:
    time, key, value, *headers = text.split(",")
    pairs: Pairs = []
    for header in headers:
        name, _, content = header.partition("=")
        pairs.append((bytes.fromhex(name).decode(), _bytes(content)))
    return WrittenRow(int(time), _bytes(key), _bytes(value), pairs)


def _bytes(text: str) -> bytes | None:
    return None if text == "null" else bytes.fromhex(text)
