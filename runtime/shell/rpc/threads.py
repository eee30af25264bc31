"""Threads that do not die unseen.

A background thread waits for work and does it, over and over.  An error that nobody thought of is logged once, with its
traceback, and the work is tried again after a pause that doubles.  After ``PATIENCE_S`` without a success ``give_up`` is
told why: it ends the query, or the agent, which is then replaced.  A process that gets no thread fails where it starts one.

Each thread, and each caller that waits, looks after the others (``look``): one whose work does not end is logged, with the
lines where it stands, and then given up.  So there is no watching thread that could die, too.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from sparkcohort.runtime.errors import CohortError

log = logging.getLogger("sparkcohort.threads")

PAUSE_S, MOST_PAUSE_S = 0.1, 5.0
PATIENCE_S = 60.0
LEAST_TRIES = 5
"""However much time has passed: a process that was frozen has not tried meanwhile."""
STUCK_S = 120.0
"""How long work may take before it is told of; twice as long, and it is given up."""
LOOK_S = 1.0
FRAMES = 5

_kept: weakref.WeakSet[Supervised] = weakref.WeakSet()
_keeping = threading.Lock()
_looking = threading.Lock()
_looked = [0.0]


def in_context(target: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """A thread's target that has the context variables of whoever starts it: of whose query its log lines are."""
    return partial(contextvars.copy_context().run, target, *arguments)


def look() -> None:
    """See after every supervised thread of this process, at most once a second; called by whatever goes on anyway."""
    if not _looking.acquire(blocking=False):
        return
    try:
        now = time.monotonic()
        passed_s = now - _looked[0]
        if passed_s < LOOK_S:
            return
        _looked[0] = now
        with _keeping:
            kept = list(_kept)
        for each in kept:
            each.look(min(passed_s, 2 * LOOK_S))  # time in which nobody looked, this process may not have run
    finally:
        _looking.release()


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
        stuck_s: float | None = STUCK_S,
    ) -> None:
        """Nothing runs before ``start``; ``stuck_s`` is None for work that may take for ever."""
        self._name = name
        self._wait, self._work, self._give_up = wait, work, give_up
        self._amend, self._ended = amend, ended
        self._stuck_s = stuck_s
        self._context = contextvars.copy_context()
        self._thread = threading.Thread()  # before ``start`` one that is not alive
        self._pause = threading.Event()
        self._over = self._told = self._busy = False
        self._failures = 0
        self._since = self._next_try = 0.0
        self._busy_s = 0.0
        self.trouble = ""
        """Why the work fails now, in words; empty while it does not."""

    # --- for everybody ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread.  Raises RuntimeError where none can be had."""
        self._register(threading.Thread(target=partial(self._context.run, self._run), name=self._name, daemon=True))
        self._thread.start()

    def run(self) -> None:
        """As ``start``, in the thread that calls: for a process' own loop."""
        self._register(threading.current_thread())
        self._run()

    def _register(self, thread: threading.Thread) -> None:
        self._thread = thread
        with _keeping:
            _kept.add(self)

    def close(self) -> None:
        """No more work: not again, not after a pause; what ``wait`` waits for is the caller's to end."""
        self._over = True
        self._pause.set()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread's end; it may not have begun, or be the caller."""
        if self._thread is not threading.current_thread() and self._thread.is_alive():
            self._thread.join(timeout_s)

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def well(self) -> None:
        """What is done so far is a success: for work that takes for ever."""
        if self._failures:
            log.info("background thread %s goes on, after %d failures", self._name, self._failures)
        self._failures, self.trouble, self._told = 0, "", False

    def look(self, passed_s: float) -> None:
        """See that its work ends; ``passed_s`` is the time since the last look."""
        if self._over:
            return
        self._busy_s = self._busy_s + passed_s if self._busy else 0.0
        if self._stuck_s is None or self._busy_s <= self._stuck_s:
            return
        if not self._told:
            self._told = True
            log.warning(
                "background thread %s is stuck: its work has not ended for %.0f s and is at\n%s",
                self._name,
                self._busy_s,
                self._at(),
            )
        if self._busy_s > 2 * self._stuck_s:
            self._resign(f"its work has not ended for {self._busy_s:.0f} s")

    # --- the thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._round():
                look()
        except BaseException as error:  # noqa: BLE001  even in what was meant to deal with an error
            self._resign(f"it failed over a failure, with {type(error).__name__}: {error}")

    def _round(self) -> bool:
        """One time round; False when it is over."""
        try:
            if self._over or not self._wait():
                self._finish()
                return False
            self._busy_s, self._busy = 0.0, True
            self._work()
        except BaseException as error:  # noqa: BLE001  whatever it is: a thread that ended would be missed by nobody
            self._busy = False
            self._failed(error)
            self._pause.wait(max(self._next_try - time.monotonic(), 0.0))
            if self._amend is not None:
                self._amend()
        else:
            self._busy = False
            self.well()
        return True

    def _failed(self, error: BaseException) -> None:
        now = time.monotonic()
        first, self._failures = not self._failures, self._failures + 1
        self._since = now if first else self._since
        self._next_try = now + min(PAUSE_S * 2 ** min(self._failures - 1, 10), MOST_PAUSE_S)
        with contextlib.suppress(Exception):  # there may be no memory to say it with
            self.trouble = f"{type(error).__name__}: {error}"
            if first:
                log.error("background thread %s failed and is tried again", self._name, exc_info=error)
            else:
                log.debug("background thread %s failed again: %s", self._name, self.trouble)
        if self._failures >= LEAST_TRIES and now - self._since > PATIENCE_S:
            self._resign(f"it has failed {self._failures} times in {now - self._since:.0f} s, last with {self.trouble}")

    def _resign(self, why: str) -> None:
        """Hand the failure on; who takes it ends something larger."""
        if self._over:
            return
        try:
            self._give_up(CohortError(f"the background thread {self._name} is given up: {why}"))
        except Exception:
            log.exception("background thread %s could not be given up", self._name)
            return
        self._over = True
        self._finish()

    def _finish(self) -> None:
        self._over = True
        if self._ended is not None:
            self._ended()
            self._ended = None

    def _at(self) -> str:
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)[-FRAMES:]) if frame else "a place unknown"
