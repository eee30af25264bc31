"""The encoder of record batches as a target of ``targets``: rows as odd as Arrow may have them, read again by our own decoder."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa

from sparkcohort.native import _native
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.produce.batch_rows import rows_of_batch
from sparkcohort.runtime.shell.kafka.produce.row_encoding import CODED, HEADERS, RoomPool, RowEncoder
from sparkcohort.runtime.shell.options.producer_settings import ProducerSettings
from tests.kit.record_batches import CODECS, HEAD, Batch, Record, encode, encoded, summed
from tests.kit.targets import Target
from tests.kit.written_records import plain_murmur2

NOW: Final = 1_700_000_000_123
TIMES: Final = (None, NOW, NOW + 1, 0, 1 << 53, -1)
TOPICS: Final = (0, 3, 0, 0, 3, 1, 0, 0, 4, 0, 0, 0)
"""Two topics of three partitions and one, and one whose partitions aren't known."""
CODES: Final = (0, 0, 0, 1, 1, 2, 9, None)
PLACES: Final = (None, None, 0, 2, 3, -1)
TP: Final = TopicPartition("t", 0)
Content = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


class Plan(NamedTuple):
    """The encoder's bounds; how many rows around those that count; whether slices are inside of others; a codec to split with."""

    limit: int = 1 << 20
    largest: int = 1 << 20
    room: int = 1 << 16
    around: int = 0
    nested: bool = False
    codec: int = 0


PLANS: Final = (
    Plan(),
    Plan(limit=0, room=1),
    Plan(limit=150, largest=400, around=3),
    Plan(limit=1000, around=9, nested=True, codec=3),
    Plan(limit=300, room=200, around=1, nested=True, codec=1),
)


class OddRow(NamedTuple):
    """A row; headers may be null, as may one of them or its name."""

    topic: int | None
    partition: int | None
    time: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str | None, bytes | None] | None] | None

    def refusal(self, largest: int) -> int:
        """Why it can't be written; 0 if it can."""
        count = TOPICS[4 * self.topic + 1] if self.topic is not None and self.topic < len(TOPICS) // 4 else 0
        if not count:
            return _native.REFUSED_TOPIC
        if self.partition is not None and not 0 <= self.partition < count:
            return _native.REFUSED_PARTITION
        if self.time is not None and self.time < 0:
            return _native.REFUSED_TIMESTAMP
        if any(header is None or header[0] is None for header in self.headers or ()):
            return _native.REFUSED_HEADER
        named = tuple((name.encode(), value) for name, value in self.content[3])
        size = HEAD.size + len(encoded(Record(0, 0, self.key, self.value, named)))
        return _native.REFUSED_SIZE if size > largest else 0

    @property
    def content(self) -> Content:
        """What is read of it again."""
        headers = tuple((each[0] or "", each[1]) for each in self.headers or () if each is not None)
        return NOW if self.time is None else self.time, self.key, self.value, headers

    @property
    def slot(self) -> int | None:
        """Where it belongs; None if anywhere in its topic."""
        base, count = TOPICS[4 * (self.topic or 0) :][:2]
        if self.partition is None and self.key is None:
            return None
        by_key = (plain_murmur2(self.key or b"") & 0x7FFFFFFF) % count
        return base + (by_key if self.partition is None else self.partition)


def _blob(numbers: Iterator[int]) -> bytes:
    size = next(numbers, 0)
    return bytes(islice(numbers, size % 40)) * (300 if size >= 250 else 1)


def _header(numbers: Iterator[int]) -> tuple[str | None, bytes | None] | None:
    how = next(numbers, 0)
    if how >= 250:
        return None
    return None if how >= 240 else _blob(numbers).decode("latin-1"), None if how & 1 else _blob(numbers)


def odd_rows(data: bytes) -> Iterator[OddRow]:
    """The rows that these bytes stand for: any have some."""
    numbers = iter(data)
    for flags in numbers:
        place, time = next(numbers, 0), TIMES[next(numbers, 0) % len(TIMES)]
        key = None if flags & 1 else _blob(numbers)
        value = None if flags & 2 else _blob(numbers)
        headers = None if flags & 4 else [_header(numbers) for _ in range(flags >> 6)]
        yield OddRow(CODES[place % 8], PLACES[(place >> 3) % 6], time, key, value, headers)


def _pair(header: tuple[str | None, bytes | None] | None) -> dict[str, str | bytes | None] | None:
    return None if header is None else {"key": header[0], "value": header[1]}


