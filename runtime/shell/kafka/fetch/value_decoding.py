"""What is inside of keys and values, as columns, for the source of their bytes.

The agent and a task that reads by itself have the same one, so a record decodes to the same row wherever it is read, and
whenever it is read again.  One bad record costs itself.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from queue import SimpleQueue
from typing import Any, NamedTuple

import pyarrow as pa

from sparkcohort.runtime.batches.offset_runs import OffsetRuns
from sparkcohort.runtime.kafka.dead_letters import RawRecord, RecordFault, dead_letter, first_faults
from sparkcohort.runtime.shell.kafka.fetch import arrow_rows
from sparkcohort.runtime.shell.kafka.fetch.events import Event, MalformedRecordError, PartitionError, Records
from sparkcohort.runtime.shell.values.by_format import Decoder, Malformed, new_decoder
from sparkcohort.runtime.shell.values.schema_registry import RegistryError
from sparkcohort.runtime.values.columns import (
    CORRUPT,
    ERROR,
    FAULT_COLUMNS,
    Columns,
    Field,
    dead_letter_topic,
    raw_columns,
)
from sparkcohort.runtime.values.formats import DECODER_FAILED, TOO_LARGE, Mode

MOST_MADE = 256 << 20
"""About so many bytes of columns one poll decodes; other records are fetched again.  A null of a struct of many fields is
one byte in a message, so a small batch can become more than there is memory."""
ENOUGH_MEMORY = 64 << 20
TELL_S = 60.0  # one line for each topic and reason in so long
_log = logging.getLogger("sparkcohort.values")


class Attempt(NamedTuple):
    """What becomes of an event; an outcome of None is for rows that are not decoded now: this poll has made enough."""

    event: Event
    outcome: Event | RegistryError | None
    bad: Sequence[RecordFault] = ()
    letters: Sequence[RawRecord] = ()  # for the dead letter topic, before the outcome is delivered


class ValueDecoding:
    """Makes the rows of ``columns`` of those of ``raw_columns(columns)``."""

    def __init__(self, columns: Columns, threads: int, malformed: Counter[tuple[str, str]]) -> None:
        """``threads``: batches are decoded beside each other, by so many at most; ``malformed`` counts, by topic and reason."""
        self._columns, self._malformed = columns, malformed
        self._schema = arrow_rows.schema(columns)
        self._decoded = {each.field: each for each in columns if each.decoding.of_structs and each.field in CORRUPT}
        self._types = {each.field: self._schema.field(each.name).type for each in columns}
        self._raw_names = {each.field: each.name for each in raw_columns(columns)}
        self._writes_letters = bool(dead_letter_topic(columns))
        self._free: SimpleQueue[dict[Field, Decoder]] = SimpleQueue()
        for _ in range(threads):
            self._free.put(
                {c.field: new_decoder(c.decoding, c.type, c.field.name.lower()) for c in self._decoded.values()}
            )
        self._pool = ThreadPoolExecutor(threads, "cohort-decode") if threads > 1 else None
        self._built = 0  # bytes, by this poll
        self._logged_at: dict[tuple[str, str], float] = {}
        self._unlogged: Counter[tuple[str, str]] = Counter()  # since the last line

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def attempts(self, events: Sequence[Event]) -> Iterator[Attempt]:
        """What becomes of the events of one poll, in their order."""
        self._built = 0
        run_all = self._pool.map if self._pool is not None and len(events) > 1 else map
        return chain.from_iterable(run_all(self._attempt, events))

    def _attempt(self, event: Event) -> list[Attempt]:
        """In any thread; counting and logging is left to the thread that polls."""
        if not isinstance(event, Records) or event.batch is None or event.runs is None:
            return [Attempt(event, event)]
        decoders = self._free.get()
        try:
            return self._decode(event, event.batch, event.runs, decoders)
        except RegistryError as error:
            return [Attempt(event, error)]
        finally:
            self._free.put(decoders)

    def _decode(
        self, event: Records, batch: pa.RecordBatch, runs: OffsetRuns, decoders: Mapping[Field, Decoder]
    ) -> list[Attempt]:
        """A batch that its decoder can't read is read in halves: a record that it can't read alone is bad, and costs itself."""
        if self._built > MOST_MADE:
            return [Attempt(event, None)]
        fields: dict[Field, tuple[pa.Array, list[Malformed]]] = {}
        for field, decoder in decoders.items():
            raw = batch.column(self._decoded[field].name)
            headers = batch.column(self._raw_names[Field.HEADERS]) if self._decoded[field].decoding.registry else None
            try:
                fields[field] = decoder(raw, headers)
            except RegistryError:
                raise
            except Exception as error:
                if len(raw) > 1:
                    return list(
                        chain.from_iterable(self._decode(*each, decoders) for each in _halves(event, batch, runs))
                    )
                if isinstance(error, MemoryError) and not _memory_is_left():
                    raise  # the machine has no memory, the record is not bad: the reader tries again
                fields[field] = pa.nulls(1, self._types[field]), [_undecodable(error)]
        attempt = self._row_by_row(event, batch, runs, fields)
        if self._writes_letters and attempt.bad:
            attempt = attempt._replace(letters=self._dead_letters(event, batch, attempt.bad))
        return [attempt]

    def _row_by_row(
        self,
        event: Records,
        batch: pa.RecordBatch,
        runs: OffsetRuns,
        fields: Mapping[Field, tuple[pa.Array, list[Malformed]]],
    ) -> Attempt:
        arrays = {each.field: batch.column(each.name) for each in self._columns if each.field not in FAULT_COLUMNS}
        nbytes, dropped, malformed = event.nbytes, set[int](), list[RecordFault]()
        for field, (decoded, bad) in fields.items():
            raw, arrays[field] = arrays[field], decoded
            for column, value_of in ((CORRUPT[field], partial(_bytes_of, raw)), (ERROR[field], Malformed._asdict)):
                if column in self._types:
                    arrays[column] = _column_of_bad_rows(bad, len(raw), self._types[column], value_of)
                    nbytes += arrays[column].nbytes
            malformed += [RecordFault(row, field, reason, message) for row, reason, message in bad]
            mode = self._decoded[field].decoding.mode
            if bad and mode is Mode.FAILFAST:
                return Attempt(event, self._failure(event, field, bad[0]), malformed)
            if mode is Mode.DROPMALFORMED:
                dropped.update(each.row for each in bad)
            nbytes += arrays[field].nbytes - raw.nbytes
        nbytes -= sum(batch.column(name).nbytes for field, name in self._raw_names.items() if field not in self._types)
        self._built += nbytes  # by several threads: an addition may be lost, and the limit is a rough one
        rows_batch = pa.RecordBatch.from_arrays([arrays[each.field] for each in self._columns], schema=self._schema)
        if not dropped:
            return Attempt(event, Records(event.tp, event.next_offset, rows_batch, nbytes, runs), malformed)
        rows = rows_batch.num_rows
        good_rows = [row for row in range(rows) if row not in dropped]
        if not good_rows:
            return Attempt(event, Records(event.tp, event.next_offset, None, 0), malformed)
        rows_batch, nbytes = rows_batch.take(pa.array(good_rows)), nbytes * len(good_rows) // rows
        records = Records(event.tp, event.next_offset, rows_batch, nbytes, runs.drop_rows(dropped, rows))
        return Attempt(event, records, malformed)

    def _dead_letters(self, event: Records, batch: pa.RecordBatch, bad: Sequence[RecordFault]) -> list[RawRecord]:
        faults = first_faults(bad)
        rows = pa.array([each.row for each in faults])
        # Text may be no UTF-8, and Python's datetimes end with the year 9999.
        types = {
            Field.KEY: pa.binary(),
            Field.VALUE: pa.binary(),
            Field.TIMESTAMP: pa.int64(),
            Field.OFFSET: pa.int64(),
        }
        columns = [
            batch.column(self._raw_names[field]).take(rows).cast(kind).to_pylist() for field, kind in types.items()
        ]
        headers = [
            [(each["key"], each["value"]) for each in header or ()]
            for header in batch.column(self._raw_names[Field.HEADERS]).take(rows).to_pylist()
        ]
        return [
            dead_letter(RawRecord(key, value, own, microseconds // 1000), event.tp, offset, fault)
            for fault, own, key, value, microseconds, offset in zip(faults, headers, *columns, strict=True)
        ]

    def _failure(self, event: Records, field: Field, bad: Malformed) -> PartitionError:
        column, decoding = field.name.lower(), self._decoded[field].decoding
        error = MalformedRecordError(
            f"{_place(event, bad.row)}: the {column} can't be read as {decoding.format}: {bad.message}; {column}.mode="
            f"permissive makes it null, dropmalformed leaves the record out"
        )
        return PartitionError(event.tp, error, event.runs.offset_of(bad.row) if event.runs else -1)

    def note(self, event: Event, bad: Sequence[RecordFault]) -> None:
        """Count what is bad of an event, and log one line for each reason and minute, without the value."""
        if isinstance(event, Records):
            self._malformed.update((event.tp.topic, each.reason) for each in bad)
            for fault in bad:
                self._tell(event, fault)

    def _tell(self, event: Records, bad: RecordFault) -> None:
        key, now = (event.tp.topic, bad.reason), time.monotonic()
        if now - self._logged_at.get(key, float("-inf")) < TELL_S:
            self._unlogged[key] += 1
            return
        self._logged_at[key] = now
        _log.warning(
            "%s: the %s can't be read as %s: %s; %d more of this kind since the last such line",
            _place(event, bad.row),
            bad.field.name.lower(),
            self._decoded[bad.field].decoding.format,
            bad.message,
            self._unlogged.pop(key, 0),
        )


def _undecodable(error: Exception) -> Malformed:
    """Why a decoder gave up on a record that it had alone."""
    if isinstance(error, OverflowError):
        return Malformed(0, TOO_LARGE, "what it becomes is more than a column can hold, or 256 MiB")
    return Malformed(0, DECODER_FAILED, f"the decoder failed with {type(error).__name__}")


def _memory_is_left() -> bool:
    """Whether a decoder that found no memory has met a limit of its own: then there is memory for others."""
    try:
        bytearray(ENOUGH_MEMORY)
    except MemoryError:
        return False
    return True


def _halves(
    event: Records, batch: pa.RecordBatch, runs: OffsetRuns
) -> Iterator[tuple[Records, pa.RecordBatch, OffsetRuns]]:
    rows = batch.num_rows
    mid = rows // 2
    middle = runs.offset_of(mid)
    for dropped, piece, end in ((range(mid, rows), batch[:mid], middle), (range(mid), batch[mid:], event.next_offset)):
        piece_runs = runs.drop_rows(dropped, rows)
        yield Records(event.tp, end, piece, piece.nbytes + piece_runs.nbytes, piece_runs), piece, piece_runs


def _place(event: Records, row: int) -> str:
    offset = event.runs.offset_of(row) if event.runs else "unknown"
    return f"topic {event.tp.topic} partition {event.tp.partition} offset {offset}"


def _bytes_of(raw: pa.Array, bad: Malformed) -> bytes:
    content: bytes = raw[bad.row].as_py()
    return content


def _column_of_bad_rows(
    bad: Sequence[Malformed], rows: int, arrow_type: pa.DataType, value_of: Callable[[Malformed], Any]
) -> pa.Array:
    """What bad rows have; null for the others."""
    values = {each.row: value_of(each) for each in bad}
    return pa.array([values.get(row) for row in range(rows)], arrow_type) if values else pa.nulls(rows, arrow_type)
