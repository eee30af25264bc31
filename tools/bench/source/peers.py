"""The sources that are compared, and the one Spark application in which they run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.kit.jars import jars, reader_jar
from tools.spark import session

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
PYTHON_READER = Peer("cohort, python reader", "cohort", {"reader": "python"})
KAFKA = Peer("kafka", "kafka")
KAFKA_TUNED = Peer("kafka tuned", "kafka", TUNED)
PEERS = (COHORT, PYTHON_READER, KAFKA, KAFKA_TUNED)


def application(
    master: str, directory: Path, settings: Mapping[str, str] | None = None
) -> AbstractContextManager[SparkSession]:
    """A Spark application (see ``tools.spark.session``) with the peer's jars, and ``settings`` besides."""
    brought = [jar for part in ("spark-kafka", "spark-values") for jar in jars(part)]
    archives = [str(jar) for jar in (*brought, *reader_jar())]
    given = {"spark.driver.memory": "2g", "spark.jars": ",".join(archives)}
    return session(master, directory, given | dict(settings or {}))
