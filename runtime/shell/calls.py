"""Calls that block, made by a few threads for one that must not."""

from __future__ import annotations

import queue
from collections.abc import Callable

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.supervised import Supervised


class Calls:
    """As many calls at a time as there are threads; the others wait, in order."""

    def __init__(self, threads: int, give_up: Callable[[CohortError], None]) -> None:
        """Nothing runs before ``start``."""
        self._waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._callers = [_Caller(f"cohort-call-{number}", self._waiting, give_up) for number in range(threads)]

    def start(self) -> None:
        """Start the threads; one that can't be had now comes later."""
        for caller in self._callers:
            caller.thread.start()

    def put(self, call: Callable[[], None]) -> None:
        """Have this called."""
        self._waiting.put(call)


class _Caller:
    def __init__(
        self, name: str, waiting: queue.SimpleQueue[Callable[[], None]], give_up: Callable[[CohortError], None]
    ) -> None:
        self._waiting = waiting
        self._call: Callable[[], None]
        self.thread = Supervised(name, self._wait, self._work, give_up, stuck_s=None)

    def _wait(self) -> bool:
        self._call = self._waiting.get()
        return True

    def _work(self) -> None:
        self._call()
