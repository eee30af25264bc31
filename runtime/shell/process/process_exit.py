"""Waiting for the end of a process that is not ours to wait for: the JVM that a runner or an agent belongs to."""

from __future__ import annotations

import contextlib
import os
import select

from sparkcohort.runtime.shell.process.process_identity import stat_fields

POLL_S = 0.5
"""How often a process is looked at where the kernel can't tell of its end (no pidfd_open: an old seccomp profile, gVisor)."""


def until_gone(pid: int, wake: int | None = None) -> None:
    """Return when the process is gone, or when there is something to be read from the descriptor ``wake``."""
    waiting = select.poll()  # not select: a descriptor above 1,023 is none for that
    if wake is not None:
        waiting.register(wake, select.POLLIN)
    began = _start(pid)
    if began is None:
        return
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except OSError:  # refused (EPERM), unknown (ENOSYS), or no descriptor to be had
        while not waiting.poll(1000 * POLL_S):
            with contextlib.suppress(OSError):  # no descriptor either: it is looked at the next time
                if _start(pid) != began:
                    return
        return
    try:
        waiting.register(process, select.POLLIN)
        waiting.poll()
    finally:
        os.close(process)


def _start(pid: int) -> int | None:
    """When the process started, in clock ticks since boot: pids are reused.  None when it is gone, also when unreaped."""
    try:
        fields = stat_fields(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])
