"""The stream runner process itself: its JVM, and the lock of an instance id within one application (its end: ``shutdown``)."""

from __future__ import annotations

import hashlib
import logging
import socket
import threading
import time
from functools import cache

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.rpc.executor import Executor, NoExecutor, find_executor

log = logging.getLogger("sparkcohort.process")

TAKE_LOCK_S = 5.0


@cache
def driver_jvm() -> Executor | None:
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
        jvm = driver_jvm()
        if jvm is None:
            return
        digest = hashlib.sha256(f"{self._group_id}\0{self._instance_id}".encode()).hexdigest()[:16]
        address = f"\0cohort-reader-{jvm.process_name()}-{digest}"
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
                        f"group.instance.id {self._instance_id!r} (two loads joined, or two writeStreams of one DataFrame): "
                        "load() it once for each and give each its own group.id, or write both outputs from one foreachBatch"
                    ) from None
                threading.Event().wait(0.1)
            else:
                self._socket = attempt
                return

    def release(self) -> None:
        """Give the lock back."""
        lock, self._socket = self._socket, None
        if lock is not None:
            lock.close()
