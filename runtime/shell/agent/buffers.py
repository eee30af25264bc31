"""One partition's buffer, its readers, and how much of it one step hands out; see ``prefetch``."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

import pyarrow as pa

from sparkcohort.runtime.batches.offset_runs import OffsetRuns
from sparkcohort.runtime.batches.record_ages import FirstRecord
from sparkcohort.runtime.batches.record_sizes import WHOLE_BYTES, WHOLE_ROWS
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.events import BATCH_RECORDS, trim

MICROSECONDS = 1000  # of a millisecond
SHORT_S = 0.1
CHUNK_OVERHEAD = 6 << 10  # what a chunk costs beside its columns' bytes, as measured: blocks, and Arrow's objects


class Chunk(NamedTuple):
    """Offsets [start, next_offset), whose visible records are the batch."""

    start: int
    next_offset: int
    batch: pa.RecordBatch | None
    nbytes: int
    runs: OffsetRuns | None = None  # the offsets of the batch's rows
    times: pa.Array | None = None  # and their timestamps

    def first_from(self, position: int) -> FirstRecord | None:
        """Its first record at or after a position."""
        if self.batch is None or self.runs is None or self.times is None:
            return None
        row = self.runs.rows_below(position, self.batch.num_rows)
        if row == self.batch.num_rows:
            return None
        return FirstRecord(position, self.runs.offset_of(row), self.times[row].value // MICROSECONDS)


@dataclass(slots=True, eq=False)
class Reader:
    """One range being served: its next offset, and whether it waits for Kafka."""

    index: int
    buffer: Buffer
    position: int
    end: int
    topic_id: str = ""  # the plan's, if it is known
    waits_since: float | None = None  # where a task waits for records of this or another range
    counted_at: float = 0.0  # up to here its wait has been counted

    @property
    def is_recreated(self) -> bool:
        """Whether the buffer is of another topic of that name: one was deleted, and recreated."""
        return "" not in (self.topic_id, self.buffer.topic_id) and self.topic_id != self.buffer.topic_id

    def begin_wait(self, now: float) -> None:
        """The task waits for records."""
        self.waits_since = self.counted_at = now

    def end_wait(self, now: float) -> None:
        """It waits no more."""
        self.count_wait(now)
        self.waits_since = None

    def count_wait(self, now: float) -> None:
        """Add a wait to its partition's.  A short one doesn't count: a task faster than Kafka waits between any two fetches."""
        if self.waits_since is not None and now - self.waits_since >= SHORT_S:
            self.buffer.waited_s += now - self.counted_at
            self.counted_at = now

    def miss_reason(self, share: int) -> str:
        """Why its next offset won't be buffered, while its partition is owned and may keep so many bytes; empty if it is or may be."""
        buffer = self.buffer
        if self.position < buffer.base:
            return "evicted"
        if self.is_recreated:
            return "of another topic of that name"
        if self.position >= buffer.position and (buffer.error or buffer.silent):
            return buffer.error or buffer.silent
        if self.position > buffer.position and buffer.nbytes >= share:
            return "too far ahead"
        return ""


