"""A standalone Spark cluster on this machine: a master and workers, each worker under a host of its own if need be.

Usage::

    with standalone(tmp_path, environment(tmp_path, run), hosts=["127.0.0.1", "127.0.0.2"]) as master:
        ...                                        # master is its URL; executors carry ``run`` in their environment
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.kit import processes
from tests.kit.class_archives import quick
from tests.kit.spark_home import spark_home
from tests.kit.waiting import wait_until

BIN = Path(sys.executable).parent
DAEMON_TIMEOUT_S = 60.0
MASTER_CLASS, WORKER_CLASS = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"


def environment(directory: Path, run: str) -> dict[str, str]:
    """What every process of the cluster and the driver gets."""
    return {
        **os.environ,
        processes.MARK: run,
        "PYTHON": sys.executable,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(directory / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(quick("spark")),
        "SPARK_HOME": str(spark_home()),
    }


@contextmanager
def standalone(directory: Path, env: Mapping[str, str], hosts: Sequence[str]) -> Iterator[str]:
    """A cluster with one worker of one core for each of ``hosts``, on ports that the system chose; its master's URL."""
    web = ("--webui-port", "0")
    with ExitStack() as stack:
        log = directory / "master.log"
        stack.enter_context(daemon(log, env, MASTER_CLASS, "--host", "127.0.0.1", "--port", "0", *web))
        master = said(log, r"Starting Spark master at (spark://\S+)")
        logs = [directory / f"worker-{number}.log" for number, _ in enumerate(hosts, 1)]
        for number, (host, log) in enumerate(zip(hosts, logs, strict=True), 1):
            own = {**env, "SPARK_LOCAL_DIRS": str(directory / f"local-{number}"), "SPARK_LOCAL_IP": host}
            size = ("--cores", "1", "--memory", "2g", "--work-dir", str(directory / f"work-{number}"))
            stack.enter_context(daemon(log, own, WORKER_CLASS, "--host", host, *web, *size, master))
        for log in logs:
            said(log, r"(Successfully registered with master)")
        yield master


@contextmanager
def daemon(
    log: Path, env: Mapping[str, str], *arguments: str, program: str = "spark-class"
) -> Iterator[subprocess.Popen[bytes]]:
    """A Spark daemon that writes to ``log``; ended by its pid."""
    with log.open("wb") as output:
        command = ["setpriv", "--pdeathsig", "TERM", str(BIN / program), *arguments]
        process = subprocess.Popen(command, env=dict(env), stdout=output, stderr=output, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def said(log: Path, pattern: str, process: subprocess.Popen[bytes] | None = None) -> str:
    """The first group of ``pattern`` in a daemon's log, waited for; raises AssertionError when ``process`` has ended."""

    def found() -> str:
        ended = process is not None and process.poll() is not None
        text = log.read_text(errors="replace")
        match = re.search(pattern, text)
        assert match or not ended, f"the daemon has ended:\n{text[-4000:]}"
        return match[1] if match else ""

    return wait_until(found, DAEMON_TIMEOUT_S, f"{pattern} in {log}")
