"""What is inside of keys and values, as columns: a source around the one that has the bytes.

The agent and a task that reads by itself have the same one, so a record decodes to the same row wherever it is read, and
whenever it is read again.  One bad record costs itself.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from itertools import chain
from queue import SimpleQueue
from typing import NamedTuple

import pyarrow as pa

from sparkcohort.runtime.batches.offset_runs import OffsetRuns
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch import arrow_rows
from sparkcohort.runtime.shell.kafka.fetch.record_source import (
    BATCH_RECORDS,
    Event,
    MalformedRecordError,
    PartitionError,
    Records,
    RecordSource,
)
from sparkcohort.runtime.shell.values.by_format import Decoder, Malformed, new_decoder
from sparkcohort.runtime.shell.values.schema_registry import RegistryError
from sparkcohort.runtime.values.columns import CORRUPT, Columns, Field, raw_columns
from sparkcohort.runtime.values.formats import DECODER_FAILED, TOO_LARGE, Mode

HOLD_S, MOST_HOLD_S = 0.1, 2.0  # between attempts at records whose schema is not there
MOST_MADE = 256 << 20
"""About so many bytes of columns one poll decodes; other records are fetched again.  A null of a struct of many fields is
one byte in a message, so a small batch can become more than there is memory."""
ENOUGH_MEMORY = 64 << 20
TELL_S = 60.0  # one line for each topic and reason in so long
_log = logging.getLogger("sparkcohort.values")


class _BadValue(NamedTuple):
    field: Field
    fault: Malformed


class _Refetch(Enum):
    """In place of rows that are not decoded now."""

    POLL_IS_FULL = "this poll has made enough"


class _Attempt(NamedTuple):
    event: Event
    outcome: Event | RegistryError | _Refetch
    bad: list[_BadValue]


class DecodingSource(RecordSource):
    """See ``RecordSource``; ``source`` gives ``raw_columns(columns)``, and is this one's own from now on."""

    def __init__(self, source: RecordSource, columns: Columns, threads: int = 1) -> None:
        """``threads``: batches are decoded beside each other, by so many at most."""
        self._source, self._columns = source, columns
        self._schema = arrow_rows.schema(columns)
        self._decoded = {each.field: each for each in columns if each.decoding.of_structs and each.field in CORRUPT}
        self._fields = {each.field for each in columns}
        self._headers = next((each.name for each in raw_columns(columns) if each.field is Field.HEADERS), "")
        self._free: SimpleQueue[dict[Field, Decoder]] = SimpleQueue()
        for _ in range(threads):
            self._free.put(
                {c.field: new_decoder(c.decoding, c.type, c.field.name.lower()) for c in self._decoded.values()}
            )
        self._pool = ThreadPoolExecutor(threads, "cohort-decode") if threads > 1 else None
        self._spans: dict[TopicPartition, tuple[int, int]] = {}  # what has not been delivered of what is assigned
        # Until when a partition waits for a schema or the next poll; nothing of it is fetched.
        self._resume_at: dict[TopicPartition, float] = {}
        self._pauses: dict[TopicPartition, float] = {}  # the last one, of those that have waited for their next record
        self._failed: set[TopicPartition] = set()
        self._built = 0  # bytes, by this poll
        self.malformed: Counter[tuple[str, str]] = Counter()
        self._logged_at: dict[tuple[str, str], float] = {}
        self._unlogged: Counter[tuple[str, str]] = Counter()  # since the last line

    def poll(self, timeout_s: float, records: int = BATCH_RECORDS) -> list[Event]:
        """As ``RecordSource``; nothing of a partition, as long as the schema of its next record can't be had."""
        self._resume()
        self._built = 0
        events = self._source.poll(timeout_s, records)
        run_all = self._pool.map if self._pool is not None and len(events) > 1 else map
        results: list[Event] = []
        for event, outcome, bad in chain.from_iterable(run_all(self._attempt, events)):
            if event.tp in self._resume_at or event.tp in self._failed or event.tp not in self._spans:
                continue  # it was given up for another batch of this poll: positions move in order
            if isinstance(outcome, RegistryError):
                self._hold(event.tp, outcome)
            elif isinstance(outcome, _Refetch):
                self._source.unassign([event.tp])
                self._resume_at[event.tp] = 0.0
            else:
                results.append(outcome)
                self._note(event, outcome, bad)
        return results

    def _hold(self, tp: TopicPartition, error: RegistryError) -> None:
        """Throw away records that wait for their schema, and fetch them again later: kept, they would count for no limit."""
        self.last_error = str(error)
        self._source.unassign([tp])
        pause = min(2 * self._pauses.get(tp, HOLD_S / 2), MOST_HOLD_S)
        self._pauses[tp] = pause
        self._resume_at[tp] = time.monotonic() + pause

    def _resume(self) -> None:
        now = time.monotonic()
        due = [tp for tp, time_s in self._resume_at.items() if time_s <= now] if self._resume_at else []
        for tp in due:
            del self._resume_at[tp]
        if due:
            self._source.assign({tp: self._spans[tp] for tp in due})

    def _attempt(self, event: Event) -> list[_Attempt]:
        """In any thread; counting and logging is left to the thread that polls."""
        if not isinstance(event, Records) or event.batch is None or event.runs is None:
            return [_Attempt(event, event, [])]
        decoders = self._free.get()
        try:
            return self._decode(event, event.batch, event.runs, decoders)
        except RegistryError as error:
            return [_Attempt(event, error, [])]
        finally:
            self._free.put(decoders)

    def _decode(
        self, event: Records, batch: pa.RecordBatch, runs: OffsetRuns, decoders: Mapping[Field, Decoder]
    ) -> list[_Attempt]:
        """A batch that its decoder can't read is read in halves: a record that it can't read alone is bad, and costs itself."""
        if self._built > MOST_MADE:
            return [_Attempt(event, _Refetch.POLL_IS_FULL, [])]
        fields: dict[Field, tuple[pa.Array, list[Malformed]]] = {}
        for field, decoder in decoders.items():
            raw = batch.column(self._decoded[field].name)
            headers = batch.column(self._headers) if self._decoded[field].decoding.registry else None
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
                nulls = pa.nulls(1, self._schema.field(self._decoded[field].name).type)
                fields[field] = nulls, [_undecodable(error)]
        return [self._row_by_row(event, batch, runs, fields)]

    def _row_by_row(
        self,
        event: Records,
        batch: pa.RecordBatch,
        runs: OffsetRuns,
        fields: Mapping[Field, tuple[pa.Array, list[Malformed]]],
    ) -> _Attempt:
        arrays = {each.field: batch.column(each.name) for each in self._columns if each.field not in CORRUPT.values()}
        nbytes, dropped, malformed = event.nbytes, set[int](), list[_BadValue]()
        for field, (decoded, bad) in fields.items():
            raw, arrays[field] = arrays[field], decoded
            arrays[CORRUPT[field]] = _bad_bytes(raw, bad)
            malformed += [_BadValue(field, each) for each in bad]
            mode = self._decoded[field].decoding.mode
            if bad and mode is Mode.FAILFAST:
                return _Attempt(event, self._failure(event, field, bad[0]), malformed)
            if mode is Mode.DROPMALFORMED:
                dropped.update(each.row for each in bad)
            nbytes += arrays[field].nbytes - raw.nbytes
            nbytes += arrays[CORRUPT[field]].nbytes if CORRUPT[field] in self._fields else 0
        if self._headers and Field.HEADERS not in self._fields:
            nbytes -= batch.column(self._headers).nbytes
        self._built += nbytes  # by several threads: an addition may be lost, and the limit is a rough one
        rows_batch = pa.RecordBatch.from_arrays([arrays[each.field] for each in self._columns], schema=self._schema)
        if not dropped:
            return _Attempt(event, Records(event.tp, event.next_offset, rows_batch, nbytes, runs), malformed)
        rows = rows_batch.num_rows
        good_rows = [row for row in range(rows) if row not in dropped]
        if not good_rows:
            return _Attempt(event, Records(event.tp, event.next_offset, None, 0), malformed)
        rows_batch, nbytes = rows_batch.take(pa.array(good_rows)), nbytes * len(good_rows) // rows
        records = Records(event.tp, event.next_offset, rows_batch, nbytes, runs.drop_rows(dropped, rows))
        return _Attempt(event, records, malformed)

    def _failure(self, event: Records, field: Field, bad: Malformed) -> PartitionError:
        column, decoding = field.name.lower(), self._decoded[field].decoding
        error = MalformedRecordError(
            f"{_place(event, bad.row)}: the {column} can't be read as {decoding.format}: {bad.message}; {column}.mode="
            f"permissive makes it null, dropmalformed leaves the record out"
        )
        return PartitionError(event.tp, error, event.runs.offset_of(bad.row) if event.runs else -1)

    def _note(self, event: Event, outcome: Event, malformed: list[_BadValue]) -> None:
        if not isinstance(event, Records):
            return
        self._spans[event.tp] = event.next_offset, self._spans[event.tp][1]
        self._pauses.pop(event.tp, None)
        self.malformed.update((event.tp.topic, bad.reason) for _, bad in malformed)
        for field, bad in malformed:
            self._tell(event, field, bad)
        if isinstance(outcome, PartitionError):
            self._failed.add(outcome.tp)
            self._source.unassign([outcome.tp])

    def _tell(self, event: Records, field: Field, bad: Malformed) -> None:
        """One line for each reason and minute, without the value."""
        key, now = (event.tp.topic, bad.reason), time.monotonic()
        if now - self._logged_at.get(key, float("-inf")) < TELL_S:
            self._unlogged[key] += 1
            return
        self._logged_at[key] = now
        _log.warning(
            "%s: the %s can't be read as %s: %s; %d more of this kind since the last such line",
            _place(event, bad.row),
            field.name.lower(),
            self._decoded[field].decoding.format,
            bad.message,
            self._unlogged.pop(key, 0),
        )

    def assign(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """See ``RecordSource``."""
        self._forget(spans)
        self._spans.update(spans)
        self._source.assign(spans)

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """See ``RecordSource``."""
        partitions = list(partitions)
        self._forget(partitions)
        self._source.unassign(partitions)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._failed.discard(tp)
            for entries in (self._spans, self._resume_at, self._pauses):
                entries.pop(tp, None)

    def close(self) -> None:
        """See ``RecordSource``."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._source.close()

    # --- what the bytes' source does by itself ---

    @property
    def last_error(self) -> str:
        """See ``RecordSource``."""
        return self._source.last_error

    @last_error.setter
    def last_error(self, error: str) -> None:
        """Replace it."""
        self._source.last_error = error

    @property
    def complaints(self) -> set[int]:  # type: ignore[override]
        """See ``RecordSource``."""
        return self._source.complaints

    @property
    def tells_ids(self) -> bool:  # type: ignore[override]
        """See ``RecordSource``."""
        return self._source.tells_ids

    def prepare(self) -> None:
        """See ``RecordSource``."""
        self._source.prepare()

    def share(self) -> float:
        """See ``RecordSource``."""
        return self._source.share()

    def pace(self, seconds: float) -> None:
        """See ``RecordSource``."""
        self._source.pace(seconds)

    def wake(self) -> None:
        """See ``RecordSource``."""
        self._source.wake()

    def log_range(self, tp: TopicPartition, timeout_s: float) -> tuple[int, int]:
        """See ``RecordSource``."""
        return self._source.log_range(tp, timeout_s)

    def log_end(self, tp: TopicPartition) -> int | None:
        """See ``RecordSource``."""
        return self._source.log_end(tp)

    def topic_id(self, tp: TopicPartition) -> str:
        """See ``RecordSource``."""
        return self._source.topic_id(tp)

    def silence(self) -> Mapping[TopicPartition, float] | None:
        """See ``RecordSource``."""
        return self._source.silence()

    def throttled_s(self) -> float | None:
        """See ``RecordSource``."""
        return self._source.throttled_s()

    def exists(self, tp: TopicPartition, timeout_s: float) -> bool:
        """See ``RecordSource``."""
        return self._source.exists(tp, timeout_s)


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


def _bad_bytes(raw: pa.Array, bad: list[Malformed]) -> pa.Array:
    """The bytes of bad rows, null for the others."""
    if not bad:
        return pa.nulls(len(raw), pa.binary())
    rows = {each.row for each in bad}
    return pa.array([raw[row].as_py() if row in rows else None for row in range(len(raw))], pa.binary())
