"""One way to end: it runs once, and to its end, whatever begins it or interferes.

Spark ends a query by closing the stream runner's socket and, 1 to 25 ms later, sending SIGTERM: the first makes the runner
call ``stop()``, the second must not cut that short.  So the signal's handler raises nothing.  A thread of its own learns of
the signal from a pipe (``signal.set_wakeup_fd``: also while the main thread is somewhere in C), closes
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
from sparkcohort.runtime.shell.rpc.process_identity import wait_for_exit
from sparkcohort.runtime.shell.rpc.threads import Supervised

log = logging.getLogger("sparkcohort.process")

T = TypeVar("T")
CLOSE_S = 4.0
"""Within this time the process is gone, whatever Arrow Flight or librdkafka still do in the background."""
BEGIN_S = 1.0


class Order(IntEnum):
    """The order of closing: secrets, what the next query waits for, agents, ports; then what is not visible outside."""

    SECRETS = 0
    LOCK = 1
    COMMITS = 2
    AGENTS = 3
    PORTS = 4
    JOURNAL = 5  # the next run takes it once the ports are closed
    INSIDE = 6


class Ending:
    """What a run has opened, to be closed once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closers: list[tuple[Order, Callable[[], object]]] = []
        self._thread_id: int | None = None
        self._closed = threading.Event()

    def add(self, order: Order, close: Callable[[], object]) -> None:
        """Have ``close`` called at the end.  Raises CohortError when the end has begun."""
        self.open(order, bool, lambda _: close())

    def open(self, order: Order, make: Callable[[], T], close: Callable[[T], object]) -> T:
        """Make something that has to be closed; the end can't begin between its making and its registration.

        Raises CohortError when the end has begun, and what ``make`` raises.
        """
        with self._lock:
            if self._thread_id is not None:
                raise CohortError("the query is ending", "COORDINATOR_NOT_AVAILABLE")
            resource = make()
            self._closers.append((order, lambda: close(resource)))
            return resource

    def run(self) -> None:
        """Close everything, in order; a second call waits until it is done."""
        # What ``open`` is still making after this time is left to the process' end.
        locked = self._lock.acquire(timeout=BEGIN_S)
        try:
            first = self._thread_id is None
            self._thread_id = threading.get_ident() if first else self._thread_id
        finally:
            if locked:
                self._lock.release()
        if not first:
            if self._thread_id != threading.get_ident():
                self._closed.wait(CLOSE_S)
            return
        for _, close in sorted(self._closers, key=lambda closer: closer[0]):
            try:
                close()
            except Exception:
                log.exception("a part of this run could not be closed at its end; the others are closed all the same")
        self._closed.set()

    @property
    def has_begun(self) -> bool:
        """Whether the end has begun."""
        return self._thread_id is not None


class ShutdownHook:
    """Ends this process, after its ``Ending``, at SIGTERM and when the driver's JVM is gone."""

    def __init__(self, ending: Ending, jvm: int | None) -> None:
        """``jvm`` is the process id of the driver's, if it is known; nothing is watched before ``start``."""
        self._ending = ending
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._jvm = jvm
        self._detached = False
        self._thread = Supervised("cohort-end", self._wait, self._end, self._give_up)

    def start(self) -> None:
        """Take the signal over, where this is the main thread, which alone may."""
        self._thread.start()
        if threading.current_thread() is not threading.main_thread():
            # Not the stream runner's process, which ends with its run: the user's own, which may begin the next one.
            self._ending.add(Order.INSIDE, self._detach)
            return
        signal.signal(signal.SIGTERM, self._on_signal)
        former = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        if former != -1:  # the descriptor of other code stays: the handler writes to our pipe as well
            signal.set_wakeup_fd(former)

    def _on_signal(self, signum: int, _frame: Any) -> None:
        with contextlib.suppress(OSError):
            os.write(self._writer, bytes([signum]))
        if not self._thread.is_alive() and not self._ending.has_begun:
            _set_kill_timer()
            sys.exit(0)  # the runner calls stop() then

    def _detach(self) -> None:
        self._detached = True
        with contextlib.suppress(OSError):  # the JVM ended meanwhile, and the pipe has no reader any more
            os.write(self._writer, b"\0")
        os.close(self._writer)

    def _wait(self) -> bool:
        while True:
            wait_for_exit(self._jvm or os.getpid(), self._reader)
            if self._detached:
                os.close(self._reader)
                return False
            signals = b""
            with contextlib.suppress(BlockingIOError):
                signals = os.read(self._reader, 4096)
            if not signals or signal.SIGTERM in signals:
                return True

    def _end(self) -> None:
        _set_kill_timer()
        self._ending.run()
        os._exit(0)

    def _give_up(self, error: CohortError) -> None:
        log.error("%s", error)
        os._exit(1)


def _set_kill_timer() -> None:
    """The kernel ends the process in time, even if the interpreter is stuck."""
    signal.setitimer(signal.ITIMER_REAL, CLOSE_S)
