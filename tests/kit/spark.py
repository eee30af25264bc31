"""Spark drivers as processes of their own, so that a test can kill one and each has a fresh JVM.

Usage::

    with Driver(FOLDER / "copy.py", tmp_path / "first", {"topic": "orders"}, master="local-cluster[3,1,1024]") as driver:
        driver.wait_for("running", 60)                # what the script told with tests.kit.driver.report
        os.kill(driver.executors()[0].pid, signal.SIGKILL)
        driver.wait(180)                              # its end; raises with the log's end when it failed
    # leaving the block kills whatever of it still runs
    assert driver.left == []

Logs: ``driver.log()``.  ``kafka=True`` puts Spark's own Kafka source on the class path.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from tests.kit import processes
from tests.kit.class_archives import quick
from tests.kit.driver import ARGUMENTS, CONF, EVENTS
from tests.kit.jars import ROOT, jars, reader_jar
from tests.kit.spark_home import archives, spark_home
from tests.kit.waiting import wait_until

EXECUTOR = "CoarseGrainedExecutorBackend"
AGENT = "sparkcohort.runtime.shell.agent.agent"
QUIET = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    # Short-lived JVMs on few cores: starting is what costs.  A measurement of speed sets these back.
    "spark.driver.extraJavaOptions": " ".join(quick("spark")),
    "spark.executor.extraJavaOptions": " ".join(quick("spark")),
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.executor.heartbeatInterval": "2s",
}


@dataclass(frozen=True)
class Executor:
    """A living executor's JVM."""

    pid: int
    executor_id: str
    cores: int


