"""Threads that do not die unseen.

A background thread waits for work and does it, over and over.  An unforeseen error is logged once, with its
traceback, and the work is tried again after a pause that doubles.  After ``PATIENCE_S`` without a success ``give_up`` is
called with the reason: it ends the query, or the agent, which is then replaced.  If no thread can be had, ``start`` raises.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from sparkcohort.runtime.errors import CohortError

log = logging.getLogger("sparkcohort.threads")

PAUSE_S, MOST_PAUSE_S = 0.1, 5.0
PATIENCE_S = 60.0
LEAST_TRIES = 5
"""At least so many, however much time has passed: a process that was frozen has not tried meanwhile."""


def in_context(target: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """A thread's target with the context variables of its starter: they tell its log lines' query."""
    return partial(contextvars.copy_context().run, target, *arguments)


class Supervised:
    """One background thread: ``wait`` for something to do (False: it is over), then ``work``, again and again.

    ``amend`` is called after a failure and its pause, ``ended`` when the thread is over, whatever ended it, until it succeeds.
    """

    def __init__(
        self,
        name: str,
        wait: Callable[[], bool],
        work: Callable[[], None],
        give_up: Callable[[CohortError], None],
        *,
        amend: Callable[[], None] | None = None,
        ended: Callable[[], None] | None = None,
    ) -> None:
        """Nothing runs before ``start``."""
        self._name = name
        self._wait, self._work, self._give_up = wait, work, give_up
        self._amend, self._ended = amend, ended
        self._context = contextvars.copy_context()
        self._thread = threading.Thread()  # before ``start`` one that is not alive
        self._pause = threading.Event()
        self._is_over = False
        self._failures = 0
        self._failing_since = self._next_try = 0.0
        self.trouble = ""
        """Why the work fails now, in words; empty while it does not."""

    # --- from any thread -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread.  Raises RuntimeError where none can be had."""
        self._thread = threading.Thread(target=partial(self._context.run, self._run), name=self._name, daemon=True)
        self._thread.start()

    def run(self) -> None:
        """As ``start``, in the thread that calls: for a process' own loop."""
        self._thread = threading.current_thread()
        self._run()

    def close(self) -> None:
        """No more work: not again, not after a pause; what ``wait`` waits for is the caller's to end."""
        self._is_over = True
        self._pause.set()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread's end; it may not have begun, or be the caller."""
        if self._thread is not threading.current_thread() and self._thread.is_alive():
            self._thread.join(timeout_s)

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def mark_success(self) -> None:
        """The work so far is a success: for work that takes for ever."""
        if self._failures:
            log.info("background thread %s goes on, after %d failures", self._name, self._failures)
        self._failures, self.trouble = 0, ""

    # --- the thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._round():
                pass
        except BaseException as error:  # noqa: BLE001  even in the handling of an error
            self._resign(f"it failed over a failure, with {type(error).__name__}: {error}")

    def _round(self) -> bool:
        """One time round; False when it is over."""
        try:
            if self._is_over or not self._wait():
                self._finish()
                return False
            self._work()
        except BaseException as error:  # noqa: BLE001  any error: a thread that ended would go unnoticed
            self._record_failure(error)
            self._pause.wait(max(self._next_try - time.monotonic(), 0.0))
            if self._amend is not None:
                self._amend()
        else:
            self.mark_success()
        return True

    def _record_failure(self, error: BaseException) -> None:
        now = time.monotonic()
        first, self._failures = not self._failures, self._failures + 1
        self._failing_since = now if first else self._failing_since
        self._next_try = now + min(PAUSE_S * 2 ** min(self._failures - 1, 10), MOST_PAUSE_S)
        with contextlib.suppress(Exception):  # there may be no memory for the text
            self.trouble = f"{type(error).__name__}: {error}"
            if first:
                log.error("background thread %s failed and is tried again", self._name, exc_info=error)
        passed_s = now - self._failing_since
        if self._failures >= LEAST_TRIES and passed_s > PATIENCE_S:
            self._resign(f"it has failed {self._failures} times in {passed_s:.0f} s, last with {self.trouble}")

    def _resign(self, reason: str) -> None:
        """Hand the failure to ``give_up``, which ends the query or the agent."""
        if self._is_over:
            return
        try:
            self._give_up(CohortError(f"the background thread {self._name} is given up: {reason}"))
        except Exception:
            log.exception("background thread %s could not be given up", self._name)
            return
        self._is_over = True
        self._finish()

    def _finish(self) -> None:
        self._is_over = True
        if self._ended is not None:
            self._ended()
            self._ended = None


class BlockingCalls:
    """Calls that block, made by a few threads for one that must not block; those beyond ``threads`` wait, in order."""

    def __init__(self, threads: int) -> None:
        """No thread yet."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="cohort-call")
        self._closed = False

    def submit(self, call: Callable[[], None], on_failure: Callable[[], None] | None = None) -> None:
        """Have this called; ``on_failure`` is called if it raises.  Raises RuntimeError if no thread can be had."""

        def attempt() -> None:
            try:
                call()
            except BaseException:  # a caller that waits for an answer has to know that none comes
                log.exception("a call to the coordinator failed")
                if on_failure is not None:
                    on_failure()

        if not self._closed:
            self._pool.submit(in_context(attempt))

    def close(self) -> None:
        """Make no more calls; one that is under way comes to its end."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
