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


def instance_lock(group_id: str, instance_id: str) -> socket.socket:
    """One reader per (group, instance id) within one application: two would take turns at fencing each other.

    The lock holds until it is closed: an abstract socket keyed by the driver's JVM, which can't go stale and leaves nothing
    behind.  Waits some seconds for the reader of a query that is just being stopped.  Raises CohortError.
    """
    lock, jvm = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), driver_jvm()
    if jvm is None:
        return lock
    digest = hashlib.sha256(f"{group_id}\0{instance_id}".encode()).hexdigest()[:16]
    deadline = time.monotonic() + TAKE_LOCK_S
    while True:
        try:
            lock.bind(f"\0cohort-reader-{jvm.process_name()}-{digest}")
        except OSError:
            if time.monotonic() > deadline:
                lock.close()
                raise CohortError(
                    f"another stream of this application already reads group.id {group_id!r} with "
                    f"group.instance.id {instance_id!r} (two loads joined, or two writeStreams of one DataFrame): "
                    "load() it once for each and give each its own group.id, or write both outputs from one foreachBatch"
                ) from None
            threading.Event().wait(0.1)
        else:
            return lock
