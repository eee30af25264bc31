"""The stream runner process itself: its end, its log, and the lock of an instance id within one application."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.executor import Executor, NoExecutor, find_executor

log = logging.getLogger("sparkcohort.process")

TAKE_LOCK_S = 5.0
CLOSE_S = 4.0


def prepare(close: Callable[[], None]) -> None:
    """Make the process end well: ``close`` runs at SIGTERM (which is how Spark stops a query) and when the JVM is gone.

    Spark never calls ``stop()`` of a Python stream reader at query stop; a SystemExit out of the signal handler makes
    the runner do it.
    """
    _log_to_stderr()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _exit)
    jvm = _jvm()
    if jvm is not None:
        threading.Thread(target=_watch, args=(jvm.pid, close), name="cohort-jvm", daemon=True).start()


@cache
def _jvm() -> Executor | None:
    """The driver's JVM; where it can't be found, one warning says what that costs."""
    try:
        return find_executor()
    except NoExecutor as error:
        log.warning(
            "the JVM of this driver can't be found: %s. Two streams of this application on one group.id are not told "
            "apart (give each its own), and the run may outlive a JVM that is killed",
            error,
        )
        return None


def _exit(signum: int, frame: Any) -> None:  # noqa: ARG001  a signal handler's signature
    # What Arrow Flight or librdkafka still does in the background must not keep a stopped query's process alive.
    deadline = threading.Timer(CLOSE_S, os._exit, args=(0,))
    deadline.daemon = True
    deadline.start()
    sys.exit(0)


def _watch(pid: int, close: Callable[[], None]) -> None:
    with contextlib.suppress(ProcessLookupError):
        select.select([os.pidfd_open(pid)], [], [])
    deadline = threading.Timer(CLOSE_S, os._exit, args=(0,))
    deadline.daemon = True
    deadline.start()
    close()
    os._exit(0)


def _log_to_stderr() -> None:
    """Where nobody has set logging up, let Cohort's own lines reach the driver's log in Spark's form."""
    ours = logging.getLogger("sparkcohort")
    if logging.getLogger().handlers or ours.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%y/%m/%d %H:%M:%S"))
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)


class InstanceLock:
    """One reader per (group, instance id) within one application: two would take turns at fencing each other.

    An abstract socket keyed by the driver's JVM: it can't go stale and leaves nothing behind.
    """

    def __init__(self, group_id: str, instance_id: str) -> None:
        self._group_id = group_id
        self._instance_id = instance_id
        self._socket: socket.socket | None = None

    def take(self) -> None:
        """Take the lock; waits some seconds for the reader of a query that is just being stopped.  Raises CohortError."""
        jvm = _jvm()
        if jvm is None:
            return
        named = hashlib.sha256(f"{self._group_id}\0{self._instance_id}".encode()).hexdigest()[:16]
        address = f"\0cohort-reader-{jvm.process()}-{named}"
        deadline = time.monotonic() + TAKE_LOCK_S
        attempt = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        while True:
            try:
                attempt.bind(address)
            except OSError:
                if time.monotonic() > deadline:
                    attempt.close()
                    raise CohortError(
                        f"another stream of this application already reads group.id {self._group_id!r} with "
                        f"group.instance.id {self._instance_id!r} (a self-join, or two writeStreams of one DataFrame): "
                        "give each its own group.id, or write both outputs from one foreachBatch"
                    ) from None
                threading.Event().wait(0.1)
            else:
                self._socket = attempt
                return

    def release(self) -> None:
        """Give the lock back."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
