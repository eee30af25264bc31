"""The lock of one group, its clock, and the thread that runs what is due.

The thread that brings a request runs it while it holds the lock: to hand it to another thread and wait for the answer costs more
than the step.  All other work is posted to the loop.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Final, TypeAlias

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.rpc.threads import Supervised

log = logging.getLogger("sparkcohort.coordinator")

MAX_CLOCK_STEP_MS: Final = 1_000
"""How late a wake-up may be before the group's clock stops: a driver that was frozen must not expire all members before it has
read their heartbeats."""
MOST_WAIT_MS: Final = 1_000
STOP_S: Final = 1.5

Job: TypeAlias = Callable[[], None]


class Clock:
    """Milliseconds since the start that never jump, without the time in which this process did not run."""

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


class GroupLoop:
    """Runs the jobs of one group one at a time; all but ``start``, ``stop`` and ``post`` need the ``lock``.

    ``due`` tells when ``tick`` has something to do (ms of the group's clock, None: never); ``show_life`` is called every second.
    """

    def __init__(
        self, group_id: str, due: Callable[[], int | None], tick: Callable[[], None], show_life: Callable[[], None]
    ) -> None:
        self.lock = threading.Lock()
        self.has_ended = False
        self.failure: CohortError | None = None  # the error that ended the loop, if any
        self._group_id = group_id
        self._due, self._tick, self._show_life = due, tick, show_life
        self._clock = Clock()
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._job: Job = _do_nothing
        self._waits_ms = 0  # the length of the thread's current wait,
        self._wakes_at_ms = 0  # and its end by the group's clock
        self._thread = Supervised("cohort-coordinator", self._wait, self._work, self._fail)

    @property
    def now_ms(self) -> int:
        """The group's own time, as of the last event."""
        return self._clock.now_ms

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, last: Job) -> None:
        """Run this job as the last one, and end the thread."""
        self.post(lambda: self._end(last))
        self._thread.join(STOP_S)

    def post(self, job: Job) -> None:
        """Have a job run by the loop."""
        self._jobs.put(job)

    def advance(self) -> int:
        """The time now."""
        return self._clock.advance(self._waits_ms)

    def run(self, job: Job) -> None:
        """Run a job in this thread, and what has become due."""
        self.advance()
        due_ms = self._wakes_at_ms
        try:
            job()
            due_ms = self._due_ms()
            if due_ms <= self.now_ms:  # also where requests never cease
                self._tick()
                due_ms = self._due_ms()
        except Exception:  # one request must not end the group
            log.exception("group %s: a request failed inside the coordinator", self._group_id)
        if due_ms < self._wakes_at_ms:
            self._wakes_at_ms = 0
            self.post(_do_nothing)  # wake the loop: something is due before the end of its wait

    def _due_ms(self) -> int:
        latest, due = self.now_ms + MOST_WAIT_MS, self._due()
        return latest if due is None else min(due, latest)

    def _wait(self) -> bool:
        if self.has_ended:
            return False
        with self.lock:
            self._waits_ms = max(self._due_ms() - self.now_ms, 0)
            self._wakes_at_ms = self.now_ms + self._waits_ms
        self._job = _do_nothing
        with contextlib.suppress(queue.Empty):
            self._job = self._jobs.get(timeout=self._waits_ms / 1000)
        return True

    def _work(self) -> None:
        with self.lock:
            self._show_life()
            self.run(self._job)

    def _end(self, last: Job) -> None:
        self.has_ended = True
        last()

    def _fail(self, error: CohortError) -> None:
        self.failure = error


def _do_nothing() -> None:
    """The loop's job when only time has passed."""
