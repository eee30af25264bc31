"""glibc's heap in a process that takes and gives back megabytes a hundred times a second."""

from __future__ import annotations

import contextlib
import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h
LARGEST = 4 << 20  # above the columns of one chunk
KEPT = 32 << 20


def keep() -> None:
    """Keep what is given back, up to ``KEPT`` bytes, for the next columns: the kernel would clear every page anew.

    A quarter of an agent's CPU was that.  Other C libraries do as they like.
    """
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, LARGEST)
        mallopt(_TRIM_THRESHOLD, KEPT)
