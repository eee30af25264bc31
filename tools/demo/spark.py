"""Spark for the demo: a cluster of three executors on this machine, its query, and how to kill one executor.

Each executor is on a host of its own (127.0.0.2 and up), as in a cluster, and the settings are those of
``conf/spark-defaults.conf``: what the demo shows is what the documents recommend.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil
from pyspark.sql import SparkSession

from tests.kit.standalone import standalone
from tools.demo import flights
from tools.recommended import recommended

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from tools.demo.sink import Sink

EXECUTORS: Final = 3
HOSTS: Final = [f"127.0.0.{number + 2}" for number in range(EXECUTORS)]
_BACKEND: Final = "CoarseGrainedExecutorBackend"
_LOGGING: Final = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


@contextmanager
def session(directory: Path) -> Iterator[SparkSession]:
    """A Spark session whose executors are processes of their own; gone, with its JVM and files, at the end."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONSAFEPATH"] = "1"  # what is installed counts, not the folder we are in
    os.environ["COHORT_HOME"] = str(directory / "cohort")
    logging = directory / "log4j2.properties"
    logging.write_text(_LOGGING)
    # Many JVMs start at once on what may be two cores: the quick compiler and collector, for a run of two minutes.
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    java = f"{quick} -Dlog4j2.configurationFile={logging.as_uri()}"
    env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": quick}
    with standalone(directory, env, HOSTS) as master:
        builder = SparkSession.builder.master(master).appName("cohort-demo")
        for key, value in recommended().items():
            builder = builder.config(key, value)
        spark = (
            builder.config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.extraJavaOptions", java)
            .config("spark.executor.extraJavaOptions", java)
            .config("spark.executor.memory", "1g")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.local.dir", str(directory / "local"))
            .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
            .getOrCreate()
        )
        gateway: Any = spark.sparkContext._gateway
        try:
            yield spark
        finally:
            with suppress(Exception):  # a JVM that is gone already
                spark.stop()
                gateway.shutdown()
            _end_jvm(gateway.proc)


def _end_jvm(jvm: subprocess.Popen[bytes]) -> None:
    if jvm.stdin is not None:
        jvm.stdin.close()  # which is how it learns that its Python is done
    try:
        jvm.wait(timeout=15)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


def stream(
    spark: SparkSession, bootstrap: str, topic: str, group_id: str, sink: Sink, checkpoint: Path
) -> StreamingQuery:
    """Start the query: the topic, read as a consumer group, its values as columns, into the sink."""
    columns = (
        spark.readStream.format("cohort")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("group.id", group_id)
        .option("value.format", "json")
        .option("value.schema", flights.FIELDS)
        .option("value.timezone", "UTC")
        .option("maxOffsetsPerTrigger", 20_000)
        .load()
    )
    return (
        columns.writeStream.foreachBatch(sink.write)
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime="500 milliseconds")
        .start()
    )


def executors() -> dict[str, psutil.Process]:
    """The JVMs of this session's executors by Spark's executor id."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        try:
            arguments = process.cmdline()
        except psutil.Error:
            continue
        if any(argument.endswith(_BACKEND) for argument in arguments) and "--executor-id" in arguments:
            found[arguments[arguments.index("--executor-id") + 1]] = process
    return found


def kill_executor(executor_id: str) -> int:
    """SIGKILL the JVM of an executor; returns its process id."""
    pid = int(executors()[executor_id].pid)
    os.kill(pid, signal.SIGKILL)
    return pid
