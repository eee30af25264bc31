"""Virtual time: what happens next, and when."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class Schedule:
    """Events in the order of their times (ms), and of their making where times are equal.

    ``busy`` counts those that will come to something; timers that only might are not counted.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self.busy = 0
        self._made = 0
        self._heap: list[tuple[int, int, bool, Callable[..., None], tuple[Any, ...]]] = []

    def after(self, delay_ms: int, what: Callable[..., None], *args: Any) -> None:
        """Let something happen."""
        self.busy += 1
        self._made += 1
        heappush(self._heap, (self.now_ms + delay_ms, self._made, True, what, args))

    def later(self, delay_ms: int, what: Callable[..., None], *args: Any) -> None:
        """Let something happen that nobody waits for."""
        self._made += 1
        heappush(self._heap, (self.now_ms + delay_ms, self._made, False, what, args))

    def next_ms(self) -> int | None:
        """When the next event is due."""
        return self._heap[0][0] if self._heap else None

    def run_to(self, at_ms: int) -> None:
        """Let everything happen until then."""
        while self._heap and self._heap[0][0] <= at_ms:
            self.step()
        self.now_ms = at_ms

    def step(self) -> None:
        """Go to the next event."""
        self.now_ms, _, counted, what, args = heappop(self._heap)
        self.busy -= counted
        what(*args)
