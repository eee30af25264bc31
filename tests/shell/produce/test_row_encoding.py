"""Rows as record batches: read again by a plain decoder, by ours and by Kafka's, in every codec."""

from __future__ import annotations

import struct
from array import array
from itertools import islice

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.native import _native
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.produce.batch_rows import rows_of_batch
from sparkcohort.runtime.shell.kafka.produce.produce_report import ProduceError
from sparkcohort.runtime.shell.kafka.produce.row_encoding import (
    CODED,
    TOPIC,
    EncodedBatch,
    RoomPool,
    RowEncoder,
    as_producer_rows,
)
from sparkcohort.runtime.shell.options.producer_settings import ProducerSettings
from tests.kit.parts import decompress
from tests.kit.record_batches import CODECS, HEAD, Batch, Record, encode
from tests.kit.written_records import ROWS, WrittenRecords, WrittenRow, arrow_rows, plain_murmur2

PARTITIONS, NOW = 5, 1_700_000_000_123
KNOWN = {
    b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829, b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}  # fmt: skip
"""Of Kafka's ``UtilsTest.testMurmur2``."""


def _settings(**options: str) -> ProducerSettings:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return ProducerSettings.parse({"bootstrap.servers": "127.0.0.1:1", **named})


def _encoder(settings: ProducerSettings, *, partitions: int = PARTITIONS, room: int = 1 << 10) -> RowEncoder:
    encoder = RowEncoder(settings, RoomPool(room))
    encoder.topics.extend((0, partitions, 0, 0))
    return encoder


def _coded(rows: list[WrittenRow]) -> pa.RecordBatch:
    columns = as_producer_rows(arrow_rows(rows))
    codes = pa.array(bytes(len(rows)), pa.int32())
    return pa.RecordBatch.from_arrays([*columns.columns[:TOPIC], codes, *columns.columns[TOPIC + 1 :]], schema=CODED)


def _place(row: WrittenRow) -> int | None:
    if row.partition is not None or row.key is None:
        return row.partition
    return (plain_murmur2(row.key) & 0x7FFFFFFF) % PARTITIONS


def _sealed(batch: EncodedBatch, codec: int) -> bytes:
    _native.seal(batch.data, codec, 77, 3, 12)
    return bytes(batch.data)


def _plain(rows: list[WrittenRow]) -> bytes:
    """The batch of these rows, written in Python."""
    first = rows[0].time
    records = tuple(
        Record(at, row.time - first, row.key, row.value, tuple((name.encode(), value) for name, value in row.headers))
        for at, row in enumerate(rows)
    )
    batch = Batch(0, records, first_timestamp=first, max_timestamp=max(row.time for row in rows), producer=77, epoch=-1)
    data = bytearray(encode(batch))
    _native.seal(data, 0, 77, 3, 12)
    return bytes(data)


@given(rows=ROWS, limit=st.sampled_from((0, 100, 700, 1 << 20)), room=st.sampled_from((1, 1 << 20)))
def test_batches_are_those_of_a_plain_encoder(rows: list[WrittenRow], limit: int, room: int) -> None:
    """Byte for byte; each row once, in the order of its partition, where its key or number has it; no batch above the limit."""
    encoder = _encoder(_settings(batch_size=str(limit)), room=room)
    by_slot: dict[int, list[bytes]] = {}
    for batch in encoder.encode(_coded(rows), NOW, {0: "t"}):
        assert len(_sealed(batch, 0)) <= limit or batch.records == 1
        by_slot.setdefault(batch.slot, []).append(bytes(batch.data))
    counts = {slot: [HEAD.unpack(data[: HEAD.size])[-1] for data in batches] for slot, batches in by_slot.items()}
    assert sum(map(sum, counts.values())) == len(rows)
    if all(_place(row) is not None for row in rows):
        for slot, batches in by_slot.items():
            placed = iter([row for row in rows if _place(row) == slot])
            assert batches == [_plain(list(islice(placed, count))) for count in counts[slot]]
            assert not list(placed)


