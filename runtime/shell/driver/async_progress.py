"""Whether Spark writes its logs behind the query's back: ``asyncProgressTrackingEnabled``, an option of the sink.

Then ``latestOffset`` is asked on from the end of a batch that no log has yet, and only ``commit`` follows the logs.  No
source is told of that option, in no call and in no property.  What shows it is the thread that writes: Spark starts it
with the first batch of such a query, before anything is asked about the second.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from sparkcohort.runtime.shell.rpc.process_identity import stat_fields

WRITER = "async-log-write"
"""Spark's AsyncProgressTrackingMicroBatchExecution.ASYNC_LOG_WRITE_THREAD_NAME; Linux keeps 15 characters of a name."""
_PROC = Path("/proc")


def may_be_async() -> bool:
    """Whether a process above this one has such a thread, for whichever query; True where that can't be seen."""
    try:
        if (_PROC / "self").readlink().name != str(os.getpid()):
            return True  # /proc is of another process namespace
        pid = os.getppid()
        while pid > 0:
            if WRITER in _threads(pid):
                return True
            pid = _parent(pid)
    except OSError:
        return True
    return False


def _threads(pid: int) -> set[str]:
    names: set[str] = set()
    for thread in (_PROC / str(pid) / "task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            names.add((thread / "comm").read_text().rstrip("\n"))
    return names


def _parent(pid: int) -> int:
    return int(stat_fields(pid)[1])
