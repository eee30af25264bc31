"""Spark for the demo and the benches: an application of its own, its JVM, its executors, and how to kill one of these."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.kit.standalone import standalone

JVM_END_S: Final = 20
LOG: Final = "spark.log"  # of the JVM, Python workers, stream runner and agents
LOGGING: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
STANDALONE: Final = re.compile(r"standalone\[(\d+)\]")
BACKEND: Final = "CoarseGrainedExecutorBackend"


@contextmanager
def stderr_to(log: Path) -> Iterator[None]:
    """What is started in this block writes its standard error to ``log`` for life: the JVM, and all that it starts."""
    ours = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def hosts_of(master: str) -> list[str]:
    """The hosts of ``standalone[workers]``, one for each worker of one core, none of another master.

    Spark's local cluster has all executors on one host, and Spark puts no two attempts of a task on one host: what it
    does with a task that is slow on one executor can't be seen there.
    """
    found = STANDALONE.fullmatch(master)
    return [f"127.0.0.{number + 2}" for number in range(int(found[1]))] if found else []


@contextmanager
def session(master: str, directory: Path, settings: Mapping[str, str], java: str = "") -> Iterator[SparkSession]:
    """A Spark application with this interpreter everywhere, and its files and log in ``directory``.

    ``master`` may be ``standalone[workers]``, see ``hosts_of``; ``java`` are options of all JVMs.  Its JVM ends with it:
    the next one starts as cold as this one did.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONSAFEPATH"] = "1"  # what is installed counts, not the folder we are in
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_LOCAL_DIRS"] = str(directory / "local")
    os.environ["COHORT_HOME"] = str(directory / "cohort")
    with ExitStack() as stack:
        settings = _settings(directory, java) | dict(settings)
        if hosts := hosts_of(master):
            env = {**os.environ, "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": java}
            master = stack.enter_context(standalone(directory, env, hosts))
            settings |= {"spark.cores.max": str(len(hosts)), "spark.executor.memory": "1g"}
        with stderr_to(directory / LOG):
            builder = SparkSession.builder.master(master).appName("cohort")
            for key, value in settings.items():
                builder = builder.config(key, value)
            spark = builder.getOrCreate()
        with _until_ended(spark):
            yield spark


def _settings(directory: Path, java: str) -> dict[str, str]:
    logging = directory / "log4j2.properties"
    logging.write_text(LOGGING)
    options = f"{java} -Dlog4j2.configurationFile={logging}".strip()
    return {
        "spark.driver.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": options,
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


@contextmanager
def _until_ended(spark: SparkSession) -> Iterator[None]:
    gateway: Any = spark.sparkContext._gateway
    # Where executors of a local cluster write their logs, for want of an option.
    work = Path(gateway.jvm.java.lang.System.getenv("SPARK_HOME") or "") / "work"
    logs = work / spark.sparkContext.applicationId
    try:
        yield
    finally:
        with suppress(Py4JError):  # a JVM that is gone already
            spark.stop()
        _end_jvm(gateway)
        shutil.rmtree(logs, ignore_errors=True)
        with suppress(OSError):
            work.rmdir()


def _end_jvm(gateway: Any) -> None:
    with suppress(Py4JError):
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    gateway.proc.stdin.close()  # which is how it learns that its Python is done
    try:
        gateway.proc.wait(timeout=JVM_END_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()


def executors() -> dict[str, psutil.Process]:
    """The JVMs of this process's executors by Spark's executor id."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        try:
            arguments = process.cmdline()
        except psutil.Error:
            continue
        if any(argument.endswith(BACKEND) for argument in arguments) and "--executor-id" in arguments:
            found[arguments[arguments.index("--executor-id") + 1]] = process
    return found


def kill_executor(executor_id: str) -> int:
    """SIGKILL the JVM of an executor; returns its process id."""
    pid = int(executors()[executor_id].pid)
    os.kill(pid, signal.SIGKILL)
    return pid
