"""Fetching ahead: records of the member's partitions, kept as Arrow in a bounded buffer until tasks read them.

It is a cache: a range that it can't serve is *missed*, with the reason, and the task reads the rest of that range
from Kafka by itself.  Every partition's buffer is one gapless run of chunks ``[base, position)``; records only ever
come from the broker in order behind ``position``, so a served range is byte for byte what a direct read gives.

One thread runs the Kafka client; tasks' threads wait for the records.  A partition is *live* while the client's records
continue its buffer: a change of ``position`` by anything else clears the mark, and the thread fetches from there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.calls import MalformedCount
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.buffers import Buffer, Reader, remove_readers
from sparkcohort.runtime.shell.agent.owned_buffers import OwnedBuffers
from sparkcohort.runtime.shell.agent.prefetch_client import POLL_S, PrefetchClient
from sparkcohort.runtime.shell.agent.task_frames import Served
from sparkcohort.runtime.shell.kafka.fetch.events import BATCH_BYTES, Event, Records, malformed_counts
from sparkcohort.runtime.shell.rpc.threads import Supervised
from sparkcohort.runtime.values.columns import KAFKA_ROW, Columns

PATIENCE_S = 5.0
CLOSE_S = 10.0
SILENT_S = 3.0  # without an answer that the leader owes: then its partitions are served to no task
CHECK_S = 0.5
PACE_S = 0.04  # between fetches at the logs' ends, unless a task waits for their records
IDLE_S, IDLE_PACE_S = 5.0, 0.25  # where nothing has come for so long; a task that begins to wait ends the pause

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
        give_up: Callable[[CohortError], None] = lambda error: _log.error("%s", error),
        report_malformed: Callable[[list[MalformedCount]], None] = lambda _: None,
    ) -> None:
        """Create the client and start its thread; nothing is awaited.

        ``threads`` decode what is inside of records; ``give_up`` is called when nothing can be fetched, ``report_malformed``
        with the records that could not be decoded.
        """
        self._report_malformed = report_malformed
        self._buffer_bytes, self._patience_s = buffer_bytes, patience_s
        batch_bytes = min(BATCH_BYTES, buffer_bytes // 16)
        self._owned, self._waiting_tasks = OwnedBuffers(batch_bytes), 0
        self._client = PrefetchClient(conf, columns, buffer_bytes, batch_bytes, threads)
        self._check_due = self._quiet_since = 0.0
        self._lock = threading.Lock()
        # Two: a waiting task notifies the thread, and with one condition it would wake the other waiting tasks, without end.
        self._arrived, self._requested = threading.Condition(self._lock), threading.Condition(self._lock)
        self._closed = False
        self._thread = Supervised(
            "cohort-prefetch",
            lambda: not self._closed,
            self._run_once,
            give_up,
            amend=self._restart,
            ended=self._client.close,
        )
        self._thread.start()

    # --- from the agent -------------------------------------------------------------------------

    def assign(self, added: Mapping[TopicPartition, int]) -> None:
        """Own more partitions, fetching each from the offset given."""
        with self._lock:
            for tp, start in added.items():
                self._owned.by_partition[tp] = Buffer(tp, start, start, start, served=start)
            self._arrived.notify_all()
            self._requested.notify()
        self._client.source.wake()

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Own them no longer; readers in the middle of one miss the rest."""
        with self._lock:
            for tp in partitions:
                self._owned.by_partition.pop(tp, None)
            self._arrived.notify_all()

    @contextmanager
    def owned(self) -> Iterator[OwnedBuffers]:
        """The buffers, locked, for what is reported of them."""
        with self._lock:
            yield self._owned

    def throttled_s(self) -> float | None:
        """See ``RecordSource``; it begins at 0 with another source."""
        return self._client.source.throttled_s()

    def close(self) -> None:
        """Stop fetching, and release everything; readers miss the rest.  Raises TimeoutError where that does not end."""
        with self._lock:
            self._closed = True
            self._owned.by_partition.clear()
            self._arrived.notify_all()
            self._requested.notify()
        self._thread.close()
        self._client.source.wake()
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            raise TimeoutError(f"fetching has not ended within {CLOSE_S:g} s")

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
        tells_ids = self._client.source.tells_ids
        with self._lock:
            readers, missed = self._owned.begin(ranges, planned_starts, plan_seq, ids or {}, client_tells_ids=tells_ids)
            self._arrived.notify_all()  # the plan may have dropped what a reader of an older one waits for
            self._requested.notify()
        try:
            if missed:
                yield Served([], None, missed)
            while readers:
                with self._lock:
                    step = self._owned.next_step(readers, self._await_records(readers, patience_s))
                yield step
        finally:
            with self._lock:
                remove_readers(readers)
                self._requested.notify()

    def _await_records(self, readers: Sequence[Reader], patience_s: float) -> list[tuple[int, str]]:
        """Wait until something can be served; returns what can't be any more."""
        began, is_hurried = time.monotonic(), False
        self._waiting_tasks += 1
        for reader in readers:
            reader.begin_wait(began)
        try:
            while True:
                missed = [(reader.index, reason) for reader in readers if (reason := self._owned.miss_reason(reader))]
                if missed or any(reader.position < reader.buffer.position for reader in readers):
                    return missed
                left_s = began + patience_s - time.monotonic()
                if left_s <= 0:
                    return [(reader.index, f"nothing from Kafka within {patience_s} s") for reader in readers]
                self._requested.notify()
                if not is_hurried:
                    is_hurried = True
                    self._client.source.wake()
                self._arrived.wait(left_s)
        finally:
            self._waiting_tasks -= 1
            for reader in readers:
                reader.end_wait(time.monotonic())

    # --- the thread -----------------------------------------------------------------------------

    def _restart(self) -> None:
        """After a failure tasks read directly, and fetching starts again at every partition's position."""
        with self._lock:
            self._client.is_lost = True
            self._owned.restart()

    def _run_once(self) -> None:
        """Decide what to fetch, and take in what one poll brings."""
        client, owned = self._client, self._owned
        client.replace_lost()
        with self._lock:
            owned.budget = int(self._buffer_bytes * client.source.share())
            targets = owned.choose_targets(client.assigned, time.monotonic())
            pace_s = self._pace_s(is_busy=bool(self._waiting_tasks or targets.stop or targets.start))
            if targets.is_paused:  # without polls the client's queue fills, then it stops fetching
                self._requested.wait(POLL_S)
                return
        events = client.poll(targets, pace_s)
        self._check_client()
        if events:
            self._quiet_since = time.monotonic()
            self._store(events)

    def _pace_s(self, *, is_busy: bool) -> float:
        """The pause before the next fetch at the logs' ends; only our own client can be woken from a long one."""
        now = time.monotonic()
        self._quiet_since = now if is_busy else self._quiet_since
        is_idle = now - self._quiet_since >= IDLE_S and self._client.source.tells_ids
        return 0.0 if self._waiting_tasks else IDLE_PACE_S if is_idle else PACE_S

    def _store(self, events: Sequence[Event]) -> None:
        client, owned = self._client, self._owned
        ids = client.topic_ids(events, owned.topic_id)
        with self._lock:
            for event in events:
                rows, times = client.split_timestamps(event.batch) if isinstance(event, Records) else (None, None)
                owned.store(event, ids[event.tp], rows, times, time.monotonic())
            self._arrived.notify_all()

    def _check_client(self) -> None:
        """Twice a second: which leaders owe an answer for too long, where logs end, which records are malformed."""
        if time.monotonic() < self._check_due:
            return
        self._check_due = time.monotonic() + CHECK_S
        source = self._client.source
        is_asked = self._owned.ends is not None  # by reports of loads
        ends = {tp: source.log_end(tp) for tp in self._client.assigned} if is_asked else None
        if source.malformed:
            self._report_malformed(malformed_counts(source.malformed))
            source.malformed.clear()
        silent = {tp for tp, waited_s in (source.silence() or {}).items() if waited_s >= SILENT_S}
        reason = f": {source.last_error}" if source.last_error else ""
        with self._lock:
            self._owned.ends = ends
            self._owned.mark_silent(silent, f"for {SILENT_S:g} s{reason}")
            if silent:
                self._arrived.notify_all()