def _arrow(rows: Sequence[OddRow], plan: Plan) -> pa.RecordBatch | pa.StructArray:
    junk = [OddRow(None, -7, -7, b"junk", None, [("junk", b"junk"), None])] * plan.around
    all_rows = [*junk, *rows, *junk]
    pairs = [None if row.headers is None else [_pair(header) for header in row.headers] for row in all_rows]
    headers = pa.array(pairs, HEADERS)
    if plan.nested:  # its entries begin in the middle of others
        entries = pa.concat_arrays([pa.array([None], HEADERS.value_type), headers.values]).slice(1)
        headers = pa.Array.from_buffers(HEADERS, len(headers), headers.buffers()[:2], children=[entries])
    named: dict[str, list[Any]] = {
        name: [getattr(row, name) for row in all_rows] for name in ("key", "value", "topic", "partition")
    }
    named["timestamp"] = [row.time for row in all_rows]
    columns = [headers if field.name == "headers" else pa.array(named[field.name], field.type) for field in CODED]
    batch = pa.RecordBatch.from_arrays(columns, schema=CODED)
    return (batch.to_struct_array() if plan.nested else batch).slice(plan.around, len(rows))


def _read(data: bytes | bytearray | memoryview) -> list[Content]:
    return [
        (
            row["timestamp"],
            row["key"],
            row["value"],
            tuple((each["key"], each["value"]) for each in row["headers"] or ()),
        )
        for row in rows_of_batch(memoryview(data), TP).to_pylist()
    ]


def _plain(contents: Sequence[Content]) -> bytes:
    """The batch of these rows, written in Python."""
    first = contents[0][0]
    records = tuple(
        Record(at, time - first, key, value, tuple((name.encode(), each) for name, each in headers))
        for at, (time, key, value, headers) in enumerate(contents)
    )
    latest = max(content[0] for content in contents)
    batch = bytearray(encode(Batch(0, records, first_timestamp=first, max_timestamp=latest, producer=77, epoch=-1)))
    _native.seal(batch, 0, 77, 3, 12)
    return bytes(batch)


def check_split(data: bytes | bytearray, contents: Sequence[Content], codec: int) -> None:
    """Smaller batches have the same rows, in order."""
    named = {"bootstrap.servers": "h:1", "compression.type": CODECS[codec]}
    encoder = RowEncoder(ProducerSettings.parse(named), RoomPool(1 << 10))
    rows, again = rows_of_batch(memoryview(data), TP), []
    parts = encoder.split(rows, 5, max(rows.nbytes, len(data)))
    for part in parts:
        assert part.slot == 5
        _native.seal(part.data, codec, -1, -1, -1)
        again += _read(part.data)
    assert again == contents
    for part in parts:
        encoder.rooms.give_back(part.room)
    assert encoder.rooms.nbytes == 0


def check(data: bytes) -> None:
    """The number of a plan, then rows: batches that are those of a plain encoder, or the first row that can't be written."""
    if not data:
        return
    plan, rows = PLANS[data[0] % len(PLANS)], list(odd_rows(data[1:]))
    topics, room, columns = array("q", TOPICS), bytearray(plan.room), _arrow(rows, plan)
    answer = _native.encode(columns.__arrow_c_array__(), topics, plan.limit, plan.largest, NOW, room)
    reasons = [row.refusal(plan.largest) for row in rows]
    if any(reasons):
        first = next(number for number, reason in enumerate(reasons) if reason)
        assert isinstance(answer, tuple)
        assert answer[:2] == (first, reasons[first])
        assert tuple(topics) == TOPICS
        return
    if isinstance(answer, int):
        assert answer > len(room)
        assert not any(room)
        room = bytearray(answer)
        answer = _native.encode(columns.__arrow_c_array__(), topics, plan.limit, plan.largest, NOW, room)
    assert isinstance(answer, list)
    by_slot: dict[int, list[Content]] = defaultdict(list)
    for slot, start, end, count in answer:
        batch = room[start:end]
        assert len(batch) <= (plan.limit if count > 1 else plan.largest)
        _native.seal(batch, 0, 77, 3, 12)
        assert summed(bytes(batch)) == batch
        contents = _read(batch)
        assert len(contents) == count
        assert _plain(contents) == batch
        if count > 1 and not start:
            check_split(batch, contents, plan.codec)
        by_slot[slot] += contents
    for slot, found in by_slot.items():
        placed = iter(found)
        assert all(row.content in placed for row in rows if row.slot == slot)
    assert Counter(content for found in by_slot.values() for content in found) == Counter(row.content for row in rows)


SEEDS: Final = (
    b"\0" + b"\xc0\0\1\3key\5value\0\1h\1v\1\1i\0\2nv" * 3,
    b"\1" + b"\7\0\0" * 4 + b"\1\3\2\xffabcdefg",
    b"\2" + b"\4\3\3\2kk\2vv" * 9 + b"\0\5\0\0\0",
    b"\3" + b"\x45\0\1\xffxyz\1\2hh\2hv" * 7 + b"\0\x28\1\1k\1v",
    b"\4" + b"\x41\x10\1\4long\xf1\0" * 5 + b"\0\0\5\1k\1v",
)
TARGET: Final = Target("encoder", check, lambda: SEEDS)
