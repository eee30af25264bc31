"""No delayed acknowledgements on the TCP connection between a Python worker and the JVM.

Spark writes a task's command, then its input.  The kernel keeps the second back until the first is acknowledged (Nagle's
algorithm), and the other end delays the acknowledgement by 40 ms.  That was half of the time of a small task.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path


def set_quickack() -> None:
    """Acknowledge at once on all TCP connections of this process, and send at once.

    A Python worker calls this in each task: the kernel returns to delayed acknowledgements by itself.
    """
    for descriptor in filter(Path.is_socket, Path("/proc/self/fd").iterdir()):
        with suppress(OSError), socket.fromfd(int(descriptor.name), socket.AF_INET, socket.SOCK_STREAM) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)  # an OSError: it is none of TCP
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
