"""One way to end, once, to its end, whoever begins it and whatever comes in between.

Spark ends a query by closing the stream runner's socket and, 1 to 25 ms later, sending SIGTERM: the first makes the runner
call ``stop()``, the second must not cut that short.  So the signal's handler raises nothing: a thread of its own is told of
the signal by the kernel's side of it (``signal.set_wakeup_fd``: also while the main thread is somewhere in C), closes
everything, and ends the process.  It does the same when the driver's JVM is gone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.rpc.process_exit import until_gone
from sparkcohort.runtime.shell.rpc.threads import Supervised

log = logging.getLogger("sparkcohort.process")

T = TypeVar("T")
CLOSE_S = 4.0
"""Within this time the process is gone, whatever Arrow Flight or librdkafka still do in the background."""
BEGIN_S = 1.0


class Order(IntEnum):
    """What is closed first: secrets, what the next query waits for, agents, ports; then what nobody outside sees."""

    SECRETS = 0
    LOCK = 1
    COMMITS = 2
    AGENTS = 3
    PORTS = 4
    JOURNAL = 5  # the next run takes it when nobody answers here any more
    INSIDE = 6


class Ending:
    """What a run has opened, to be closed once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closers: list[tuple[Order, Callable[[], object]]] = []
        self._by: int | None = None
        self._over = threading.Event()

    def add(self, order: Order, close: Callable[[], object]) -> None:
        """Have ``close`` called at the end.  Raises CohortError when the end has begun."""
        self.keep(order, bool, lambda _: close())

    def keep(self, order: Order, make: Callable[[], T], close: Callable[[T], object]) -> T:
        """Make something that must not be left behind; no end comes between its making and its being known.

        Raises CohortError when the end has begun, and what ``make`` raises.
        """
        with self._lock:
            if self._by is not None:
                raise CohortError("the query is ending", "COORDINATOR_NOT_AVAILABLE")
            made = make()
            self._closers.append((order, lambda: close(made)))
            return made

    def run(self) -> None:
        """Close everything, in order; whoever comes second waits until it is done."""
        # What takes longer to be made is left to the process' end.
        locked = self._lock.acquire(timeout=BEGIN_S)
        try:
            first = self._by is None
            self._by = threading.get_ident() if first else self._by
        finally:
            if locked:
                self._lock.release()
        if not first:
            if self._by != threading.get_ident():
                self._over.wait(CLOSE_S)
            return
        for _, close in sorted(self._closers, key=lambda closer: closer[0]):
            try:
                close()
            except Exception:
                log.exception("a part of this run could not be closed at its end; the others are closed all the same")
        self._over.set()

    @property
    def begun(self) -> bool:
        """Whether the end has begun."""
        return self._by is not None


class Ender:
    """Ends this process, after its ``Ending``, at SIGTERM and when the driver's JVM is gone."""

    def __init__(self, ending: Ending, jvm: int | None) -> None:
        """``jvm`` is the process id of the driver's, if it is known; nothing is watched before ``start``."""
        self._ending = ending
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._jvm = jvm
        self._left = False
        self._thread = Supervised("cohort-end", self._wait, self._end, self._give_up, stuck_s=None)

    def start(self) -> None:
        """Take the signal over, where this is the main thread, which alone may."""
        self._thread.start()
        if threading.current_thread() is not threading.main_thread():
            # Not the stream runner's process, which ends with its run: somebody else's, which may begin the next one.
            self._ending.add(Order.INSIDE, self._leave)
            return
        signal.signal(signal.SIGTERM, self._on_signal)
        others = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        if others != -1:  # somebody else's, who needs it more: the handler tells of the signal, too
            signal.set_wakeup_fd(others)

    def _on_signal(self, signum: int, _frame: Any) -> None:
        with contextlib.suppress(OSError):
            os.write(self._writer, bytes([signum]))
        if not self._thread.is_alive() and not self._ending.begun:
            _set_kill_timer()
            sys.exit(0)  # the runner calls stop() then

    def _leave(self) -> None:
        self._left = True
        with contextlib.suppress(OSError):  # the JVM ended meanwhile, and nobody reads it any more
            os.write(self._writer, b"\0")
        os.close(self._writer)

    def _wait(self) -> bool:
        while True:
            until_gone(self._jvm or os.getpid(), self._reader)
            if self._left:
                os.close(self._reader)
                return False
            said = b""
            with contextlib.suppress(BlockingIOError):
                said = os.read(self._reader, 4096)
            if not said or signal.SIGTERM in said:
                return True

    def _end(self) -> None:
        _set_kill_timer()
        self._ending.run()
        os._exit(0)

    def _give_up(self, error: CohortError) -> None:
        log.error("%s", error)
        os._exit(1)


def _set_kill_timer() -> None:
    """However the interpreter stands: the kernel ends the process in time."""
    signal.setitimer(signal.ITIMER_REAL, CLOSE_S)
