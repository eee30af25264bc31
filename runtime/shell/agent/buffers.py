"""One partition's buffer, its readers, and how much of it one step hands out; see ``prefetch``."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
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
    is_waiting: bool = False

    @property
    def is_recreated(self) -> bool:
        """Whether the buffer is of another topic of that name: one was deleted, and recreated."""
        return "" not in (self.topic_id, self.buffer.topic_id) and self.topic_id != self.buffer.topic_id

    @property
    def limit(self) -> int:
        """The offset up to which it is served."""
        return min(self.buffer.sure, self.buffer.position) if self.topic_id else self.buffer.position

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


class TaskWait:
    """A task that waits for records of any of its ranges, and up to when its wait has been counted."""

    __slots__ = ("began", "counted_at", "readers")

    def __init__(self, readers: Sequence[Reader]) -> None:
        self.readers = readers
        self.began = self.counted_at = time.monotonic()


@dataclass(slots=True, eq=False)
class Buffer:
    """One owned partition; see the module's description."""

    tp: TopicPartition
    base: int
    position: int
    planned_start: int
    plan_seq: int = -1
    topic_id: str = ""  # of the records' topic, by the client, or else by the plan
    sure: int = -1  # below this offset it is confirmed; see ``unidentified_records``
    served: int = 0  # the highest offset handed out
    moved_from: int = -1  # where fetching stood before it was moved: an error from there is of the past
    chunks: list[Chunk] = field(default_factory=list)
    nbytes: int = 0
    readers: list[Reader] = field(default_factory=list)
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
        return any(reader.is_waiting and reader.position == self.position for reader in self.readers)

    def append(self, chunk: Chunk, *, identified: bool = True) -> None:
        """Put a chunk behind the last one; ``identified``: the client tells its topic's id."""
        self.chunks.append(chunk)
        self.nbytes += chunk.nbytes
        if chunk.batch is not None:
            self.records_in += chunk.batch.num_rows
            self.bytes_in += chunk.nbytes - CHUNK_OVERHEAD
        self.position, self.error, self.failures = chunk.next_offset, "", 0
        if identified:
            self.sure = self.position

    def move(self, offset: int) -> None:
        """Drop all chunks, and begin at an offset."""
        self.chunks.clear()
        self.moved_from = self.position
        self.base = self.position = self.served = self.sure = offset
        self.nbytes, self.live, self.error, self.retry_at, self.failures = 0, False, "", 0.0, 0
        self.topic_id = ""

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
        self.sure = min(self.sure, self.position)
        return chunk.nbytes

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
            if reader.position >= min(reader.end, reader.limit) or not self._fits(chunk):
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
