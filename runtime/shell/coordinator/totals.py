"""Rebalances counted over a whole run: by reason, and how long they took.

The coordinator's history is bounded; these totals are not, so that a rate over them is true.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any, Final

from sparkcohort.runtime.group.context import SIGNALS
from sparkcohort.runtime.listener import LISTENER_EVENTS
from sparkcohort.runtime.protocol.error_codes import ErrorCode

BUCKETS_MS: Final = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)

REASONS: Final = (
    "member_joined",
    "member_left",
    "member_expired",
    "member_replaced",
    "member_rejoined",
    "leader_rejoined",
    "follow_up",
    "sync_expired",
    "topics_changed",
    "delay_over",
    "load_imbalance",
    "assignor_retry",
    "other",
)
"""The classes of a rebalance's reason: a label of a metric has to be bounded, the group's own words are not."""

REFUSED_REQUESTS: Final = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "Loads")
"""The requests whose refusals are counted: the group's, and a member's report of its loads."""
_OF_THE_WHOLE_GROUP: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.NOT_COORDINATOR,
}
REFUSALS: Final = tuple(error.name for error in ErrorCode if error not in SIGNALS | _OF_THE_WHOLE_GROUP)
"""The errors with which they may be refused."""

MOST_MS: Final = 86_400_000
LISTENER_OUTCOMES: Final = ("returned", "raised", "overran")
"""How a call of a user's rebalance listener ended; overran: the member went on without it (see ``listener_runner``)."""

# How the group's words end: "<member ids> <what>", and after a colon what the member said.
_ENDINGS: Final = (
    (" joined", "member_joined"),
    (" left", "member_left"),
    ("one too many", "member_left"),
    (" expired", "member_expired"),
    (" leads and rejoined", "leader_rejoined"),
    (" rejoined", "member_rejoined"),
    (" changed its metadata", "member_rejoined"),
    (" did not sync", "sync_expired"),
    ("topics or partitions changed", "topics_changed"),
    (" is over", "delay_over"),
    ("load", "load_imbalance"),
    (" is asked again", "assignor_retry"),
)


def reason_class(reason: str) -> str:
    """The class (one of REASONS) of a rebalance's reason in words."""
    what, _, said = reason.partition(": ")
    found = next((name for ending, name in _ENDINGS if what.endswith(ending)), "other")
    if found == "member_rejoined":
        if said.startswith("gave up "):  # what it had to: a cooperative rebalance's second round
            return "follow_up"
        return "topics_changed" if said == "topics changed" else found
    return "member_replaced" if " took over " in what else found


class RebalanceTotals:
    """Counts of rebalances by class of reason, and a histogram of their durations in milliseconds."""

    def __init__(self) -> None:
        self._reasons: Counter[str] = Counter()
        self._buckets = [0] * len(BUCKETS_MS)
        self._count = self._sum_ms = 0

    def add(self, reason: str, duration_ms: int) -> None:
        """Count one rebalance that has ended."""
        self._reasons[reason_class(reason)] += 1
        self._count += 1
        self._sum_ms += duration_ms
        for index, bound in enumerate(BUCKETS_MS):
            self._buckets[index] += duration_ms <= bound

    def as_value(self) -> dict[str, Any]:
        """The totals in plain values; ``buckets`` are (upper bound in ms, rebalances not longer than that)."""
        return {
            "by_reason": dict(self._reasons),
            "count": self._count,
            "sum_ms": self._sum_ms,
            "buckets": [[bound, count] for bound, count in zip(BUCKETS_MS, self._buckets, strict=True)],
        }


class ListenerTotals:
    """Calls of the members' rebalance listeners, counted and timed, by event and outcome; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[tuple[str, str], tuple[int, int, int]] = {}

    def add(self, event: str, outcome: str, took_ms: int) -> None:
        """Count one call.  Raises ValueError for what is no event or outcome, or a time that can't be."""
        if event not in LISTENER_EVENTS or outcome not in LISTENER_OUTCOMES or not 0 <= took_ms <= MOST_MS:
            raise ValueError(f"no call of a listener: {event!r:.40}, {outcome!r:.40}, {took_ms!r:.20} ms")
        with self._lock:
            count, total_ms, most_ms = self._calls.get((event, outcome), (0, 0, 0))
            self._calls[event, outcome] = count + 1, total_ms + took_ms, max(most_ms, took_ms)

    def as_value(self) -> list[dict[str, Any]]:
        """The totals in plain values, a row for each event and outcome that occurred."""
        with self._lock:
            rows = sorted(self._calls.items())
        return [
            {"event": event, "outcome": outcome, "calls": count, "total_ms": total_ms, "max_ms": most_ms}
            for (event, outcome), (count, total_ms, most_ms) in rows
        ]
