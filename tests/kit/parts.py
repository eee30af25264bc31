"""Parts of Fetch responses for tests: any log, a decoder as the fetcher makes one, and all that a part gives.

Usage::

    found = Read(encode(Batch(0, (Record(0, value=b"v"),))))        # taken in small steps, each batch validated
    found.rows, found.position, found.fault
    @given(log=logs())                                              # batches in order, of all kinds
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from sparkcohort.native import _native
from sparkcohort.runtime.batches.offset_runs import OffsetRuns
from sparkcohort.runtime.shell.kafka.fetch import arrow_rows
from sparkcohort.runtime.shell.kafka.fetch.compression import unpack
from sparkcohort.runtime.shell.kafka.fetch.decode import WINDOW, import_rows
from sparkcohort.runtime.values.columns import KAFKA_ROW, KAFKA_ROW_WITH_HEADERS, Columns, fields_of
from tests.kit.record_batches import (
    ABORT,
    COMMIT,
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Batch,
    Record,
    Row,
    marker,
)

NO_END = 2**63 - 1
LARGEST = 100_000_000
KINDS = {
    _native.ERROR: "error",
    _native.BAD_TIMESTAMP: "timestamp",
    _native.BAD_HEADER: "header",
    _native.TOO_LARGE: "large",
}
Aborted = Sequence[tuple[int, int]] | None


def decoder(
    *,
    headers: bool = True,
    columns: Columns = (),
    largest: int = LARGEST,
    window: int = WINDOW,
    by: Any = unpack,
) -> _native.Decoder:
    """As the fetcher makes one."""
    columns = columns or (KAFKA_ROW_WITH_HEADERS if headers else KAFKA_ROW)
    return _native.Decoder(fields_of(columns), partial(import_rows, arrow_rows.schema(columns)), by, largest, window)


def decompress(codec: int, packed: memoryview) -> bytes:
    """All of it."""
    found = unpack(codec, packed, LARGEST)
    return bytes(found if isinstance(found, bytes | pa.Buffer) else found.read())


def in_pieces(codec: int, packed: memoryview, largest: int) -> Any:
    """A stream in any case: small windows make many pieces of it."""
    return unpack(codec, packed, largest, at_once=-1)


class Read:
    """What a part gives, taken in small steps."""

    def __init__(
        self,
        data: bytes,
        position: int = 0,
        end: int = NO_END,
        *,
        aborted: Aborted = None,
        high_watermark: int = -1,
        limit: int = 1_000,
        nbytes: int = 1 << 20,
        by: _native.Decoder | None = None,
    ) -> None:
        """Take all events up to the end or the first fault, which has to come again."""
        self.rows: list[Row] = []
        self.position, self.fault, self.number = position, "", 0
        arguments = (b"--" + data + b"-", 2, 2 + len(data), "t", 7, position, end, high_watermark, aborted)
        part = (by or decoder()).part(*arguments)
        self.ahead = part.ahead()
        while (event := part.take(limit, nbytes)) is not None:
            kind, topic, partition, offset, self.number, what = event
            assert (topic, partition) == ("t", 7)
            if kind == _native.UNPACKING:
                assert offset == self.position
                continue
            if kind != _native.RECORDS:
                self.fault, self.words, self.position = KINDS[kind], what, offset
                again = part.take(limit, nbytes)
                assert again is not None
                assert again[0] == kind
                return
            assert offset > self.position
            self.position = offset
            if what is not None:
                self._note(what[0], what[1], limit)

    def _note(self, batch: pa.RecordBatch, runs: OffsetRuns, limit: int) -> None:
        batch.validate(full=True)
        assert 0 < batch.num_rows <= limit
        assert set(batch.column("topic").to_pylist()) == {"t"}
        assert set(batch.column("partition").to_pylist()) == {7}
        with_headers = "headers" in batch.schema.names
        columns = [batch.column(name).to_pylist() for name in ("offset", "key", "value")]
        assert list(OffsetRuns.from_offsets(columns[0])) == list(runs)
        columns += [batch.column("timestamp").cast(pa.int64()).to_pylist(), batch.column("timestampType").to_pylist()]
        pairs: list[Any] = batch.column("headers").to_pylist() if with_headers else [None] * batch.num_rows
        columns.append([each and [(pair["key"], pair["value"]) for pair in each] for each in pairs])
        self.rows += list(zip(*columns, strict=True))


BYTES = st.one_of(st.none(), st.binary(max_size=12), st.sampled_from([b"", b"x" * 127, b"y" * 128, b"z" * 9_000]))
NAMES = st.one_of(st.text(max_size=4).map(str.encode), st.sampled_from([b"", "ü€𝄞".encode()]))
ODD_NAMES = st.one_of(NAMES, NAMES, NAMES, st.sampled_from([b"\xff", b"\xc0\x80", b"\xed\xa0\x80"]))
TIMES = st.one_of(st.integers(-50, 50), st.sampled_from([-(2**40), 2**40, 2**54, -(2**60)]))


@st.composite
def logs(draw: st.DrawFn, names: st.SearchStrategy[bytes] = NAMES, times: Any = TIMES) -> list[Batch]:
    """Batches in order: plain ones, transactions of two producers that end in either way, gaps, empty frames."""
    record = st.tuples(st.integers(0, 2), times, BYTES, BYTES, st.lists(st.tuples(names, BYTES), max_size=3).map(tuple))
    log: list[Batch] = []
    at, open_for = draw(st.sampled_from([0, 5, 2**31, 2**62])), set()
    for _ in range(draw(st.integers(1, 6))):
        producer = draw(st.sampled_from([-1, -1, 11, 12]))
        if producer in open_for and draw(st.booleans()):
            open_for.discard(producer)
            log.append(marker(at, producer, draw(st.sampled_from([ABORT, COMMIT]))))
        else:
            offset, records = -1, []
            for gap, *rest in draw(st.lists(record, max_size=6)):
                offset += gap + 1
                records.append(Record(offset, *rest))
            attributes = draw(st.sampled_from([0, 0, LOG_APPEND_TIME])) | (TRANSACTIONAL if producer > 0 else 0)
            if producer > 0:
                open_for.add(producer)
            more: dict[str, Any] = {
                "codec": draw(st.integers(0, 4)),
                "xerial": draw(st.booleans()),
                "producer": producer,
            }
            last = max(offset, 0) + draw(st.integers(0, 3))
            log.append(Batch(at, tuple(records), last, attributes=attributes, **more))
        at = log[-1].next + draw(st.sampled_from([0, 0, 4]))
    return log


def aborted_in(log: Sequence[Batch]) -> list[tuple[int, int]]:
    """The aborted transactions as a broker lists them: in the order of their ends."""
    began: dict[int, int] = {}
    found = []
    for batch in log:
        if not batch.attributes & CONTROL:
            began.setdefault(batch.producer, batch.base)
        elif (first := began.pop(batch.producer, None)) is not None and batch.records[0].key == struct.pack(
            ">hh", 0, ABORT
        ):
            found.append((batch.producer, first))
    return found
