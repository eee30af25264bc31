"""What is inside of keys and values, as columns: a source around the one that has the bytes.

The agent and a task that reads by itself have the same one, so a record decodes to the same row wherever it is read, and
whenever it is read again.  One bad record costs itself.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import NamedTuple

import pyarrow as pa

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.consumer import arrow_rows
from sparkcohort.runtime.shell.kafka.consumer.record_source import (
    BATCH_RECORDS,
    Event,
    MalformedRecordError,
    PartitionError,
    Records,
    RecordSource,
)
from sparkcohort.runtime.shell.registry.schema_registry import RegistryError
from sparkcohort.runtime.shell.values.by_format import Decoder, Malformed, new_decoder
from sparkcohort.runtime.values.columns import CORRUPT, Columns, Field
from sparkcohort.runtime.values.formats import Mode

TELL_S = 60.0  # one line for each topic and reason in so long
_log = logging.getLogger("sparkcohort.values")


class _Bad(NamedTuple):
    of: Field
    what: Malformed


class DecodingSource(RecordSource):
    """See ``RecordSource``; ``source`` gives ``raw_columns(columns)``, and is this one's own from now on."""

    def __init__(self, source: RecordSource, columns: Columns, threads: int = 1) -> None:
        """``threads``: batches are decoded beside each other, by so many at most."""
        self._source, self._columns = source, columns
        self._schema = arrow_rows.schema(columns)
        self._decoded = {each.field: each for each in columns if each.decoding.of_structs and each.field in CORRUPT}
        self._free: SimpleQueue[dict[Field, Decoder]] = SimpleQueue()
        for _ in range(threads):
            self._free.put({of: new_decoder(each.decoding, each.type) for of, each in self._decoded.items()})
        self._pool = ThreadPoolExecutor(threads, "cohort-decode") if threads > 1 else None
        self._undecoded: list[Event] = []  # they wait for a schema
        self._failed: set[TopicPartition] = set()
        self.malformed: Counter[tuple[str, str]] = Counter()  # by topic and reason
        self._told: dict[tuple[str, str], tuple[float, int]] = {}

    def poll(self, timeout_s: float, records: int = BATCH_RECORDS) -> list[Event]:
        """As ``RecordSource``; nothing, as long as the schema of the next record can't be had."""
        events = self._undecoded or self._source.poll(timeout_s, records)
        self._undecoded = []
        beside = self._pool.map if self._pool is not None and len(events) > 1 else map
        found: list[Event] = []
        for before, (after, bad) in zip(events, beside(self._attempt, events), strict=True):
            # What comes behind a batch that waits has to wait, too: the positions of a partition move in order.
            if isinstance(after, RegistryError) or self._undecoded:
                self.last_error = str(after) if isinstance(after, RegistryError) else self.last_error
                self._undecoded.append(before)
            elif after.tp not in self._failed:
                found.append(after)
                self._note(before, after, bad)
        return found

    def _attempt(self, event: Event) -> tuple[Event | RegistryError, list[_Bad]]:
        """In any thread; what is counted and told waits for the one that polls."""
        if not isinstance(event, Records) or event.batch is None:
            return event, []
        decoders = self._free.get()
        try:
            return self._row_by_row(event, event.batch, decoders)
        except RegistryError as error:
            return error, []
        finally:
            self._free.put(decoders)

    def _row_by_row(
        self, event: Records, batch: pa.RecordBatch, decoders: Mapping[Field, Decoder]
    ) -> tuple[Event, list[_Bad]]:
        arrays = {each.field: batch.column(each.name) for each in self._columns if each.field not in CORRUPT.values()}
        nbytes, dropped, malformed = event.nbytes, set[int](), list[_Bad]()
        for of, decoder in decoders.items():
            raw = arrays[of]
            arrays[of], bad = decoder(raw)
            arrays[CORRUPT[of]] = _only(raw, bad)
            malformed += [_Bad(of, each) for each in bad]
            mode = self._decoded[of].decoding.mode
            if bad and mode is Mode.FAILFAST:
                return self._failure(event, of, bad[0]), malformed
            if mode is Mode.DROPMALFORMED:
                dropped.update(each.row for each in bad)
            nbytes += arrays[of].nbytes - raw.nbytes
        made = pa.RecordBatch.from_arrays([arrays[each.field] for each in self._columns], schema=self._schema)
        if not dropped:
            return Records(event.tp, event.next_offset, made, nbytes, event.runs), malformed
        rows = made.num_rows
        kept = [row for row in range(rows) if row not in dropped]
        if not kept or event.runs is None:
            return Records(event.tp, event.next_offset, None, 0), malformed
        made, nbytes = made.take(pa.array(kept)), nbytes * len(kept) // rows
        return Records(event.tp, event.next_offset, made, nbytes, event.runs.without(dropped, rows)), malformed

    def _failure(self, event: Records, of: Field, bad: Malformed) -> PartitionError:
        which, decoding = of.name.lower(), self._decoded[of].decoding
        error = MalformedRecordError(
            f"{_place(event, bad.row)}: the {which} can't be read as {decoding.format}: {bad.message}; {which}.mode="
            f"permissive makes it null, dropmalformed leaves the record out"
        )
        return PartitionError(event.tp, error, event.runs.offset_of(bad.row) if event.runs else -1)

    def _note(self, before: Event, after: Event, malformed: list[_Bad]) -> None:
        if not isinstance(before, Records):
            return
        self.malformed.update((before.tp.topic, bad.reason) for _, bad in malformed)
        for of, bad in malformed:
            self._tell(before, of, bad)
        if isinstance(after, PartitionError):
            self._failed.add(after.tp)
            self._source.unassign([after.tp])

    def _tell(self, event: Records, of: Field, bad: Malformed) -> None:
        """One line for each reason and minute, without the value."""
        key, now = (event.tp.topic, bad.reason), time.monotonic()
        at, told = self._told.get(key, (float("-inf"), 0))
        if now - at < TELL_S:
            return
        self._told[key] = now, self.malformed[key]
        _log.warning(
            "%s: the %s can't be read as %s: %s; %d more of this kind since the last such line",
            _place(event, bad.row),
            of.name.lower(),
            self._decoded[of].decoding.format,
            bad.message,
            max(self.malformed[key] - told - 1, 0),
        )

    def assign(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """See ``RecordSource``."""
        self._forget(spans)
        self._source.assign(spans)

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """See ``RecordSource``."""
        gone = list(partitions)
        self._forget(gone)
        self._source.unassign(gone)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        gone = set(partitions)
        self._failed -= gone
        self._undecoded = [each for each in self._undecoded if each.tp not in gone]

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
    def last_error(self, said: str) -> None:
        """What is to be said of it from now on."""
        self._source.last_error = said

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

    def exists(self, tp: TopicPartition, timeout_s: float) -> bool:
        """See ``RecordSource``."""
        return self._source.exists(tp, timeout_s)


def _place(event: Records, row: int) -> str:
    offset = event.runs.offset_of(row) if event.runs else "unknown"
    return f"topic {event.tp.topic} partition {event.tp.partition} offset {offset}"


def _only(raw: pa.Array, bad: list[Malformed]) -> pa.Array:
    """The bytes of bad rows, null for the others."""
    if not bad:
        return pa.nulls(len(raw), pa.binary())
    wanted = {each.row for each in bad}
    return pa.array([raw[row].as_py() if row in wanted else None for row in range(len(raw))], pa.binary())
