"""The totals of a run: rebalances by reason with durations, malformed records.

The coordinator's history forgets; these totals don't, so that a rate over them is right.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, Final

from sparkcohort.runtime.group.context import SIGNALS
from sparkcohort.runtime.protocol.calls import MalformedCount
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.reasons import LABELS, Reason
from sparkcohort.runtime.values.formats import Format, reasons

BUCKETS_MS: Final = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)
BATCH_BUCKETS_MS: Final = (*BUCKETS_MS[4:], 120_000, 300_000, 600_000, 1_800_000, 3_600_000)
"""Of batches: from a tenth of a second to an hour."""

REFUSED_REQUESTS: Final = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "Loads")
"""The requests whose refusals are counted: the group's, and a member's report of its loads."""
REFUSALS: Final = tuple(
    error.name for error in ErrorCode if error not in SIGNALS | {ErrorCode.COORDINATOR_NOT_AVAILABLE}
)
"""The errors with which they may be refused."""

_REASONS: Final = {reason for kind in Format for reason in reasons(kind)}
MOST_KINDS: Final = 10_000


class Histogram:
    """A histogram of durations; for one thread at a time."""

    def __init__(self, bounds_ms: Sequence[int] = BUCKETS_MS) -> None:
        self._bounds_ms = tuple(bounds_ms)
        self._buckets = [0] * len(self._bounds_ms)
        self._count = self._sum_ms = 0

    def add(self, took_ms: int) -> None:
        """Count one."""
        self._count += 1
        self._sum_ms += took_ms
        for index, bound in enumerate(self._bounds_ms):
            self._buckets[index] += took_ms <= bound

    def as_value(self) -> dict[str, Any]:
        """In plain values; ``buckets`` are cumulative: (upper bound in ms, number at or below it)."""
        buckets = [[bound, count] for bound, count in zip(self._bounds_ms, self._buckets, strict=True)]
        return {"count": self._count, "sum_ms": self._sum_ms, "buckets": buckets}


class RebalanceTotals:
    """Durations of rebalances by the label of their reason."""

    def __init__(self) -> None:
        self._by_reason = {label: Histogram() for label in LABELS}
        self.partitions_moved = 0

    def add(self, reason: Reason, duration_ms: int, moved: int) -> None:
        """Count one rebalance that has ended, and the partitions that it moved."""
        self._by_reason[reason.label].add(duration_ms)
        self.partitions_moved += moved

    def as_value(self) -> dict[str, Any]:
        """In plain values: how many there were, and the histogram of each reason that there is."""
        durations = {label: histogram.as_value() for label, histogram in self._by_reason.items()}
        return {"count": sum(each["count"] for each in durations.values()), "by_reason": durations}


class MalformedTotals:
    """Records that could not be decoded, by topic and reason; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, bad: Iterable[MalformedCount]) -> None:
        """Count a report of a member or task; unknown reasons, and new kinds beyond ``MOST_KINDS``, are dropped."""
        with self._lock:
            for topic, reason, count in bad:
                if reason in _REASONS and ((topic, reason) in self._counts or len(self._counts) < MOST_KINDS):
                    self._counts[topic, reason] += count

    def as_value(self, topics: Iterable[str], reasons: Iterable[str]) -> list[dict[str, Any]]:
        """The totals in plain values: a row for each of these topics and reasons, 0 included, and for all others that occurred."""
        with self._lock:
            counts = {**dict.fromkeys(product(topics, reasons), 0), **self._counts}
        return [{"topic": topic, "reason": reason, "count": count} for (topic, reason), count in sorted(counts.items())]
