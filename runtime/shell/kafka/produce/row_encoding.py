"""Rows on their way into record batches: columns as the encoder in C wants them, memory that is used again, codecs."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sparkcohort.native import _native
from sparkcohort.runtime.shell.kafka.fetch.compression import GZIP, LZ4, SNAPPY, ZSTD
from sparkcohort.runtime.shell.kafka.produce.failures import refused_row
from sparkcohort.runtime.shell.kafka.produce.produce_report import ProduceError
from sparkcohort.runtime.shell.options.producer_settings import ProducerSettings

HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ROWS: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("timestamp", pa.int64()),  # ms
        ("topic", pa.dictionary(pa.int32(), pa.string())),
        ("partition", pa.int32()),
    ]
)
TOPIC: Final = ROWS.get_field_index("topic")
CODED: Final = ROWS.set(TOPIC, pa.field("topic", pa.int32()))  # of the table of topics

_XERIAL: Final = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK: Final = 32 << 10  # as Java's SnappyOutputStream
# Blocks of 64 KiB that don't depend on each other, which is all that Java's reader takes, and the checksum of that.
_LZ4_HEAD, _LZ4_BLOCK, _LZ4_END, _LZ4_PLAIN = b"\x04\x22\x4d\x18\x60\x40\x82", 64 << 10, bytes(4), 1 << 31


def as_producer_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of ``ROWS``, by their names; what is missing is null.  Raises ProduceError for another type."""
    columns = []
    for field in ROWS:
        index = rows.schema.get_field_index(field.name)
        try:
            columns.append(pa.nulls(rows.num_rows, field.type) if index < 0 else _cast(rows.column(index), field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise ProduceError(
                f"column {field.name} of type {rows.schema.field(index).type} can't be written as {field.type}: {error}"
            ) from None
    return pa.RecordBatch.from_arrays(columns, schema=ROWS)


def _cast(column: pa.Array, target: pa.DataType) -> pa.Array:
    if column.type == target:
        return column
    if pa.types.is_dictionary(target):
        return pc.dictionary_encode(column.cast(pa.string())).cast(target)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    return column.cast(target)


def compress(codec: int, level: int | None, plain: memoryview) -> bytes | pa.Buffer:
    """The records of a batch as Java's producer compresses them."""
    if codec == SNAPPY:
        blocks = [bytes(pa.Codec("snappy").compress(each)) for each in _blocks(plain, _XERIAL_BLOCK)]
        return _XERIAL + b"".join(struct.pack(">i", len(each)) + each for each in blocks)
    if codec == LZ4:
        raw = pa.Codec("lz4_raw", level)
        pieces = [_lz4_block(each, raw.compress(each)) for each in _blocks(plain, _LZ4_BLOCK)]
        return _LZ4_HEAD + b"".join(pieces) + _LZ4_END
    return pa.Codec({GZIP: "gzip", ZSTD: "zstd"}[codec], level).compress(plain)


def _lz4_block(plain: memoryview, block: pa.Buffer) -> bytes:
    """A block that doesn't shrink stays as it is, and says so."""
    shrunk = block.size < len(plain)
    return struct.pack("<I", block.size if shrunk else len(plain) | _LZ4_PLAIN) + bytes(block if shrunk else plain)


def _blocks(plain: memoryview, size: int) -> Iterator[memoryview]:
    return (plain[start : start + size] for start in range(0, len(plain), size))


class Room:
    """Memory for encoded batches, used again when the last of them is acknowledged."""

    def __init__(self, size: int) -> None:
        """Nothing is in it."""
        self.data = bytearray(size)
        self.users = 0


class RoomPool:
    """All memory that batches wait in; ``nbytes`` is what is in use."""

    def __init__(self, usual: int) -> None:
        """``usual``: bytes of a room, unless more is needed; such a one isn't kept."""
        self.usual, self.nbytes = usual, 0
        self._free: list[Room] = []

    def take(self, size: int, *, exact: bool = False) -> Room:
        """A room of at least so many bytes, or of just so many."""
        is_usual = size <= self.usual and not exact
        room = self._free.pop() if is_usual and self._free else Room(self.usual if is_usual else size)
        self.nbytes += len(room.data)
        return room

    def give_back(self, room: Room) -> None:
        """A batch in it is over, or nothing is in it."""
        room.users -= 1
        if room.users <= 0:
            room.users = 0
            self.nbytes -= len(room.data)
            if len(room.data) == self.usual:
                self._free.append(room)


class EncodedBatch:
    """A record batch without its producer's sequence; ``data`` lies in ``room``."""

    __slots__ = ("data", "records", "room", "slot")

    def __init__(self, slot: int, records: int, data: memoryview, room: Room) -> None:
        """``slot`` is the partition's number over all topics."""
        self.slot, self.records, self.data, self.room = slot, records, data, room
        room.users += 1


class RowEncoder:
    """Encodes rows for the topics that are known to it: ``topics`` has the four numbers of each that ``_native.encode`` wants."""

    def __init__(self, settings: ProducerSettings, rooms: RoomPool) -> None:
        """No topic is known."""
        self.topics = array("q")
        self.rooms = rooms
        self._largest = settings.request_bytes
        self._limit = min(settings.batch_bytes, settings.request_bytes)
        self._codec, self._level = settings.codec, settings.level

    def encode(self, rows: pa.RecordBatch, now_ms: int, names: Mapping[int, str]) -> list[EncodedBatch]:
        """Rows of ``CODED`` as batches, those of a partition in order.  Raises ProduceError for a row that can't be written."""
        return self._encode(rows, self._limit, self._largest, now_ms, names)

    def split(self, rows: pa.RecordBatch, slot: int, nbytes: int) -> list[EncodedBatch]:
        """Rows of one batch that the broker answer too large, as batches of half its bytes at most."""
        batches = self._encode(rows, nbytes // 2, max(self._largest, nbytes), 0, {}, array("q", (slot, 1, 0, 0)))
        for batch in batches:
            batch.slot = slot
        return batches

    def _encode(
        self,
        rows: pa.RecordBatch,
        limit: int,
        largest: int,
        now_ms: int,
        names: Mapping[int, str],
        topics: array[int] | None = None,
    ) -> list[EncodedBatch]:
        topics = self.topics if topics is None else topics
        room = self.rooms.take(0)
        answer = _native.encode(rows.__arrow_c_array__(), topics, limit, largest, now_ms, room.data)
        if isinstance(answer, int):
            self.rooms.give_back(room)
            room = self.rooms.take(answer)
            answer = _native.encode(rows.__arrow_c_array__(), topics, limit, largest, now_ms, room.data)
        if not isinstance(answer, list):
            self.rooms.give_back(room)
            row, reason, number = answer if isinstance(answer, tuple) else (0, 0, 0)
            code = rows.column("topic")[row].as_py()
            counts = 0 if code is None else topics[4 * code + 1]
            raise refused_row(rows, row, reason, number, "" if code is None else names[code], counts, largest)
        view = memoryview(room.data)
        if not self._codec:
            batches = [EncodedBatch(slot, records, view[start:end], room) for slot, start, end, records in answer]
        else:
            batches = [self._packed(slot, records, view[start:end]) for slot, start, end, records in answer]
        if self._codec or not batches:
            self.rooms.give_back(room)
        return batches

    def _packed(self, slot: int, records: int, plain: memoryview) -> EncodedBatch:
        packed = compress(self._codec, self._level, plain[_native.BATCH_HEADER :])
        room = self.rooms.take(len(packed) + _native.BATCH_HEADER, exact=True)
        room.data[:] = b"".join((plain[: _native.BATCH_HEADER], packed))
        return EncodedBatch(slot, records, memoryview(room.data), room)
