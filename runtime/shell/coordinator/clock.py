"""The coordinator's time: milliseconds that never jump."""

from __future__ import annotations

import time

MAX_CLOCK_STEP_MS = 1_000
"""By how much a wake-up may be late before the group's clock stops following: a driver that was frozen must
not find all its members expired before it has read their heartbeats."""


class Clock:
    """Milliseconds that never jump: time in which this process did not run does not count."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self.now_ms = 0

    def advance(self, waited_for_ms: int) -> int:
        """The time after a wait that was meant to take at most ``waited_for_ms``."""
        now = time.monotonic()
        passed = int((now - self._last) * 1000)
        self._last += passed / 1000
        self.now_ms += min(passed, waited_for_ms + MAX_CLOCK_STEP_MS)
        return self.now_ms
