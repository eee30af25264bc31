"""What is kept of one partition, who reads it, and how much of it one step hands out; see ``prefetch``."""

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
from sparkcohort.runtime.shell.kafka.fetch.pieces import trim
from sparkcohort.runtime.shell.kafka.fetch.record_source import BATCH_RECORDS

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
    """One range being served: what comes next, and whether it waits for Kafka."""

    index: int
    buffer: Buffer
    at: int
    end: int
    topic_id: str = ""  # of the topic that it is planned of, if that is known
    waiting: bool = False

    @property
    def strange(self) -> bool:
        """Whether what is buffered, or comes next, is of another topic of that name: deleted, and made anew."""
        return "" not in (self.topic_id, self.buffer.topic_id) and self.topic_id != self.buffer.topic_id

    @property
    def limit(self) -> int:
        """Up to where it is given what is buffered."""
        return min(self.buffer.sure, self.buffer.position) if self.topic_id else self.buffer.position

    def hopeless(self, share: int) -> str:
        """Why its next offset won't be buffered, while its partition is owned and may keep so many bytes; empty if it is or may be."""
        buffer = self.buffer
        if self.at < buffer.base:
            return "evicted"
        if self.strange:
            return "of another topic of that name"
        if self.at >= buffer.position and (buffer.error or buffer.silent):
            return buffer.error or buffer.silent
        if self.at > buffer.position and buffer.nbytes >= share:
            return "too far ahead"
        return ""


class TaskWait:
    """A task that waits for records of any of its ranges, and from when on that hasn't been counted yet."""

    __slots__ = ("began", "readers", "since")

    def __init__(self, readers: Sequence[Reader]) -> None:
        self.readers = readers
        self.began = self.since = time.monotonic()


@dataclass(slots=True, eq=False)
class Buffer:
    """One owned partition; see the module's description."""

    tp: TopicPartition
    base: int
    position: int
    planned_start: int
    plan_seq: int = -1
    topic_id: str = ""  # of the topic that the records are of, as far as the client, or else the plan, tells
    sure: int = -1  # below this offset they certainly are; see ``unidentified_records``
    served: int = 0  # the highest offset handed out
    left: int = -1  # where fetching stood before it was moved: an error from there is of the past
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
    def waiting(self) -> bool:
        """Whether a task waits for the very next record; one that waits for later ones has no claim to room."""
        return any(reader.waiting and reader.at == self.position for reader in self.readers)

    def append(self, chunk: Chunk, *, told: bool = True) -> None:
        """Put a chunk behind the last one; ``told``: the client says that it is of this topic."""
        self.chunks.append(chunk)
        self.nbytes += chunk.nbytes
        if chunk.batch is not None:
            self.records_in += chunk.batch.num_rows
            self.bytes_in += chunk.nbytes - CHUNK_OVERHEAD
        self.position, self.error, self.failures = chunk.next_offset, "", 0
        if told:
            self.sure = self.position

    def move(self, to: int) -> None:
        """Start anew at an offset."""
        self.chunks.clear()
        self.left = self.position
        self.base = self.position = self.served = self.sure = to
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
        found = (chunk.first_from(position) for chunk in self.chunks[index:])
        return next((seen for seen in found if seen is not None), None)

    def released_offset(self) -> int:
        """Up to here everything has been handed out, and nobody is reading it."""
        return min([self.served, *(reader.at for reader in self.readers)])


def evict_for_waiting(buffers: Iterable[Buffer], over: int) -> None:
    """Make room for those who wait: far ends first, where nobody reads before where somebody does.

    What a reader takes next stays: two who wait would else evict each other's records for ever.
    """
    for buffer in sorted(buffers, key=lambda b: (bool(b.readers), -b.nbytes)):
        kept = max((reader.at for reader in buffer.readers), default=-1)
        while over > 0 and buffer.chunks and buffer.chunks[-1].start > kept:
            over -= buffer.drop_tail()
        past = min((reader.at for reader in buffer.readers), default=-1)
        while over > 0 and buffer.chunks and buffer.chunks[0].next_offset <= past:
            over -= buffer.drop_head()


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
        buffer, taken = reader.buffer, 0
        index = bisect_right(buffer.chunks, reader.at, key=attrgetter("next_offset"))
        for chunk in buffer.chunks[index : index + 1000]:
            if reader.at >= min(reader.end, reader.limit) or not self._fits(chunk):
                break
            part = None
            if chunk.batch is not None and chunk.runs is not None:
                part = trim(chunk.batch, chunk.runs, reader.at, reader.end)
            if part is not None:
                self.batches.append(part)
                self._rows, self._nbytes = self._rows + part.num_rows, self._nbytes + chunk.nbytes - CHUNK_OVERHEAD
                taken += part.nbytes
            reader.at = min(chunk.next_offset, reader.end)
        return taken

    def _fits(self, chunk: Chunk) -> bool:
        rows = chunk.batch.num_rows if chunk.batch else 0
        own = chunk.nbytes - CHUNK_OVERHEAD
        large = max(rows, self._rows) >= WHOLE_ROWS or max(own, self._nbytes) >= WHOLE_BYTES
        if self.batches and (large or self._rows + rows > BATCH_RECORDS or self._nbytes + own > self._limit):
            self.full = True
        return not self.full


def dismiss(readers: Iterable[Reader]) -> None:
    """They read no more: what they stood at is no longer kept for them."""
    for reader in readers:
        if reader in reader.buffer.readers:
            reader.buffer.readers.remove(reader)


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch | None:
    """One batch of all rows; None when there are none."""
    if len(batches) <= 1:
        return batches[0] if batches else None
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
