"""The buffers of all partitions that a member owns: what plans leave of them, what tasks get, what the budget lets be fetched.

Neither clock nor lock: the caller has both.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from sparkcohort.runtime.batches.record_ages import FirstRecord
from sparkcohort.runtime.batches.slow_partitions import FetchProgress
from sparkcohort.runtime.leader.load_report import Progress
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.buffers import (
    CHUNK_OVERHEAD,
    Buffer,
    BufferLoad,
    Chunk,
    Reader,
    concat_batches,
    evict_for_waiting,
    remove_readers,
)
from sparkcohort.runtime.shell.agent.task_frames import Served
from sparkcohort.runtime.shell.kafka.fetch.events import (
    EndOfLog,
    Event,
    MalformedRecordError,
    PartitionError,
    Records,
)
from sparkcohort.runtime.shell.kafka.fetch.range_reader import is_of_another_log
from sparkcohort.runtime.text import printable

RETRY_S, MOST_RETRY_S = 1.0, 60.0
MOST_DOUBLINGS = 10

_log = logging.getLogger("sparkcohort.prefetch")


class FetchTargets(NamedTuple):
    """What the client stops fetching, and what it starts, from where; ``is_paused``: no task waits, and nothing fits."""

    stop: set[TopicPartition]
    start: dict[TopicPartition, int]
    is_paused: bool


class OwnedBuffers:
    """``budget``, in bytes, and ``ends`` are for the caller to set; ``batch_bytes`` is the size of a step."""

    def __init__(self, batch_bytes: int) -> None:
        self.by_partition: dict[TopicPartition, Buffer] = {}
        self.ends: Mapping[TopicPartition, int | None] | None = None  # of the logs, half a second ago, once asked for
        self.budget = 0
        self._batch_bytes = batch_bytes

    # --- plans and tasks --------------------------------------------------------------------------

    def begin(
        self,
        ranges: Sequence[Range],
        planned_starts: Sequence[int],
        plan_seq: int,
        ids: Mapping[str, str],
        *,
        client_tells_ids: bool,
    ) -> tuple[list[Reader], list[tuple[int, str]]]:
        """Bring the buffers in line with the plan; one reader for each range whose start can be served, and the rest."""
        readers: list[Reader] = []
        missed: list[tuple[int, str]] = []
        for index, (item, planned_start) in enumerate(zip(ranges, planned_starts, strict=True)):
            buffer, topic_id = self.by_partition.get(item.tp), ids.get(item.topic, "")
            if buffer is None:
                missed.append((index, "not owned"))
                continue
            buffer.follow_plan(planned_start, plan_seq, topic_id, client_tells_ids=client_tells_ids)
            if item.start < buffer.base:
                missed.append((index, "no longer buffered"))
            elif item.start < item.end:
                reader = Reader(index, buffer, item.start, item.end, topic_id)
                buffer.readers.append(reader)
                readers.append(reader)
        return readers, missed

    def topic_id(self, tp: TopicPartition) -> str:
        """The id of the topic that a partition's records have to be of; "" if none is known."""
        buffer = self.by_partition.get(tp)
        return buffer.topic_id if buffer is not None else ""

    def miss_reason(self, reader: Reader) -> str:
        """Why the reader's next offset won't be buffered; empty if it is or may be."""
        if self.by_partition.get(reader.buffer.tp) is not reader.buffer:
            return "revoked"
        return reader.miss_reason(self._share())

    def next_step(self, readers: list[Reader], missed: Sequence[tuple[int, str]]) -> Served:
        """What is buffered, up to a batch; readers that have come to their end are taken off the list."""
        load = BufferLoad(self._batch_bytes)
        positions, sizes = list[tuple[int, int]](), list[int]()
        for reader in sorted(readers, key=lambda r: -r.buffer.nbytes):  # the fullest buffer first
            buffer = reader.buffer
            if not buffer.base <= reader.position < buffer.position or reader.is_recreated:
                continue
            if load.full:
                break
            sizes.append(load.take(reader))
            buffer.served = max(buffer.served, reader.position)
            positions.append((reader.index, reader.position))
        missed_indexes = {index for index, _ in missed}
        remove_readers([r for r in readers if r.index in missed_indexes or r.position >= r.end])
        readers[:] = [reader for reader in readers if reader in reader.buffer.readers]
        return Served(positions, concat_batches(load.batches), missed, sizes)

    # --- the client -------------------------------------------------------------------------------

    def choose_targets(self, assigned: Collection[TopicPartition], now: float) -> FetchTargets:
        """What to fetch, when the client has these partitions; marks what is started as live."""
        buffers, full = self.by_partition, self._make_room()
        if not full and len(assigned) == len(buffers) and all(b.live for b in buffers.values()):
            return FetchTargets(set(), {}, is_paused=False)
        fetchable = self._fetchable_partitions(now, full=full)
        stop = {tp for tp in assigned if tp not in fetchable or not fetchable[tp].live}
        start = {tp: b.position for tp, b in fetchable.items() if not b.live}
        for tp in stop & buffers.keys():
            buffers[tp].live = False
        for tp in start:
            buffers[tp].live = True
        is_paused = full and not stop and not start and not any(b.has_waiter for b in buffers.values())
        return FetchTargets(stop, start, is_paused)

    def _fetchable_partitions(self, now: float, *, full: bool) -> dict[TopicPartition, Buffer]:
        """The partitions to fetch now: all, or without room only those that a task waits for.

        A live partition stays, also above its share: a stop throws away what the client has queued, to be
        fetched again.  A full buffer stops the polling instead.
        """
        start_below = max(1, self._share() // 2)
        requested = {tp: b for tp, b in self.by_partition.items() if b.has_waiter}
        if requested and full:
            return requested
        return requested | {
            tp: b
            for tp, b in self.by_partition.items()
            if b.retry_at <= now and (b.live or (b.nbytes < start_below and not full))
        }

    def store(
        self, event: Event, topic_id: str, rows: pa.RecordBatch | None, times: pa.Array | None, now: float
    ) -> None:
        """Take in an event of a live partition; ``topic_id`` is its topic's, as far as known, ``rows`` and ``times`` its records'."""
        buffer = self.by_partition.get(event.tp)
        if buffer is None or not buffer.live:
            return  # of a past assignment
        if buffer.topic_id and topic_id != buffer.topic_id and (topic_id or not isinstance(event, PartitionError)):
            if topic_id:  # assigned again after the topic was recreated
                buffer.move(buffer.planned_start)
                buffer.topic_id = topic_id
            else:  # no broker has told whose records these are: they are fetched again
                buffer.live, buffer.retry_at = False, now + RETRY_S
            return
        buffer.topic_id = topic_id or buffer.topic_id
        match event:
            case Records(next_offset=end, nbytes=nbytes, runs=runs):
                buffer.append(Chunk(buffer.position, end, rows, nbytes + CHUNK_OVERHEAD, runs, times))
            case EndOfLog(offset=offset):
                if offset > buffer.position:  # control records and aborted ones
                    buffer.append(Chunk(buffer.position, offset, None, CHUNK_OVERHEAD))
            case PartitionError():
                _stop(buffer, event, now)

    def restart(self) -> None:
        """The client has been lost: each partition is fetched from its position again."""
        for buffer in self.by_partition.values():
            buffer.live = False

    def mark_silent(self, silent: Collection[TopicPartition], reason: str) -> None:
        """The leaders of these partitions, and of no others, don't answer."""
        for tp, buffer in self.by_partition.items():
            buffer.silent = f"its leader does not answer here {reason}" if tp in silent and buffer.live else ""

    # --- the budget -------------------------------------------------------------------------------

    def _share(self) -> int:
        return self.budget // max(1, len(self.by_partition))

    def _make_room(self) -> bool:
        """Evict down to the budget, least useful first; returns whether only partitions with a waiting task may be fetched."""
        buffers = list(self.by_partition.values())
        excess = sum(buffer.nbytes for buffer in buffers) - self.budget + self._batch_bytes
        if excess <= 0:
            return False
        for buffer in buffers:  # handed out already: kept only for second readings
            while excess > 0 and buffer.chunks and buffer.chunks[0].next_offset <= buffer.released_offset():
                excess -= buffer.drop_head()
        if excess > 0 and any(buffer.has_waiter for buffer in buffers):
            evict_for_waiting(buffers, excess)
        return excess > 0

    # --- reports ----------------------------------------------------------------------------------

    def progress(self) -> dict[TopicPartition, Progress]:
        """How far the query has come in every partition, what was fetched, and the log's end."""
        ends = self.ends = self.ends or {}
        return {
            tp: Progress(max(b.served, b.planned_start), b.records_in, b.bytes_in, ends.get(tp))
            for tp, b in self.by_partition.items()
        }

    def silent(self) -> dict[TopicPartition, tuple[int, str]]:
        """The partitions whose leaders don't answer this process: where fetching stands, and why, in words."""
        return {tp: (b.position, b.silent) for tp, b in self.by_partition.items() if b.silent}

    def take_waits(self, followed: Collection[TopicPartition], now: float) -> dict[TopicPartition, FetchProgress]:
        """For how long tasks have waited for partitions since the last call, and where fetching stands.

        Those not waited for, or hardly, are left out unless they are ``followed``; so are those whose error only tasks get past.
        """
        waits: dict[TopicPartition, FetchProgress] = {}
        for tp, buffer in self.by_partition.items():
            waited_s = buffer.take_wait(now)
            if (waited_s or tp in followed) and not buffer.error:
                waits[tp] = FetchProgress(buffer.position, round(1000 * waited_s, 1))
        return waits

    def record_times(self) -> dict[TopicPartition, list[FirstRecord]]:
        """When records were written that the query has yet to commit: the first of the batch in flight, and the first after it."""
        pairs = {tp: [b.first_from(o) for o in {b.planned_start, b.served}] for tp, b in self.by_partition.items()}
        return {tp: [each for each in pair if each is not None] for tp, pair in pairs.items() if any(pair)}


def _stop(buffer: Buffer, failure: PartitionError, now: float) -> None:
    """Fetch no more for a while; a malformed record stays malformed: each retry waits longer."""
    if failure.offset == buffer.moved_from >= 0 and failure.offset != buffer.position:
        return  # the client doesn't take back an error that was on its way
    message = printable(str(failure.error))
    if message != buffer.error:
        _log.info("prefetch of %s-%d stopped at %d: %s", *buffer.tp, buffer.position, message)
    if is_of_another_log(failure.error):
        buffer.move(buffer.planned_start)  # what is buffered may not be what Kafka has at these offsets
    buffer.error, buffer.live = message, False
    buffer.retry_at = now + min(RETRY_S * 2**buffer.failures, MOST_RETRY_S)
    if isinstance(failure.error, MalformedRecordError):
        buffer.failures = min(buffer.failures + 1, MOST_DOUBLINGS)
