"""Calls that block, made by a few threads for one that must not."""

from __future__ import annotations

import queue
from collections.abc import Callable

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.process.threads import Supervised

Call = tuple[Callable[[], None], Callable[[], None] | None]


class BlockingCalls:
    """As many calls at a time as there are threads; the others wait, in order."""

    def __init__(self, threads: int, give_up: Callable[[CohortError], None]) -> None:
        """Nothing runs before ``start``."""
        self._waiting: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._callers = [_CallingThread(f"cohort-call-{number}", self._waiting, give_up) for number in range(threads)]

    def start(self) -> None:
        """Start the threads; one that can't be had now comes later."""
        for caller in self._callers:
            caller.thread.start()

    def put(self, call: Callable[[], None], failed: Callable[[], None] | None = None) -> None:
        """Have this called; ``failed`` is called where it raises, whatever that is."""
        self._waiting.put((call, failed))


class _CallingThread:
    def __init__(self, name: str, waiting: queue.SimpleQueue[Call], give_up: Callable[[CohortError], None]) -> None:
        self._waiting = waiting
        self._call: Call | None = None
        self.thread = Supervised(name, self._wait, self._work, give_up, amend=self._amend, stuck_s=None)

    def _wait(self) -> bool:
        self._call = self._waiting.get()
        return True

    def _work(self) -> None:
        if self._call is not None:
            self._call[0]()
        self._call = None

    def _amend(self) -> None:
        call, self._call = self._call, None
        if call is not None and call[1] is not None:
            call[1]()