@dataclass(slots=True, eq=False)
class Buffer:
    """One owned partition; see the module's description."""

    tp: TopicPartition
    base: int
    position: int
    planned_start: int
    plan_seq: int = -1
    topic_id: str = ""  # of the records' topic, by the client, or else by the plan
    served: int = 0  # the highest offset handed out
    moved_from: int = -1  # where fetching stood before it was moved: an error from there is of the past
    chunks: list[Chunk] = field(default_factory=list)
    nbytes: int = 0
    readers: list[Reader] = field(default_factory=list)
    waited_s: float = 0.0  # of tasks, since the last report
    live: bool = False
    error: str = ""
    silent: str = ""  # that its leader doesn't answer here, in words
    retry_at: float = 0.0
    failures: int = 0  # at a record that can't be had
    records_in: int = 0
    bytes_in: int = 0

    @property
    def has_waiter(self) -> bool:
        """Whether a task waits for the very next record; one that waits for later ones has no claim to room."""
        return any(reader.waits_since is not None and reader.position == self.position for reader in self.readers)

    def append(self, chunk: Chunk) -> None:
        """Put a chunk behind the last one."""
        self.chunks.append(chunk)
        self.nbytes += chunk.nbytes
        if chunk.batch is not None:
            self.records_in += chunk.batch.num_rows
            self.bytes_in += chunk.nbytes - CHUNK_OVERHEAD
        self.position, self.error, self.failures = chunk.next_offset, "", 0

    def move(self, offset: int) -> None:
        """Drop all chunks, and begin at an offset."""
        self.chunks.clear()
        self.moved_from = self.position
        self.base = self.position = self.served = offset
        self.nbytes, self.live, self.error, self.retry_at, self.failures = 0, False, "", 0.0, 0
        self.topic_id = ""

    def follow_plan(self, planned_start: int, plan_seq: int, topic_id: str, *, client_tells_ids: bool) -> None:
        """Drop what no plan will read again."""
        if plan_seq <= self.plan_seq:
            return
        # A planned start that goes down means that the topic was recreated: what is buffered is of another log.
        # A client that tells no ids may have fetched it from another topic of this name than the plan's.
        unidentified = topic_id and not client_tells_ids
        recreated = topic_id not in ("", self.topic_id) and bool(self.topic_id or unidentified)
        if recreated or planned_start > self.position or planned_start < self.planned_start:
            self.move(planned_start)
        self.plan_seq, self.planned_start = plan_seq, planned_start
        self.topic_id = topic_id if unidentified else self.topic_id
        while self.chunks and self.chunks[0].next_offset <= planned_start:
            self.drop_head()

    def drop_head(self) -> int:
        """Give up the first chunk; returns its bytes."""
        chunk = self.chunks.pop(0)
        self.nbytes -= chunk.nbytes
        self.base = chunk.next_offset
        return chunk.nbytes

    def drop_tail(self) -> int:
        """Give up the last chunk, to be fetched again; returns its bytes."""
        chunk = self.chunks.pop()
        self.nbytes -= chunk.nbytes
        self.position, self.live = chunk.start, False
        return chunk.nbytes

    def take_wait(self, now: float) -> float:
        """The seconds that tasks have waited since the last call."""
        for reader in self.readers:
            reader.count_wait(now)
        waited_s, self.waited_s = self.waited_s, 0.0
        return waited_s

    def first_from(self, position: int) -> FirstRecord | None:
        """The first record at or after a position; None if it isn't buffered."""
        if position < self.base:
            return None
        index = bisect_right(self.chunks, position, key=attrgetter("next_offset"))
        records = (chunk.first_from(position) for chunk in self.chunks[index:])
        return next((record for record in records if record is not None), None)

    def released_offset(self) -> int:
        """Up to here everything has been handed out, and no reader needs it."""
        return min([self.served, *(reader.position for reader in self.readers)])


def evict_for_waiting(buffers: Iterable[Buffer], excess: int) -> None:
    """Make room for waiting tasks: the ends of buffers first, those without a reader before the others.

    A reader's next chunk stays, else two waiting tasks would evict each other's records for ever.
    """
    for buffer in sorted(buffers, key=lambda b: (bool(b.readers), -b.nbytes)):
        furthest = max((reader.position for reader in buffer.readers), default=-1)
        while excess > 0 and buffer.chunks and buffer.chunks[-1].start > furthest:
            excess -= buffer.drop_tail()
        past = min((reader.position for reader in buffer.readers), default=-1)
        while excess > 0 and buffer.chunks and buffer.chunks[0].next_offset <= past:
            excess -= buffer.drop_head()


class BufferLoad:
    """What one step hands out: up to about one batch's worth, gathered from any number of buffers.

    A chunk that is large goes by itself: to join it with others would be a copy more.
    """

    def __init__(self, limit: int) -> None:
        """``limit``: bytes; at least one chunk is taken whatever its size."""
        self.batches: list[pa.RecordBatch] = []
        self.full = False
        self._limit = limit
        self._rows = self._nbytes = 0

    def take(self, reader: Reader) -> int:
        """Move a reader as far as its buffer, its end and the room here allow; returns the bytes that it gets."""
        buffer, nbytes = reader.buffer, 0
        index = bisect_right(buffer.chunks, reader.position, key=attrgetter("next_offset"))
        for chunk in buffer.chunks[index : index + 1000]:
            if reader.position >= min(reader.end, buffer.position) or not self._fits(chunk):
                break
            part = None
            if chunk.batch is not None and chunk.runs is not None:
                part = trim(chunk.batch, chunk.runs, reader.position, reader.end)
            if part is not None:
                self.batches.append(part)
                self._rows, self._nbytes = self._rows + part.num_rows, self._nbytes + chunk.nbytes - CHUNK_OVERHEAD
                nbytes += part.nbytes
            reader.position = min(chunk.next_offset, reader.end)
        return nbytes

    def _fits(self, chunk: Chunk) -> bool:
        rows = chunk.batch.num_rows if chunk.batch else 0
        own = chunk.nbytes - CHUNK_OVERHEAD
        large = max(rows, self._rows) >= WHOLE_ROWS or max(own, self._nbytes) >= WHOLE_BYTES
        if self.batches and (large or self._rows + rows > BATCH_RECORDS or self._nbytes + own > self._limit):
            self.full = True
        return not self.full


def remove_readers(readers: Iterable[Reader]) -> None:
    """Remove readers from their buffers, which need not keep their next records any more."""
    for reader in readers:
        if reader in reader.buffer.readers:
            reader.buffer.readers.remove(reader)


def concat_batches(batches: list[pa.RecordBatch]) -> pa.RecordBatch | None:
    """One batch of all rows; None when there are none."""
    if len(batches) <= 1:
        return batches[0] if batches else None
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
