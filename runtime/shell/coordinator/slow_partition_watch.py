"""Late partitions on the driver, from the owners' reports: how far they are planned, and the log lines about them.

``slow_partitions`` has the rules; here are the clock and the lock.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping

from sparkcohort.runtime.batches import slow_partitions
from sparkcohort.runtime.batches.slow_partitions import FetchProgress
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of
from sparkcohort.runtime.shell.rpc.clock import now_ms

log = logging.getLogger("sparkcohort.slow_partitions")

FRESH_MS = 2_000
"""Log ends are fresh for so long after a batch was planned; while it runs they get old."""

Offsets = Mapping[TopicPartition, int]


class SlowPartitionWatch:
    """All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tracks: slow_partitions.Tracks = {}
        self._ends: Offsets = {}
        self._ends_ms = 0
        self._late: frozenset[TopicPartition] = frozenset()

    def record_report(self, report: calls.Fetched, owners: Mapping[TopicPartition, str]) -> list[TopicPartition]:
        """Take an owner's report; returns the late ones of its partitions."""
        member_id = report.member
        fetched = {
            TopicPartition(row.topic, row.partition): FetchProgress(row.position, row.waited_ms)
            for row in report.fetched
        }
        with self._lock:
            own = {tp: progress for tp, progress in fetched.items() if owners.get(tp) == member_id}
            now = now_ms()
            fresh = now - self._ends_ms < FRESH_MS
            self._tracks = slow_partitions.after_report(self._tracks, own, now, self._ends, fresh=fresh)
            return [tp for tp in self._changes() if owners.get(tp) == member_id]

    def limited(
        self, ends: Offsets, start: Offsets, cut_off: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, int]:
        """How far to plan from ``start``; ``ends`` are the log ends of all partitions.

        ``cut_off`` are partitions that their owners can't fetch: others read them, so their owners' reports don't count.
        """
        with self._lock:
            self._ends, self._ends_ms = ends, now_ms()
            self._tracks = {tp: track for tp, track in self._tracks.items() if tp not in cut_off}
            self._changes()
            return slow_partitions.limited(ends, start, self._tracks, now_ms())

    def reasons(self) -> dict[TopicPartition, str]:
        """Why partitions are late, in words."""
        with self._lock:
            return slow_partitions.reasons(self._ends, self._tracks, now_ms())

    def _changes(self) -> frozenset[TopicPartition]:
        """The late partitions; changes are logged."""
        now = slow_partitions.reasons(self._ends, self._tracks, now_ms())
        came, went = sorted(now.keys() - self._late), sorted(self._late - now.keys())
        if came:
            log.warning("%s: %s; batches take only what is fetched of them", names_of(came), now[came[0]])
        if went:
            log.info("%s: not late any more", names_of(went))
        self._late = frozenset(now)
        return self._late