@given(rows=ROWS.filter(bool), codec=st.integers(0, 4))
def test_what_is_written_is_read_again(rows: list[WrittenRow], codec: int) -> None:
    """By our own decoder; times that microseconds can't hold are the one thing it refuses."""
    rows = [row._replace(time=row.time % (1 << 52), partition=0) for row in rows]
    encoder = _encoder(_settings(compression_type=CODECS[codec], batch_size="1000"))
    read: list[WrittenRow] = []
    for batch in encoder.encode(_coded(rows), NOW, {0: "t"}):
        _sealed(batch, codec)
        for row in rows_of_batch(batch.data, TopicPartition("t", 0)).to_pylist():
            pairs = [(each["key"], each["value"]) for each in row["headers"] or ()]
            read.append(WrittenRow(row["timestamp"], row["key"], row["value"], pairs, 0))
    assert read == rows


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_kafkas_own_reader_reads_every_codec(java: WrittenRecords, codec: int) -> None:
    """Small batches and one of many blocks, of bytes that shrink and that don't."""
    noise = b"".join(struct.pack(">q", hash((number, "x"))) for number in range(40_000))
    rows = [
        WrittenRow(NOW, None, b"", []),
        WrittenRow(5, b"", None, [("ü", None), ("", b"")]),
        WrittenRow(2**63 - 1, b"k" * 300, b"v" * 100_000, [("a", b"1")] * 70),
        WrittenRow(0, b"noise", noise, []),
    ]
    encoder = _encoder(_settings(compression_type=CODECS[codec], batch_size=str(1 << 20)), partitions=1)
    data = b"".join(_sealed(batch, codec) for batch in encoder.encode(_coded(rows), NOW, {0: "t"}))
    (batch,) = java.batches(data)
    assert batch == (CODECS[codec], 77, 3, 12, 0, rows)
    if codec:
        assert len(decompress(codec, memoryview(data)[HEAD.size :])) > len(data) - HEAD.size


def test_murmur2_is_javas(java: WrittenRecords) -> None:
    """Values of Kafka's own test, and Kafka's own function beside ours and the plain one."""
    assert {key: _native.murmur2(key) for key in KNOWN} == KNOWN
    for size in range(40):
        key = bytes((7 * size + 31 * at) & 0xFF for at in range(size))
        assert java.murmur2(key) == _native.murmur2(key) == plain_murmur2(key)


def test_rows_without_key_stay_in_a_partition_for_a_batch() -> None:
    """As Java's: then the next one has its turn, also in the next call."""
    encoder = _encoder(_settings(batch_size="1000"))
    slots: list[int] = []
    for _ in range(3):
        batches = encoder.encode(_coded([WrittenRow(1, None, b"x" * 100, [])] * 30), NOW, {0: "t"})
        slots += [batch.slot for batch in batches]
        assert all(len(batch.data) <= 1000 for batch in batches)
    assert set(slots) == set(range(PARTITIONS))
    assert encoder.topics[2] in range(PARTITIONS)


def test_a_missing_time_is_now() -> None:
    """Of the call."""
    rows = as_producer_rows(pa.record_batch({"topic": ["t"], "value": [b"x"]}))
    coded = _coded([WrittenRow(1, None, b"x", [])]).set_column(3, CODED.field(3), rows.column("timestamp"))
    (batch,) = _encoder(_settings()).encode(coded, NOW, {0: "t"})
    assert HEAD.unpack(batch.data[: HEAD.size])[7] == NOW


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (WrittenRow(1, b"21", b"secret" * 2000, []), "partition 0, with a key of murmur2 -973932308, takes"),
        (WrittenRow(1, None, b"secret", [], 5), "has no place: the topic has 5 partitions"),
        (WrittenRow(1, None, b"secret", [], -1), "has no place"),
        (WrittenRow(-2, None, b"secret", []), "timestamp -2 ms"),
    ],
)
def test_a_row_that_no_batch_can_hold(row: WrittenRow, words: str) -> None:
    """Names the place, never key or value; nothing is kept of the rows beside it."""
    encoder = _encoder(_settings(max_request_size="10000"))
    with pytest.raises(ProduceError) as raised:
        encoder.encode(_coded([WrittenRow(1, b"a", b"b", []), row]), NOW, {0: "t"})
    assert words in str(raised.value)
    assert "secret" not in str(raised.value)
    assert encoder.rooms.nbytes == 0
    assert list(encoder.topics) == [0, PARTITIONS, 0, 0]


def test_a_slice_of_rows_is_what_it_shows() -> None:
    """Offsets of Arrow's slices, inside of lists too."""
    rows = [WrittenRow(at, b"%d" % at, b"v", [(f"h{at}", b"%d" % at)] * (at % 3), 0) for at in range(50)]
    (batch,) = _encoder(_settings()).encode(_coded(rows).slice(13, 20), NOW, {0: "t"})
    assert _sealed(batch, 0) == _plain(rows[13:33])


def test_columns_of_another_type_are_refused() -> None:
    """By the encoder itself, whoever calls it; and by name where they come in."""
    with pytest.raises(ValueError, match="not the columns"):
        _native.encode(pa.record_batch({"a": [1]}).__arrow_c_array__(), array("q"), 1, 1, 1, bytearray(1))
    with pytest.raises(ValueError, match="can't be"):
        _native.encode(_coded([]).__arrow_c_array__(), array("q", (-1, 1, 0, 0)), 1, 1, 1, bytearray(1))
    with pytest.raises(ValueError, match="not a batch"):
        _native.seal(bytearray(60), 0, 0, 0, 0)
    with pytest.raises(ProduceError, match="column value of type list"):
        as_producer_rows(pa.record_batch({"topic": ["t"], "value": [[1]]}))
