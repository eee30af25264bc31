"""The clock of the state machines."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds that never go back, from some beginning of this process."""
    return time.monotonic_ns() // 1_000_000
