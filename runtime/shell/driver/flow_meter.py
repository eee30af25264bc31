"""How fast records come and go, and how far the group is behind: the last ten minutes, as far as a status was asked for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

EVERY_S: Final = 2.0
MOST: Final = 300
"""Samples: ten minutes of them."""


class FlowMeter:
    """Samples of the statuses that it is shown; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: deque[list[float | None]] = deque(maxlen=MOST)
        self._ends: dict[tuple[str, int], int] = {}
        self._delivered = 0
        self._rates: tuple[float | None, float | None] = None, None
        self._sampled_at = 0.0

    def measured(self, status: Mapping[str, Any], now: float) -> dict[str, Any]:
        """The rates in records a second, and the samples: [time, in, out, records behind, seconds behind]."""
        with self._lock:
            if now - self._sampled_at >= EVERY_S:
                self._sample(status, now)
            return {"in": self._rates[0], "out": self._rates[1], "samples": list(self._samples)}

    def _sample(self, status: Mapping[str, Any], now: float) -> None:
        rows, audit = status["partitions"], status["audit"]
        ends = {
            (row["topic"], row["partition"]): row["log_end_offset"] for row in rows if row["log_end_offset"] is not None
        }
        delivered = audit["records_from_agent"] + audit["records_direct"]
        if self._sampled_at:
            # A partition that is new, or whose log was cut, tells of no records that came.
            written = sum(max(end - self._ends.get(key, end), 0) for key, end in ends.items())
            elapsed_s = now - self._sampled_at
            self._rates = written / elapsed_s, (delivered - self._delivered) / elapsed_s
        ages = [row["lag_seconds"] for row in rows if row["lag_seconds"] is not None]
        lag = sum(row["lag"] or 0 for row in rows)
        self._ends, self._delivered, self._sampled_at = ends, delivered, now
        if self._rates[0] is not None:
            self._samples.append([round(now, 1), *self._rates, lag, max(ages, default=None)])
