"""The sources that are compared, and the one Spark application in which they run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from tests.kit.jars import jars
from tests.kit.standalone import standalone

JVM_END_S = 20
LOG = "spark.log"  # of the JVM, Python workers, stream runner and agents
LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
STANDALONE = re.compile(r"standalone\[(\d+)\]")
TUNED = {"kafka.max.poll.records": "10000", "kafka.receive.buffer.bytes": "1048576"}


@dataclass(frozen=True)
class View:
    """What of a topic is read, and how each source is asked for it; as a rule the whole row."""

    name: str
    schema: str = ""  # for Cohort's reader
    options: Mapping[str, str] = field(default_factory=dict)  # for Cohort
    of_kafka: tuple[str, ...] = ()  # expressions over the columns of Spark's own source: the same columns as Cohort's
    selected: tuple[str, ...] = ()  # expressions over these


ROW = View("the whole row")


@dataclass(frozen=True)
class Peer:
    """One source under test: its name in the report, Spark's format name, its options."""

    name: str
    format: str
    options: Mapping[str, str] = field(default_factory=dict)

    def read(
        self, spark: SparkSession, bootstrap: str, topic: str, run: str, view: View = ROW, **options: str
    ) -> DataFrame:
        """A stream of ``topic``; ``run`` names the consumer group where the source wants one."""
        asked = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **self.options, **options}
        reader = spark.readStream.format(self.format)
        if self.format == "cohort":
            asked |= {"group.id": group_of(run), **view.options}
            reader = reader.schema(view.schema) if view.schema else reader
        frame = reader.options(**asked).load()
        for columns in (view.of_kafka if self.format == "kafka" else (), view.selected):
            frame = frame.selectExpr(*columns) if columns else frame
        return frame


def group_of(run: str) -> str:
    """The group of a run of the bench."""
    return f"bench-{run}"


COHORT = Peer("cohort", "cohort")
KAFKA = Peer("kafka", "kafka")
KAFKA_TUNED = Peer("kafka tuned", "kafka", TUNED)
PEERS = (COHORT, KAFKA, KAFKA_TUNED)


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
def session(master: str, directory: Path, extra: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A Spark application with the peer's jars, this interpreter everywhere, and its files and log in ``directory``.

    ``master`` may be ``standalone[workers]``, see ``hosts_of``; ``extra`` are settings besides.  Its JVM ends with it:
    the next one starts as cold as this one did.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONSAFEPATH"] = "1"  # what is installed is measured, not the folder we are in
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_LOCAL_DIRS"] = str(directory / "local")
    os.environ["COHORT_HOME"] = str(directory / "cohort")
    with ExitStack() as stack:
        settings = _settings(directory) | dict(extra or {})
        if hosts := hosts_of(master):
            master = stack.enter_context(standalone(directory, {**os.environ, "SPARK_DAEMON_MEMORY": "256m"}, hosts))
            settings |= {"spark.cores.max": str(len(hosts)), "spark.executor.memory": "1g"}
        with stderr_to(directory / LOG):
            builder = SparkSession.builder.master(master).appName("cohort-bench")
            for key, value in settings.items():
                builder = builder.config(key, value)
            spark = builder.getOrCreate()
        with _until_ended(spark):
            yield spark


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


def _settings(directory: Path) -> dict[str, str]:
    logging = directory / "log4j2.properties"
    logging.write_text(LOGGING)
    return {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging}",
        "spark.executor.extraJavaOptions": f"-Dlog4j2.configurationFile={logging}",
        "spark.driver.memory": "2g",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.jars": ",".join(str(jar) for part in ("spark-kafka", "spark-values") for jar in jars(part)),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


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
