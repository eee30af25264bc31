"""Fetching ahead: records of the member's partitions, kept as Arrow in a bounded buffer until tasks read them.

It is a cache: a range that it can't serve is *missed*, with the reason, and the task reads the rest of that range
from Kafka by itself.  Every partition's buffer is one gapless run of chunks ``[base, position)``; records only ever
come from the broker in order behind ``position``, so a served range is byte for byte what a direct read gives.

One thread runs the Kafka client; tasks' threads wait for the records.  A partition is *live* while the client's records
continue its buffer: a change of ``position`` by anything else clears the mark, and the thread fetches from there.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sparkcohort.runtime.batches.record_ages import FirstRecord
from sparkcohort.runtime.batches.slow_partitions import FetchProgress
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.leader.load_report import Progress
from sparkcohort.runtime.protocol.calls import MalformedCount
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.buffers import (
    CHUNK_OVERHEAD,
    Buffer,
    BufferLoad,
    Chunk,
    Reader,
    TaskWait,
    concat_batches,
    evict_for_waiting,
    remove_readers,
)
from sparkcohort.runtime.shell.agent.task_frames import SILENT, Served
from sparkcohort.runtime.shell.agent.timed_columns import TimedColumns
from sparkcohort.runtime.shell.agent.unidentified_records import UnidentifiedRecords, check_topic_ids, in_doubt
from sparkcohort.runtime.shell.kafka.fetch.events import (
    BATCH_BYTES,
    EndOfLog,
    Event,
    Largest,
    MalformedRecordError,
    PartitionError,
    Records,
    malformed_counts,
)
from sparkcohort.runtime.shell.kafka.fetch.range_reader import is_of_another_log
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.shell.kafka.fetch.settings import bounds
from sparkcohort.runtime.shell.rpc.threads import Supervised
from sparkcohort.runtime.text import printable
from sparkcohort.runtime.values.columns import KAFKA_ROW, Columns

POLL_S = 0.05
RETRY_S = 1.0
PATIENCE_S = 5.0
CLOSE_S = 10.0
NO_END = 2**63 - 1
SILENT_S = 3.0  # without an answer that the leader owes: then its partitions are served to no task
SHORT_S = 0.1  # shorter waits don't count: a task faster than Kafka waits between any two fetches
PACE_S = 0.04  # between fetches at the logs' ends, unless a task waits for their records
IDLE_S, IDLE_PACE_S = 5.0, 0.25  # where nothing has come for so long; a task that begins to wait ends the pause
LEAST_LARGEST = 2 << 20  # a record as large as brokers take by default is fetched ahead by the smallest buffer
REMEDY = "that is a quarter of buffer.bytes; the tasks read it directly"
MOST_RETRY_S = 60.0

_log = logging.getLogger("sparkcohort.prefetch")


class Prefetcher:
    """Fetches owned partitions ahead; all methods may be called from any thread.

    ``conf`` are librdkafka settings; ``buffer_bytes`` bounds chunks and the client's queue together; ``patience_s`` is
    how long a reader waits for Kafka before its range is missed.
    """

    def __init__(
        self,
        conf: Mapping[str, Any],
        *,
        columns: Columns = KAFKA_ROW,
        buffer_bytes: int = 64 << 20,
        patience_s: float = PATIENCE_S,
        threads: int = 1,
        give_up: Callable[[CohortError], None] | None = None,
        tell_bad: Callable[[list[MalformedCount]], None] | None = None,
    ) -> None:
        """Create the client and start its thread; nothing is awaited.

        ``threads`` decode what is inside of records; ``give_up`` hears of it when nothing can be fetched, ``tell_bad`` of what
        could not be decoded.
        """
        self._tell_bad = tell_bad or (lambda _: None)
        queue = max(buffer_bytes // 8, 64 << 10)
        self._buffer_bytes = buffer_bytes
        self._batch_bytes = min(BATCH_BYTES, buffer_bytes // 16)
        self._patience_s = patience_s
        self._columns = TimedColumns(columns)
        self._new_source = partial(
            RecordSource,
            {**conf, **bounds(queue)},
            batch_bytes=self._batch_bytes,
            unhurried=True,
            largest=Largest(max(buffer_bytes // 4, LEAST_LARGEST), REMEDY),
            threads=threads,
        )
        self._source = self._new_source(columns=self._columns.fetched)
        self._unidentified = UnidentifiedRecords(conf)
        self._doubtful = False  # how the source stands is not known
        self._buffers: dict[TopicPartition, Buffer] = {}
        self._assigned: set[TopicPartition] = set()  # in the client; the thread's own
        self._task_waits: set[TaskWait] = set()
        self._waits: dict[TopicPartition, float] = {}  # seconds since they were asked for
        self._ends: Mapping[TopicPartition, int | None] = {}
        self._ends_asked = False
        self._silence_due = self._quiet_since = 0.0
        self._lock = threading.Lock()
        # Two: a waiting task notifies the thread, and with one condition it would wake the other waiting tasks, without end.
        self._arrived, self._requested = threading.Condition(self._lock), threading.Condition(self._lock)
        self._closed = False
        self._thread = Supervised(
            "cohort-prefetch",
            lambda: not self._closed,
            self._run_once,
            give_up or (lambda error: _log.error("%s", error)),
            amend=self._restart,
            ended=lambda: self._source.close(),  # noqa: PLW0108  by then it may be another
        )
        self._thread.start()

    # --- from the agent -------------------------------------------------------------------------

    def assign(self, added: Mapping[TopicPartition, int]) -> None:
        """Own more partitions, fetching each from the offset given."""
        with self._lock:
            for tp, start in added.items():
                self._buffers[tp] = Buffer(tp, start, start, start, served=start)
            self._arrived.notify_all()
            self._requested.notify()
        self._source.wake()

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Own them no longer; readers in the middle of one miss the rest."""
        with self._lock:
            for tp in partitions:
                self._buffers.pop(tp, None)
            self._arrived.notify_all()

    def progress(self) -> dict[TopicPartition, Progress]:
        """How far the query has come in every owned partition, what was fetched, and the log's end as of the last call."""
        with self._lock:
            self._ends_asked, ends, all_ = True, self._ends, self._buffers.items()
            return {
                tp: Progress(max(b.served, b.planned_start), b.records_in, b.bytes_in, ends.get(tp)) for tp, b in all_
            }

    def record_times(self) -> dict[TopicPartition, list[FirstRecord]]:
        """When records were written that the query has yet to commit: the first of the batch in flight, and the first after it."""
        with self._lock:
            pairs = {tp: [b.first_from(o) for o in {b.planned_start, b.served}] for tp, b in self._buffers.items()}
        return {tp: [each for each in pair if each is not None] for tp, pair in pairs.items() if any(pair)}

    def waits(self, followed: Collection[TopicPartition] = ()) -> dict[TopicPartition, FetchProgress]:
        """For how long tasks have waited for partitions since the last call, and where fetching stands.

        Those not waited for, or hardly, are left out unless they are ``followed``; so are those whose error only tasks get past.
        """
        with self._lock:
            for wait in self._task_waits:
                self._count_wait(wait)
            waits, self._waits = self._waits, {}
            partitions = waits.keys() | set(followed)
            return {
                tp: FetchProgress(self._buffers[tp].position, round(1000 * waits.get(tp, 0.0), 1))
                for tp in partitions
                if tp in self._buffers and not self._buffers[tp].error
            }

    def silent(self) -> dict[TopicPartition, tuple[int, str]]:
        """The partitions whose leaders don't answer this process: where fetching stands, and why, in words."""
        with self._lock:
            return {tp: (b.position, b.silent) for tp, b in self._buffers.items() if b.silent}

    def throttled_s(self) -> float | None:
        """See ``RecordSource``; it begins at 0 with another source."""
        return self._source.throttled_s()

    def _count_wait(self, wait: TaskWait) -> None:
        now = time.monotonic()
        if now - wait.began >= SHORT_S:
            for reader in wait.readers:
                self._waits[reader.buffer.tp] = self._waits.get(reader.buffer.tp, 0.0) + now - wait.counted_at
            wait.counted_at = now

    def close(self) -> None:
        """Stop fetching, and release everything; readers miss the rest.  Raises TimeoutError where that does not end."""
        with self._lock:
            self._closed = True
            self._arrived.notify_all()
            self._requested.notify()
        self._thread.close()
        self._source.wake()
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            raise TimeoutError(f"fetching has not ended within {CLOSE_S:g} s")
        self._unidentified.close()
        self._buffers = {}

    # --- from the tasks -------------------------------------------------------------------------

    def serve(
        self,
        ranges: Sequence[Range],
        planned_starts: Sequence[int],
        plan_seq: int,
        patience_s: float | None = None,
        ids: Mapping[str, str] | None = None,
    ) -> Iterator[Served]:
        """Yield steps until every range is at its end or missed, waiting for Kafka only when nothing is buffered.

        ``planned_starts`` are the offsets of the ranges' partitions below which plan ``plan_seq`` (growing) reads nothing, ``ids``
        those of the topics that it reads; ``patience_s`` shortens the prefetcher's own.
        """
        patience_s = min(self._patience_s, self._patience_s if patience_s is None else patience_s)
        with self._lock:
            readers, missed = self._begin(ranges, planned_starts, plan_seq, ids or {})
        try:
            if missed:
                yield Served([], None, missed)
            while readers:
                with self._lock:
                    missed = self._await_records(readers, patience_s)
                    doubted = in_doubt(readers)
                ids_now = self._unidentified.ids(doubted)
                with self._lock:
                    step = self._next(readers, missed + check_topic_ids(readers, doubted, ids_now))
                yield step
        finally:
            with self._lock:
                remove_readers(readers)
                self._requested.notify()

    def _begin(
        self, ranges: Sequence[Range], planned_starts: Sequence[int], plan_seq: int, ids: Mapping[str, str]
    ) -> tuple[list[Reader], list[tuple[int, str]]]:
        """Bring the buffers in line with the plan; one reader for each range whose start can be served, and the rest."""
        readers: list[Reader] = []
        missed: list[tuple[int, str]] = []
        for index, (item, planned_start) in enumerate(zip(ranges, planned_starts, strict=True)):
            buffer = self._buffers.get(item.tp)
            if buffer is None:
                missed.append((index, "not owned"))
                continue
            self._follow_plan(buffer, planned_start, plan_seq, ids.get(item.topic, ""))
            if item.start < buffer.base:
                missed.append((index, "no longer buffered"))
            elif item.start < item.end:
                reader = Reader(index, buffer, item.start, item.end, ids.get(item.topic, ""))
                buffer.readers.append(reader)
                readers.append(reader)
        self._arrived.notify_all()  # the plan may have dropped what a reader of an older one waits for
        self._requested.notify()
        return readers, missed

    def _follow_plan(self, buffer: Buffer, planned_start: int, plan_seq: int, topic_id: str) -> None:
        """Drop what no plan will read again."""
        if plan_seq <= buffer.plan_seq:
            return
        # A planned start that goes down means that the topic was recreated: what is buffered is of another log.
        # A client that tells no ids may have fetched it from another topic of this name than the plan's.
        untold = topic_id and not self._source.tells_ids
        recreated = topic_id not in ("", buffer.topic_id) and bool(buffer.topic_id or untold)
        if recreated or planned_start > buffer.position or planned_start < buffer.planned_start:
            buffer.move(planned_start)
        buffer.plan_seq, buffer.planned_start = plan_seq, planned_start
        buffer.topic_id = topic_id if untold else buffer.topic_id
        while buffer.chunks and buffer.chunks[0].next_offset <= planned_start:
            buffer.drop_head()

    def _next(self, readers: list[Reader], missed: Sequence[tuple[int, str]]) -> Served:
        """The next step: what is buffered, up to a batch; readers that have come to their end are taken off the list."""
        load = BufferLoad(self._batch_bytes)
        positions, sizes = list[tuple[int, int]](), list[int]()
        for reader in sorted(readers, key=lambda r: -r.buffer.nbytes):  # the fullest buffer first
            if reader.position >= reader.limit or reader.position < reader.buffer.base or reader.is_recreated:
                continue
            if load.full:
                break
            sizes.append(load.take(reader))
            reader.buffer.served = max(reader.buffer.served, reader.position)
            positions.append((reader.index, reader.position))
        missed_indexes = {index for index, _ in missed}
        remove_readers([r for r in readers if r.index in missed_indexes or r.position >= r.end])
        readers[:] = [reader for reader in readers if reader in reader.buffer.readers]
        return Served(positions, concat_batches(load.batches), missed, sizes)

    def _await_records(self, readers: Sequence[Reader], patience_s: float) -> list[tuple[int, str]]:
        """Wait until something can be served; returns what can't be any more."""
        wait = TaskWait(readers)
        deadline = wait.counted_at + patience_s
        self._task_waits.add(wait)
        for reader in readers:
            reader.is_waiting = True
        hurried = False
        try:
            while True:
                missed = [(reader.index, reason) for reader in readers if (reason := self._miss_reason(reader))]
                if missed or any(reader.position < reader.buffer.position for reader in readers):
                    return missed
                self._requested.notify()
                if not hurried:
                    hurried = True
                    self._source.wake()
                if not self._arrived.wait(deadline - time.monotonic()) and time.monotonic() >= deadline:
                    return [(reader.index, f"nothing from Kafka within {patience_s} s") for reader in readers]
        finally:
            self._task_waits.discard(wait)
            self._count_wait(wait)
            for reader in readers:
                reader.is_waiting = False

    def _miss_reason(self, reader: Reader) -> str:
        """Why the reader's next offset won't be buffered; empty if it is or may be."""
        if self._closed or self._buffers.get(reader.buffer.tp) is not reader.buffer:
            return "revoked"
        return reader.miss_reason(self._share())

    # --- the thread -----------------------------------------------------------------------------

    def _restart(self) -> None:
        """After a failure tasks read directly, and fetching starts again at every partition's position."""
        with self._lock:
            self._mark_doubtful()

    def _mark_doubtful(self) -> None:
        self._doubtful = True
        for buffer in self._buffers.values():
            buffer.live = False

    def _run_once(self) -> None:
        """Decide what to fetch, tell the client, and take in what one poll brings."""
        if self._doubtful:
            old, self._source = self._source, self._new_source(columns=self._columns.fetched)
            self._assigned, self._doubtful = set(), False
            with contextlib.suppress(Exception):  # it may have been closing when it failed
                old.close()
        if self._ends_asked:
            self._ends_asked, ends = False, {tp: self._source.log_end(tp) for tp in self._assigned}
            self._ends = {**self._ends, **ends}
        with self._lock:
            full = self._make_room()
            drop, start = (set(), {}) if not full and self._is_settled() else self._targets(full)
            pace_s = self._pace_s(busy=bool(self._task_waits or drop or start))
            if full and not drop and not start and not any(b.has_waiter for b in self._buffers.values()):
                # No task waits and nothing fits: without polls the client's queue fills, then it stops fetching.
                self._requested.wait(POLL_S)
                return
        self._source.unassign(drop)
        self._source.assign({tp: (offset, NO_END) for tp, offset in start.items()})
        self._assigned = (self._assigned - drop) | set(start)
        self._source.pace(pace_s)
        events = self._source.poll(max(POLL_S, pace_s))
        self._check_silence()
        if events:
            self._quiet_since = time.monotonic()
            with self._lock:
                for event in events:
                    self._store(event)
                self._arrived.notify_all()

    def _pace_s(self, *, busy: bool) -> float:
        """The pause before the next fetch at the logs' ends; only our own client can be woken from a long one."""
        now = time.monotonic()
        self._quiet_since = now if busy else self._quiet_since
        idle = now - self._quiet_since >= IDLE_S and self._source.tells_ids
        return 0.0 if self._task_waits else IDLE_PACE_S if idle else PACE_S

    def _check_silence(self) -> None:
        """Look, twice a second, which leaders owe an answer for too long: tasks don't wait for their records any more.

        And report the malformed records since the last look.
        """
        now = time.monotonic()
        if now < self._silence_due:
            return
        self._silence_due = now + 0.5
        if self._source.malformed:
            self._tell_bad(malformed_counts(self._source.malformed))
            self._source.malformed.clear()
        silent = {tp: waited_s for tp, waited_s in (self._source.silence() or {}).items() if waited_s >= SILENT_S}
        with self._lock:
            for tp, buffer in self._buffers.items():
                reason = f": {self._source.last_error}" if self._source.last_error else ""
                buffer.silent = f"{SILENT} for {SILENT_S:g} s{reason}" if tp in silent and buffer.live else ""
            if silent:
                self._arrived.notify_all()

    def _targets(self, full: bool) -> tuple[set[TopicPartition], dict[TopicPartition, int]]:
        """What the client must stop fetching, and start fetching where; marks the latter live."""
        fetchable = self._fetchable_partitions(full)
        drop = {tp for tp in self._assigned if tp not in fetchable or not fetchable[tp].live}
        start = {tp: b.position for tp, b in fetchable.items() if not b.live}
        for tp in drop:
            if tp in self._buffers:
                self._buffers[tp].live = False
        for tp in start:
            self._buffers[tp].live = True
        return drop, start

    def _is_settled(self) -> bool:
        """Whether all that is owned is being fetched, and nothing else: what is live is in the client."""
        return len(self._assigned) == len(self._buffers) and all(b.live for b in self._buffers.values())

    def _fetchable_partitions(self, full: bool) -> dict[TopicPartition, Buffer]:
        """The partitions to fetch now: all, or without room only those that a task waits for.

        A live partition stays, also above its share: a stop throws away what the client has queued, to be
        fetched again.  A full buffer stops the polling instead.
        """
        now, start_below = time.monotonic(), max(1, self._share() // 2)
        requested = {tp: b for tp, b in self._buffers.items() if b.has_waiter}
        if requested and full:
            return requested
        return requested | {
            tp: b
            for tp, b in self._buffers.items()
            if b.retry_at <= now and (b.live or (b.nbytes < start_below and not full))
        }

    def _store(self, event: Event) -> None:
        buffer = self._buffers.get(event.tp)
        if buffer is None or not buffer.live:
            return  # of a past assignment
        topic_id = self._source.topic_id(event.tp)
        if "" not in (topic_id, buffer.topic_id) and topic_id != buffer.topic_id:
            buffer.move(buffer.planned_start)  # assigned again after the topic was recreated
            return
        buffer.topic_id = topic_id or buffer.topic_id
        identified = bool(topic_id)
        match event:
            case Records(next_offset=end, nbytes=nbytes, batch=batch, runs=runs):
                rows, times = self._columns.split_timestamps(batch)
                chunk = Chunk(buffer.position, end, rows, nbytes + CHUNK_OVERHEAD, runs, times)
                buffer.append(chunk, identified=identified)
            case EndOfLog(offset=offset):
                if offset > buffer.position:  # control records and aborted ones
                    buffer.append(Chunk(buffer.position, offset, None, CHUNK_OVERHEAD), identified=identified)
            case PartitionError(offset=offset) if offset == buffer.moved_from >= 0 and offset != buffer.position:
                return  # the client doesn't take back an error that was on its way
            case PartitionError() as failure if self._columns.drop_timestamps(failure):
                self._mark_doubtful()
            case PartitionError(error=error):
                message = printable(str(error))
                if message != buffer.error:
                    _log.info("prefetch of %s-%d stopped at %d: %s", *event.tp, buffer.position, message)
                if is_of_another_log(error):
                    buffer.move(buffer.planned_start)  # what is buffered may not be what Kafka has at these offsets
                buffer.error, buffer.live = message, False
                buffer.retry_at = time.monotonic() + min(RETRY_S * 2**buffer.failures, MOST_RETRY_S)
                # A malformed record stays malformed: each retry waits longer.
                if isinstance(error, MalformedRecordError):
                    buffer.failures = min(buffer.failures + 1, 10)

    @property
    def _budget(self) -> int:
        return int(self._buffer_bytes * self._source.share())

    def _share(self) -> int:
        return self._budget // max(1, len(self._buffers))

    def _total(self) -> int:
        return sum(buffer.nbytes for buffer in self._buffers.values())

    def _make_room(self) -> bool:
        """Evict down to the budget, least useful first; returns whether only partitions with a waiting task may be fetched."""
        excess = self._total() - self._budget + self._batch_bytes
        if excess <= 0:
            return False
        buffers = list(self._buffers.values())
        for buffer in buffers:  # handed out already: kept only for second readings
            while excess > 0 and buffer.chunks and buffer.chunks[0].next_offset <= buffer.released_offset():
                excess -= buffer.drop_head()
        if excess > 0 and any(buffer.has_waiter for buffer in buffers):
            evict_for_waiting(buffers, excess)
        return excess > 0
