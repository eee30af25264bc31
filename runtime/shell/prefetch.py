"""Fetching ahead: what the member owns, kept as Arrow in a bounded buffer until the tasks ask for it.

A cache and nothing more: whatever it can't serve is a ``Miss`` that says where it stands, and the task reads the rest
from Kafka by itself.  Every partition's buffer is one gapless run of chunks ``[base, position)``; records only ever
come from the broker in order behind ``position``, so a served range is byte for byte what a direct read gives.

One thread talks to Kafka; those that serve wait on one condition.  A partition is *live* while what the client fetches
continues its buffer: whoever moves ``position`` any other way takes the mark away, and the thread fetches from there.
"""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa

from sparkcohort.runtime.protocol import Range, TopicPartition
from sparkcohort.runtime.shell.drain import (
    BATCH_BYTES,
    BATCH_RECORDS,
    Drain,
    EndOfLog,
    Event,
    PartitionError,
    Records,
)
from sparkcohort.runtime.shell.fetch import trim

POLL_S = 0.05
RETRY_S = 1.0
PATIENCE_S = 5.0
NO_END = 2**63 - 1
CHUNK_OVERHEAD = 1 << 10  # what a chunk costs beside its columns

_log = logging.getLogger("sparkcohort.prefetch")


class Miss(Exception):
    """The buffer can't go on; everything before ``next_offset`` has been handed out, the rest is read directly."""

    def __init__(self, next_offset: int, reason: str) -> None:
        super().__init__(f"{reason} at offset {next_offset}")
        self.next_offset = next_offset
        self.reason = reason


class PartitionStats(NamedTuple):
    """One owned partition: where fetching stands, what is buffered, what has been handed out since it was assigned."""

    position: int
    buffered_bytes: int
    records: int
    bytes: int
    error: str


class _Chunk(NamedTuple):
    """Offsets [start, next_offset), whose visible records are the batch."""

    start: int
    next_offset: int
    batch: pa.RecordBatch | None
    nbytes: int


@dataclass(slots=True, eq=False)
class _Reader:
    """One range being served: what comes next, and whether it waits for Kafka."""

    at: int
    waiting: bool = False


@dataclass(slots=True, eq=False)
class _Buffer:
    """One owned partition; see the module's description."""

    tp: TopicPartition
    base: int
    position: int
    floor: int
    plan_seq: int = -1
    served: int = 0  # the highest offset handed out
    chunks: list[_Chunk] = field(default_factory=list)
    nbytes: int = 0
    readers: list[_Reader] = field(default_factory=list)
    live: bool = False
    error: str = ""
    retry_at: float = 0.0
    records_out: int = 0
    bytes_out: int = 0

    @property
    def waiting(self) -> bool:
        """Whether a task waits for the very next record; one that waits for later ones has no claim to room."""
        return any(reader.waiting and reader.at == self.position for reader in self.readers)

    def append(self, chunk: _Chunk) -> None:
        """Put a chunk behind the last one."""
        self.chunks.append(chunk)
        self.nbytes += chunk.nbytes
        self.position, self.error = chunk.next_offset, ""

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

    def spent(self) -> int:
        """Up to here everything has been handed out, and nobody is reading it."""
        return min([self.served, *(reader.at for reader in self.readers)])


