"""A standalone Spark cluster on loopback whose workers are on hosts of their own: 127.0.0.2 and up.

Spark's local cluster has all executors on one host, and Spark puts no two attempts of a task on one host: what it does
with a task that is slow on one executor can't be seen there.

Usage::

    with Cluster("standalone[4,1,1024]", directory) as cluster:    # four workers, a core and 1,024 MiB each
        SparkSession.builder.master(cluster.url)
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from tests.kit.waiting import wait_until
from tools.bench.results import BenchError

MASTER = re.compile(r"standalone\[(\d+),(\d+),(\d+)\]")
URL = re.compile(r"spark://[\d.]+:\d+")
REGISTERED = re.compile("Successfully registered with master")
READY_TIMEOUT_S = 120.0
END_TIMEOUT_S = 20.0
DAEMON = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "SPARK_NO_DAEMONIZE": "1",
}
LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


class Cluster:
    """A master and its workers: processes that end with the block, and their executors with them."""

    def __init__(self, master: str, directory: Path) -> None:
        """``master`` is ``standalone[workers,cores,MB]``; raises ValueError when it isn't."""
        found = MASTER.fullmatch(master)
        if found is None:
            raise ValueError(f"{master} is not standalone[workers,cores,MB]")
        self._workers, self._cores, self._mib = map(int, found.groups())
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.url = ""

    @property
    def settings(self) -> dict[str, str]:
        """An executor takes all of its worker, and the application all workers."""
        cores = str(self._workers * self._cores)
        return {
            "spark.cores.max": cores,
            "spark.executor.cores": str(self._cores),
            "spark.executor.memory": f"{self._mib}m",
        }

    def __enter__(self) -> Self:
        """Start it, and wait until all workers have registered; raises BenchError when they don't."""
        (self._directory / "log4j2-cluster.properties").write_text(LOGGING)
        try:
            self._launch("master", "master.Master", "127.0.0.1")
            self.url = self._ready("master", URL)
            names = [f"worker-{number}" for number in range(self._workers)]
            for number, name in enumerate(names):
                share = ["--cores", str(self._cores), "--memory", f"{self._mib}M"]
                share += ["--work-dir", str(self._directory / name), self.url]
                self._launch(name, "worker.Worker", f"127.0.0.{number + 2}", *share)
            for name in names:
                self._ready(name, REGISTERED)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the workers, then the master."""
        self._end()

    def _launch(self, name: str, what: str, host: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}"]
        command += ["--host", host, "--port", "0", "--webui-port", "0", *arguments]
        logging = f" -Dlog4j2.configurationFile={self._directory / 'log4j2-cluster.properties'}"
        daemon = DAEMON | {"SPARK_DAEMON_JAVA_OPTS": DAEMON["SPARK_DAEMON_JAVA_OPTS"] + logging}
        environment = os.environ | daemon | {"SPARK_HOME": str(home)}
        with self._log(name).open("wb") as file:
            ended_with_us = ["setpriv", "--pdeathsig", "TERM"]
            process = subprocess.Popen([*ended_with_us, *command], env=environment, stdout=file, stderr=file)
        self._processes[name] = process

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def _ready(self, name: str, words: re.Pattern[str]) -> str:
        """Wait until a process has logged ``words``, and return them."""

        def seen() -> str | None:
            text = self._log(name).read_text(errors="replace")
            if self._processes[name].poll() is not None:
                raise BenchError(f"Spark's {name} ended:\n{text[-2000:]}")
            found = words.search(text)
            return found.group() if found else None

        try:
            return wait_until(seen, READY_TIMEOUT_S, f"Spark's {name}") or ""
        except AssertionError as error:
            raise BenchError(str(error)) from None

    def _end(self) -> None:
        ending = list(reversed(self._processes.values()))
        for process in ending:
            process.terminate()
        for process in ending:
            try:
                process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
