"""The coordinator's time: milliseconds that never jump."""

from __future__ import annotations

import time

MAX_CLOCK_STEP_MS = 1_000
"""How late a wake-up may be before the group's clock stops: a driver that was frozen must not expire all members before it has
read their heartbeats."""


class Clock:
    """Milliseconds since the start, without the time in which this process did not run."""

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