class Driver:
    """One run of a driver script; everything it writes lies in ``directory``."""

    def __init__(
        self,
        script: Path,
        directory: Path,
        arguments: Mapping[str, Any] | None = None,
        *,
        master: str = "local[2]",
        conf: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        kafka: bool = False,
        zipped: bool = False,
    ) -> None:
        """Nothing runs before ``start`` or the ``with`` block.

        ``env`` is added to this process's environment; ``zipped``: all Pythons take PySpark from Spark's archives, as
        with spark-submit.
        """
        self.run_id = uuid.uuid4().hex
        self.directory = directory
        self._script = script
        self._settings = QUIET | _memory(master) | {"spark.master": master} | dict(conf or {})
        # Executors' folders, in the place that all runs share, are named after the application.
        self._settings["spark.deploy.appIdPattern"] = f"app-{self.run_id}-%s-%04d"
        brought = [*(jars("spark-kafka") if kafka else ()), *reader_jar()]
        self._settings.setdefault("spark.jars", ",".join(map(str, brought)))
        self._arguments = dict(arguments or {})
        self._extra_env = dict(env or {})
        self._zipped = zipped
        self._told: list[dict[str, Any]] = []  # the events so far, up to byte _read of their file
        self._read, self._reading = 0, threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    # --- its life ---

    def start(self) -> None:
        """Start the script."""
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-P", str(self._script)]
        with (self.directory / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory, env=self._environment()
            )

    def _environment(self) -> dict[str, str]:
        env = os.environ | {
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_DIRS": str(self.directory / "local"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            processes.MARK: self.run_id,
            CONF: json.dumps(self._settings),
            ARGUMENTS: json.dumps(self._arguments, default=str),
            EVENTS: str(self.directory / "events.jsonl"),
        }
        # The caller's own path first, then this tests package, then what the environment has.
        path = [self._extra_env.get("PYTHONPATH"), str(_tests_only(self.directory)), os.environ.get("PYTHONPATH")]
        if self._zipped:
            path.insert(0, archives())
        return env | self._extra_env | {"PYTHONPATH": os.pathsep.join(filter(None, path))}

    @property
    def pid(self) -> int:
        """The script's Python process; raises RuntimeError before ``start``."""
        if self._process is None:
            raise RuntimeError("the driver was not started")
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The script's exit status; None while it runs."""
        return self._process.poll() if self._process else None

    def wait(self, timeout_s: float = 120) -> Self:
        """Wait for the script's end; raises AssertionError with the log's end when it fails or takes too long."""
        status = self.end(timeout_s)
        if status != 0:
            raise AssertionError(f"{self._script} ended with {status}:\n{self.log_tail()}")
        return self

    def end(self, timeout_s: float = 120) -> int:
        """Wait for the script's end and return its exit status; raises AssertionError when it takes too long."""
        if self._process is None:
            raise RuntimeError("the driver was not started")
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self._script} still runs after {timeout_s} s:\n{self.log_tail()}") from None

    def kill(self) -> None:
        """SIGKILL the driver, as when its machine dies: its JVM and every Python process on the driver's side.

        Executors live on until they notice.
        """
        ours = [process.pid for process in processes.descendants(self.pid)]
        spared = {pid for executor in self.executors() for pid in _tree(executor.pid)}
        for pid in [self.pid, *ours]:
            if pid not in spared:
                _send(pid, signal.SIGKILL)
        self.end(10)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Give what ended well a moment to leave on its own, then kill what is left."""
        self.left = self.settle() if error is None and self.returncode is not None else []
        processes.kill_run(self.run_id)
        self.end(10)
        for folder in self._executors_folders():
            kept = self.directory / "work" / folder.name
            if folder != kept:
                kept.parent.mkdir(exist_ok=True)
                shutil.move(folder, kept)

    # --- what it told and wrote ---

    def events(self, name: str | None = None) -> list[dict[str, Any]]:
        """What the script reported so far, all or by name."""
        file = self.directory / "events.jsonl"
        if file.exists():
            with file.open("rb") as lines, self._reading:
                lines.seek(self._read)
                for line in lines:
                    if line.endswith(b"\n"):
                        self._told.append(json.loads(line))
                        self._read += len(line)
        return [event for event in self._told if name is None or event["event"] == name]

    def wait_for(self, name: str, timeout_s: float = 60, count: int = 1) -> list[dict[str, Any]]:
        """Wait until the script has reported ``name`` ``count`` times; raises AssertionError when it ended before."""

        def told() -> list[dict[str, Any]] | None:
            ended = self.returncode
            found = self.events(name)
            if len(found) >= count:
                return found
            if ended is not None:
                raise AssertionError(f"{self._script} ended with {ended} before {name!r}:\n{self.log_tail()}")
            return None

        return wait_until(told, timeout_s, f"event {name!r} of {self._script}") or []

    def log(self) -> str:
        """All that the driver wrote to standard output and error."""
        file = self.directory / "driver.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def log_tail(self, characters: int = 6000) -> str:
        """The log's end."""
        return self.log()[-characters:]

    def _executors_folders(self) -> list[Path]:
        """While it runs, and where they are kept afterwards."""
        places = spark_home() / "work", self.directory / "work"
        return sorted(folder for place in places for folder in place.glob(f"app-{self.run_id}-*"))

    # --- its processes ---

    def processes(self) -> list[psutil.Process]:
        """All living processes of this run, those in sessions of their own included."""
        return processes.marked(self.run_id)

    def executors(self) -> list[Executor]:
        """The living executors, by executor id."""
        found = [_executor(process) for process in self.processes() if EXECUTOR in processes.command(process)]
        return sorted((each for each in found if each is not None), key=lambda each: int(each.executor_id))

    def agents(self) -> list[psutil.Process]:
        """The living member agents."""
        return processes.matching(AGENT, self.processes())

    def jvm(self) -> psutil.Process:
        """The driver's JVM; raises RuntimeError when there is none."""
        for process in processes.descendants(self.pid):
            if processes.matching("org.apache.spark.deploy.SparkSubmit", [process]) and process.name() == "java":
                return process
        raise RuntimeError("the driver has no JVM")

    def settle(self, timeout_s: float = 15) -> list[str]:
        """Wait until no process of this run is left; those that still are after ``timeout_s``, in words."""
        try:
            wait_until(lambda: not processes.marked(self.run_id), timeout_s, "the run's processes to end", every_s=0.25)
        except AssertionError:
            return processes.leftovers(self.run_id)
        return []


def _memory(master: str) -> dict[str, str]:
    """On local-cluster[n,cores,MB]: all of a worker's memory and cores for its one executor."""
    if not master.startswith("local-cluster["):
        return {}
    _, cores, megabytes = master.removeprefix("local-cluster[").removesuffix("]").split(",")
    return {"spark.executor.memory": f"{megabytes.strip()}m", "spark.executor.cores": cores.strip()}


def _tests_only(directory: Path) -> Path:
    """A folder to put on PYTHONPATH that holds this tests package and nothing else of the source tree."""
    folder = directory / "python-path"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "tests"
    if not link.is_symlink():
        link.symlink_to(ROOT / "tests", target_is_directory=True)
    return folder


def _executor(process: psutil.Process) -> Executor | None:
    try:
        words = process.cmdline()
    except psutil.Error:
        return None
    if "--executor-id" not in words or not words[0].endswith("java"):
        return None
    named = dict(pairwise(words))
    return Executor(process.pid, named["--executor-id"], int(named["--cores"]))


def _tree(pid: int) -> list[int]:
    return [pid, *(process.pid for process in processes.descendants(pid))]


def _send(pid: int, what: signal.Signals) -> None:
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        return
