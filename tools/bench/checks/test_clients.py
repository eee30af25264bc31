"""What the benchmarks count of client processes: real ones, that end while they are counted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from tests.kit.waiting import wait_until
from tools.bench.source.clients import ENDED, WORKERS, Clients, between

DRIVER = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1], "pyspark.daemon"])
"""
DAEMON = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as PySpark's: nobody waits for workers, and nobody counts them
if not os.fork():
    while time.process_time() < 0.5:
        pass
signal.pause()
"""


@pytest.fixture
def driver() -> Iterator[int]:
    """A process with a Python daemon below it, and a worker that has used half a second of CPU."""
    with subprocess.Popen([sys.executable, "-c", DRIVER, DAEMON]) as process:
        below = psutil.Process(process.pid)
        try:
            wait_until(
                lambda: any(sum(each.cpu_times()[:2]) >= 0.4 for each in below.children(recursive=True)), 20, "work"
            )
            yield process.pid
        finally:
            for each in below.children(recursive=True):
                each.kill()
            process.kill()


def test_a_worker_that_ends_takes_nothing_with_it(driver: int) -> None:
    """Spark ends idle workers while another source is measured: what they had used before is not that source's gain."""
    clients = Clients("nobody", driver)
    first = clients.cpu()
    assert first[WORKERS] >= 0.4
    (daemon,) = psutil.Process(driver).children()
    (worker,) = daemon.children()
    os.kill(worker.pid, signal.SIGKILL)
    wait_until(lambda: not daemon.children(), 10, "the worker's end")
    used = between(first, clients.cpu())
    assert used[ENDED] > -0.1
    assert 0 <= used[WORKERS] < 0.1
