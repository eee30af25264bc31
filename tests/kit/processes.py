"""Processes and sockets of ours, found by what they carry in their environment.

Everything that a driver started by ``tests.kit.spark`` starts, whatever session or parent it moves to, inherits
``COHORT_TEST_RUN``.  What still carries it after the driver's end was left behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import psutil

from tests.kit.waiting import wait_until

MARK = "COHORT_TEST_RUN"
SOCKET_PREFIX = "@cohort-"


def marked(run: str) -> list[psutil.Process]:
    """The living processes of one run, this process excepted."""
    return [process for process in psutil.process_iter() if process.pid != os.getpid() and _mark(process) == run]


def _mark(process: psutil.Process) -> str | None:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        mark: str | None = process.environ().get(MARK)
    except psutil.Error:
        return None
    return mark


def sockets() -> list[str]:
    """The names of Cohort's abstract unix sockets on this machine (network namespace), as /proc/net/unix shows them."""
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return sorted({line[7] for line in lines if len(line) > 7 and line[7].startswith(SOCKET_PREFIX)})


def freeze(pid: int) -> None:
    """SIGSTOP, and wait until every thread stands still: until one of them gets to see the signal, all of them go on.

    On a busy machine that was long enough for a broker to take another commit.
    """
    os.kill(pid, signal.SIGSTOP)
    wait_until(
        lambda: all(_state(task) in "tTZX" for task in Path(f"/proc/{pid}/task").iterdir()), 30, f"{pid} to stop"
    )


def _state(task: Path) -> str:
    """A thread's state, a letter (proc(5)); "X" once it is gone."""
    try:
        return task.joinpath("stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def command(process: psutil.Process) -> str:
    """A process's whole command line; its name where that can't be read."""
    try:
        return " ".join(process.cmdline()) or process.name()
    except psutil.Error:
        return f"(pid {process.pid}, gone)"


def matching(words: str, among: list[psutil.Process] | None = None) -> list[psutil.Process]:
    """The living processes whose command line contains ``words``."""
    found = among if among is not None else list(psutil.process_iter())
    return [process for process in found if process.pid != os.getpid() and words in command(process)]


def descendants(pid: int) -> list[psutil.Process]:
    """All children, grandchildren and so on of a process; empty when it is gone."""
    try:
        found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
    return found


def leftovers(run: str) -> list[str]:
    """The processes that one run left behind, in words."""
    return [f"pid {process.pid}: {command(process)[:300]}" for process in marked(run)]


def kill_run(run: str) -> None:
    """SIGKILL what is left of one run."""
    for process in marked(run):
        with contextlib.suppress(psutil.Error):
            process.send_signal(signal.SIGKILL)
