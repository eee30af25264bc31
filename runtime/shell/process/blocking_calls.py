"""Calls that block, made by a few threads for one that must not."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.process.threads import Supervised

Call = tuple[Callable[[], None], Callable[[], None] | None]


class BlockingCalls:
    """As many calls at a time as there are threads; the others wait, in order.  A thread is started when it is needed."""

    def __init__(self, threads: int, give_up: Callable[[CohortError], None]) -> None:
        """Nothing runs before ``start``."""
        self._waiting: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._callers = [
            _CallingThread(f"cohort-call-{number}", self._waiting, give_up, self._done) for number in range(threads)
        ]
        self._lock = threading.Lock()
        self._open = self._started = 0  # calls without an end yet; threads
        self._running = False

    def start(self) -> None:
        """Make calls from now on; a thread that can't be had now comes later."""
        with self._lock:
            self._running = True
        self._start_needed()

    def put(self, call: Callable[[], None], failed: Callable[[], None] | None = None) -> None:
        """Have this called; ``failed`` is called where it raises, whatever that is."""
        with self._lock:
            self._open += 1
        self._waiting.put((call, failed))
        self._start_needed()

    def close(self) -> None:
        """Make no more calls; one that is under way comes to its end."""
        with self._lock:
            self._running = False
        for caller in self._callers:
            caller.thread.close()
            self._waiting.put(None)

    def _start_needed(self) -> None:
        with self._lock:
            needed = min(self._open, len(self._callers)) if self._running else 0
            new, self._started = self._callers[self._started : needed], max(self._started, needed)
        for caller in new:
            caller.thread.start()

    def _done(self) -> None:
        with self._lock:
            self._open -= 1


class _CallingThread:
    def __init__(
        self,
        name: str,
        waiting: queue.SimpleQueue[Call | None],
        give_up: Callable[[CohortError], None],
        done: Callable[[], None],
    ) -> None:
        self._waiting, self._done = waiting, done
        self._call: Call | None = None
        self.thread = Supervised(name, self._wait, self._work, give_up, amend=self._amend, stuck_s=None)

    def _wait(self) -> bool:
        self._call = self._waiting.get()
        return self._call is not None

    def _work(self) -> None:
        if self._call is not None:
            self._call[0]()
            self._call = None
            self._done()

    def _amend(self) -> None:
        call, self._call = self._call, None
        if call is None:
            return
        try:
            if call[1] is not None:
                call[1]()
        finally:
            self._done()
