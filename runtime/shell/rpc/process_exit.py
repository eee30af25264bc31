"""Waits for the end of a process that is no child of this one: the JVM that a runner or an agent belongs to."""

from __future__ import annotations

import select

from sparkcohort.runtime.shell.rpc.process_identity import stat_fields

POLL_S = 0.5
"""How often a process is looked at: the kernel tells of its end (pidfd_open) neither under gVisor nor old seccomp profiles."""


def wait_for_exit(pid: int, wake: int | None = None) -> None:
    """Return when the process is gone, or when there is something to be read from the descriptor ``wake``."""
    poller = select.poll()  # not select: a descriptor above 1,023 is none for that
    if wake is not None:
        poller.register(wake, select.POLLIN)
    began = _start(pid)
    while began is not None and not poller.poll(1000 * POLL_S) and _start(pid) == began:
        pass


def _start(pid: int) -> int | None:
    """When the process started, in clock ticks since boot: pids are reused.  None when it is gone, also when unreaped."""
    try:
        fields = stat_fields(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])
