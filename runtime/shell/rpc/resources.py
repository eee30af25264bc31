"""File descriptors: as many as the system grants."""

from __future__ import annotations

import resource
from typing import Final

MOST_DESCRIPTORS: Final = 1 << 16
"""Some hard limits are a billion; a process with so many open has another problem."""


def raise_limit() -> None:
    """Take as many file descriptors as the hard limit allows, ``MOST_DESCRIPTORS`` at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