class Prefetcher:
    """Fetches owned partitions ahead; all methods may be called from any thread.

    ``conf`` are librdkafka settings; ``buffer_bytes`` bounds chunks and the client's queue together; ``patience_s`` is
    how long a reader waits for Kafka before it is told to read directly.
    """

    def __init__(
        self,
        conf: Mapping[str, Any],
        *,
        include_headers: bool = False,
        buffer_bytes: int = 64 << 20,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Create the client and start its thread; nothing is awaited."""
        queue = max(buffer_bytes // 8, 64 << 10)
        self._budget = buffer_bytes - buffer_bytes // 4  # the rest: the client's queue, and the fetch on its way
        self._batch_bytes = min(BATCH_BYTES, buffer_bytes // 16)
        self._patience_s = patience_s
        self._drain = Drain({**conf, **_bounds(queue)}, include_headers=include_headers, batch_bytes=self._batch_bytes)
        self._buffers: dict[TopicPartition, _Buffer] = {}
        self._assigned: set[TopicPartition] = set()  # in the client; the thread's own
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="cohort-prefetch", daemon=True)
        self._thread.start()

    # --- from the agent -------------------------------------------------------------------------

    def assign(self, added: Mapping[TopicPartition, int]) -> None:
        """Own more partitions, fetching each from the offset given."""
        with self._changed:
            for tp, start in added.items():
                self._buffers[tp] = _Buffer(tp, start, start, start, served=start)
            self._changed.notify_all()

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Own them no longer; readers in the middle of one get a Miss."""
        with self._changed:
            for tp in partitions:
                self._buffers.pop(tp, None)
            self._changed.notify_all()

    def stats(self) -> dict[TopicPartition, PartitionStats]:
        """What every owned partition stands at."""
        with self._changed:
            return {
                tp: PartitionStats(b.position, b.nbytes, b.records_out, b.bytes_out, b.error)
                for tp, b in self._buffers.items()
            }

    def buffered_bytes(self) -> int:
        """The bytes in all chunks (the client's queue, at most a quarter of the budget, comes on top)."""
        with self._changed:
            return self._total()

    def close(self) -> None:
        """Stop fetching; readers get a Miss."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    # --- from the tasks -------------------------------------------------------------------------

    def serve(
        self, wanted: Range, floor: int, plan_seq: int, patience_s: float | None = None
    ) -> Iterator[tuple[int, pa.RecordBatch | None]]:
        """Yield (next offset, batch or None) in order up to the range's end, waiting for Kafka where need be.

        ``floor`` is the offset of this partition below which plan ``plan_seq`` (growing) reads nothing; ``patience_s``
        shortens the prefetcher's own.  Raises Miss at any point.
        """
        patience_s = min(self._patience_s, self._patience_s if patience_s is None else patience_s)
        reader = _Reader(wanted.start)
        with self._changed:
            buffer = self._begin(wanted, floor, plan_seq)
            buffer.readers.append(reader)
        try:
            while reader.at < wanted.end:
                yield self._next(buffer, reader, wanted.end, patience_s)
        finally:
            with self._changed:
                buffer.readers.remove(reader)
                self._changed.notify_all()

    def _begin(self, wanted: Range, floor: int, plan_seq: int) -> _Buffer:
        """Bring the buffer in line with the plan; raises Miss when it can't serve the range's start."""
        buffer = self._buffers.get(wanted.tp)
        if buffer is None:
            raise Miss(wanted.start, "not owned")
        if plan_seq > buffer.plan_seq:
            # A floor that goes down: the offsets start anew (topic recreated), what is buffered is another log's.
            if floor > buffer.position or floor < buffer.floor:
                self._move(buffer, floor)
            buffer.plan_seq, buffer.floor = plan_seq, floor
            while buffer.chunks and buffer.chunks[0].next_offset <= floor:
                buffer.drop_head()
            self._changed.notify_all()
        if wanted.start < buffer.base:
            raise Miss(wanted.start, "no longer buffered")
        return buffer

    @staticmethod
    def _move(buffer: _Buffer, to: int) -> None:
        """Start the buffer anew at an offset."""
        buffer.chunks.clear()
        buffer.base = buffer.position = buffer.served = to
        buffer.nbytes, buffer.live, buffer.error, buffer.retry_at = 0, False, "", 0.0

    def _next(self, buffer: _Buffer, reader: _Reader, end: int, patience_s: float) -> tuple[int, pa.RecordBatch | None]:
        """The next piece of a range: what is buffered, up to a batch; blocks until there is something."""
        with self._changed:
            self._await(buffer, reader, patience_s)
            batches, reader.at = _gather(buffer, reader.at, end, self._batch_bytes)
            buffer.served = max(buffer.served, reader.at)
            batch = _joined(batches)
            if batch is not None:
                buffer.records_out += batch.num_rows
                buffer.bytes_out += batch.nbytes
            return reader.at, batch

    def _await(self, buffer: _Buffer, reader: _Reader, patience_s: float) -> None:
        """Wait until the reader's offset is buffered; raises Miss when that won't be."""
        deadline = time.monotonic() + patience_s
        reader.waiting = True
        try:
            while True:
                if self._closed or self._buffers.get(buffer.tp) is not buffer:
                    raise Miss(reader.at, "revoked")
                if reader.at < buffer.base:
                    raise Miss(reader.at, "evicted")
                if reader.at < buffer.position:
                    return
                if buffer.error:
                    raise Miss(reader.at, buffer.error)
                if reader.at > buffer.position and buffer.nbytes >= self._share():
                    raise Miss(reader.at, "too far ahead")
                self._changed.notify_all()
                if not self._changed.wait(deadline - time.monotonic()) and time.monotonic() >= deadline:
                    raise Miss(reader.at, f"nothing from Kafka within {patience_s} s")
        finally:
            reader.waiting = False

    # --- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        pa.array([])  # its first use imports pandas: now, while nothing is there yet
        while not self._closed:
            try:
                self._turn()
            except Exception:  # noqa: BLE001 - a cache: whatever happened, the tasks read directly, and it begins anew
                _log.exception("prefetch: fetching starts again at every partition's position")
                with self._changed:
                    for buffer in self._buffers.values():
                        buffer.live = False
                    self._changed.wait_for(lambda: self._closed, RETRY_S)
        self._drain.close()

    def _turn(self) -> None:
        """Decide what to fetch, tell the client, and take in what one poll brings."""
        with self._changed:
            full = self._make_room()
            drop, start = self._targets(full)
            if full and not drop and not start and not any(b.waiting for b in self._buffers.values()):
                self._changed.wait(POLL_S)  # nobody waits, nothing fits: the client's queue fills, then fetching stops
                return
        self._drain.unassign(drop)
        self._drain.assign({tp: (at, NO_END) for tp, at in start.items()})
        self._assigned = (self._assigned - drop) | set(start)
        events = self._drain.poll(POLL_S)
        if events:
            with self._changed:
                for event in events:
                    self._store(event)
                self._changed.notify_all()

    def _targets(self, full: bool) -> tuple[set[TopicPartition], dict[TopicPartition, int]]:
        """What the client must stop fetching, and start fetching where; marks the latter live."""
        wanted = self._wanted(full)
        drop = {tp for tp in self._assigned if tp not in wanted or not wanted[tp].live}
        start = {tp: b.position for tp, b in wanted.items() if not b.live}
        for tp in drop:
            if tp in self._buffers:
                self._buffers[tp].live = False
        for tp in start:
            self._buffers[tp].live = True
        return drop, start

    def _wanted(self, full: bool) -> dict[TopicPartition, _Buffer]:
        """The partitions to fetch now: in need only those that somebody waits for, else all within their share."""
        now, share = time.monotonic(), self._share()
        requested = {tp: b for tp, b in self._buffers.items() if b.waiting}
        if requested and (full or self._total() > self._budget // 2):
            return requested
        return requested | {
            tp: b
            for tp, b in self._buffers.items()
            # Half a share before fetching starts again: every stop throws away what the client has queued.
            if b.retry_at <= now and ((full and b.live) or b.nbytes < (share if b.live else max(1, share // 2)))
        }

    def _store(self, event: Event) -> None:
        buffer = self._buffers.get(event.tp)
        if buffer is None or not buffer.live:
            return  # of a past assignment
        match event:
            case Records(next_offset=next_offset, batch=batch, nbytes=nbytes):
                buffer.append(_Chunk(buffer.position, next_offset, batch, nbytes + CHUNK_OVERHEAD))
            case EndOfLog(offset=offset):
                if offset > buffer.position:  # control records and aborted ones
                    buffer.append(_Chunk(buffer.position, offset, None, CHUNK_OVERHEAD))
            case PartitionError(error=error):
                if str(error) != buffer.error:
                    _log.info("prefetch of %s-%d stopped at %d: %s", *event.tp, buffer.position, error)
                buffer.error, buffer.live, buffer.retry_at = str(error), False, time.monotonic() + RETRY_S

    def _share(self) -> int:
        return self._budget // max(1, len(self._buffers))

    def _total(self) -> int:
        return sum(buffer.nbytes for buffer in self._buffers.values())

    def _make_room(self) -> bool:
        """Evict down to the budget, least useful first; returns whether only those who wait may fetch now."""
        over = self._total() - self._budget + self._batch_bytes
        if over <= 0:
            return False
        buffers = list(self._buffers.values())
        for buffer in buffers:  # handed out already: kept only for second readings
            while over > 0 and buffer.chunks and buffer.chunks[0].next_offset <= buffer.spent():
                over -= buffer.drop_head()
        if over > 0 and any(buffer.waiting for buffer in buffers):
            _evict_for_waiting(buffers, over)
        return over > 0


def _evict_for_waiting(buffers: Iterable[_Buffer], over: int) -> None:
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


def _gather(buffer: _Buffer, at: int, end: int, limit: int) -> tuple[list[pa.RecordBatch], int]:
    """The buffered batches from ``at`` on, up to ``end`` or about one batch's worth, and the offset after them."""
    found: list[pa.RecordBatch] = []
    rows = nbytes = 0
    index = bisect_right(buffer.chunks, at, key=attrgetter("next_offset"))
    for chunk in buffer.chunks[index : index + 1000]:
        if at >= end or (found and (rows + chunk.batch.num_rows if chunk.batch else rows) > BATCH_RECORDS):
            break
        if found and nbytes + chunk.nbytes > limit:
            break
        part = None if chunk.batch is None else trim(chunk.batch, at, end)
        if part is not None:
            found.append(part)
            rows, nbytes = rows + part.num_rows, nbytes + chunk.nbytes
        at = min(chunk.next_offset, end)
    return found, at


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch | None:
    if len(batches) <= 1:
        return batches[0] if batches else None
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _bounds(queue: int) -> dict[str, Any]:
    """The client's own buffers, whatever the user has set: the budget holds for all of it."""
    return {
        "queued.max.messages.kbytes": max(1, queue >> 10),
        "queued.min.messages": max(100, queue // 300),  # what a queued message costs beside its bytes
        "fetch.max.bytes": max(queue, 1_000_000),
        "message.max.bytes": 1_000_000,
        "max.partition.fetch.bytes": max(queue // 4, 64 << 10),
        "fetch.wait.max.ms": 100,
    }
