"""The sources that are compared, and the one Spark application in which they run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.support.jars import jars

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
TUNED = {"kafka.max.poll.records": "10000", "kafka.receive.buffer.bytes": "1048576"}


@dataclass(frozen=True)
class Peer:
    """One source under test: its name in the report, Spark's format name, its options."""

    name: str
    format: str
    options: Mapping[str, str] = field(default_factory=dict)

    def read(self, spark: SparkSession, bootstrap: str, topic: str, run: str, **options: str) -> DataFrame:
        """A stream of ``topic``; ``run`` names the consumer group where the source wants one."""
        asked = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **self.options, **options}
        if self.format == "cohort":
            asked["group.id"] = f"bench-{run}"
        return spark.readStream.format(self.format).options(**asked).load()


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


@contextmanager
def session(master: str, directory: Path) -> Iterator[SparkSession]:
    """A Spark application with the peer's jars, this interpreter everywhere, and its files and log in ``directory``."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_LOCAL_DIRS"] = str(directory / "local")
    logging = directory / "log4j2.properties"
    logging.write_text(LOGGING)
    settings = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging}",
        "spark.driver.memory": "2g",
        "spark.jars": ",".join(str(jar) for jar in jars("spark-kafka")),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(master).appName("cohort-bench")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with stderr_to(directory / LOG):
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
