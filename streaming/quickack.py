"""No delayed acknowledgements on the TCP connection between a Python worker and the JVM.

Spark writes a task's command, then its input.  The kernel keeps the second back until the first is acknowledged (Nagle's
algorithm), and the other end delays the acknowledgement by 40 ms.  That was half of the time of a small task.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress

_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def set_quickack() -> None:
    """Acknowledge at once on all TCP connections of this process, and send at once.

    A Python worker calls this in each task: the kernel returns to delayed acknowledgements by itself.
    """
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    with suppress(OSError), os.scandir("/proc/self/fd") as open_ones:
        for entry in open_ones:
            with suppress(OSError):  # the descriptor of this scan is closed by now
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
