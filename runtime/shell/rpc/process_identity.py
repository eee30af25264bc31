"""The place of a process: its id is valid on one boot of one host only, and in one pid namespace.

Homes are shared over NFS, and by containers: a file there that names a process may be another place's.
"""

from __future__ import annotations

import select
import socket
from pathlib import Path
from typing import Final, NamedTuple

_PROC = Path("/proc")
POLL_S: Final = 0.5
"""How often a process is looked at: the kernel tells of its end (pidfd_open) neither under gVisor nor old seccomp profiles."""


class Place(NamedTuple):
    """``host`` is for people; ``boot`` is the kernel's, another at each start, ``pids`` the pid namespace's inode."""

    host: str
    boot: str
    pids: int

    def is_here(self) -> bool:
        """Whether it looks like this process's own."""
        return self == current_place()

    def is_certain(self) -> bool:
        """Whether /proc had all of it: else another place may look the same."""
        return bool(self.boot and self.pids)


def current_place() -> Place:
    """Where this process is."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return Place(socket.gethostname(), boot, (_PROC / "self/ns/pid").stat().st_ino)
    except OSError:
        return Place(socket.gethostname(), "", 0)


def started(pid: int) -> int:
    """The start time of a process here in clock ticks since boot: pids are reused; 0 when it is gone, also when unreaped."""
    try:
        fields = stat_fields(pid)
    except (OSError, ValueError):
        return 0
    return 0 if fields[0] in ("Z", "X") else int(fields[19])


def parent(pid: int) -> int:
    """The parent of a process here; 0 when the process is gone."""
    try:
        return int(stat_fields(pid)[1])
    except (OSError, ValueError):
        return 0


def wait_for_exit(pid: int, wake: int | None = None) -> None:
    """Return when the process, which is no child, is gone, or when there is something to be read from the descriptor ``wake``."""
    poller = select.poll()  # not select: a descriptor above 1,023 is none for that
    if wake is not None:
        poller.register(wake, select.POLLIN)
    began = started(pid)
    while began and not poller.poll(1000 * POLL_S) and started(pid) == began:
        pass


def stat_fields(pid: int) -> list[str]:
    """What /proc says of a process, from its state on: [1] is the parent, [19] the start time.  Raises OSError."""
    # The command name may hold spaces and brackets; everything after the last bracket is plain fields.
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
