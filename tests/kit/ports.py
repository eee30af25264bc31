"""A port that nobody uses."""

from __future__ import annotations

import socket
from contextlib import closing


def free_port() -> int:
    """One of this host's, free just now."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
        return number
