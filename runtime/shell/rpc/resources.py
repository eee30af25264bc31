"""The resources that this process uses and may use, by Linux (proc(5), getrusage(2))."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import Final, NamedTuple

from sparkcohort.runtime.shell.rpc.process_identity import stat_fields

MOST_DESCRIPTORS: Final = 1 << 16
"""Some hard limits are a billion; a process with so many open has another problem."""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_STARTED_AT: Final = 19  # of the fields behind the command's name in /proc/self/stat


class ProcessFigures(NamedTuple):
    """Bytes, seconds of CPU time, counts; ``started_at`` is in seconds since 1970."""

    resident_bytes: int
    cpu_seconds: float
    open_fds: int
    max_fds: int
    threads: int
    started_at: float


def process_figures() -> ProcessFigures:
    """The figures as they are now.  Raises OSError where there is no descriptor to look with."""
    stat = stat_fields(os.getpid())
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return ProcessFigures(
        resident_bytes=int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        open_fds=len(list(Path("/proc/self/fd").iterdir())) - 1,  # less the one that lists them
        max_fds=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        threads=int(stat[_STARTED_AT - 2]),
        started_at=time.time() - uptime_s + int(stat[_STARTED_AT]) / _TICKS,
    )


def raise_limit() -> None:
    """Take as many file descriptors as the hard limit allows, ``MOST_DESCRIPTORS`` at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
