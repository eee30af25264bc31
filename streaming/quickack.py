"""The pipe between a Python worker and the JVM, a TCP connection unless Spark is told otherwise: nobody waits on it.

Spark writes a task's command, then its input, and the kernel keeps the second back until the first is acknowledged (Nagle's
algorithm), which the kernel at the other end puts off for 40 ms in the hope of data to send along.  That was half of
what a small task took.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress

_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def set_quickack() -> None:
    """Acknowledge at once what has come on this process's TCP connections, and keep nothing back that is written to them.

    For a Python worker, once a task: the kernel goes back to putting off acknowledgements by itself.
    """
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    with suppress(OSError), os.scandir("/proc/self/fd") as open_ones:
        for entry in open_ones:
            with suppress(OSError):  # closed by now: what is read here
                _set_quickack_of(int(entry.name))


def _set_quickack_of(descriptor: int) -> None:
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return
    connection = socket.socket(fileno=descriptor)
    try:
        if connection.family in _FAMILIES and connection.type == socket.SOCK_STREAM:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    finally:
        connection.detach()
