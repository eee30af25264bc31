"""Writes of both formats, in the session of the fixture ``spark``.

Usage::

    write(frame, broker, "cohort", topic="orders")                    # a batch, or the PySparkException that it ends with
    stream = LineStream(spark, tmp_path, broker, "cohort", topic="orders")
    stream.run("1", "2")                                              # a query that writes these lines and ends
    stream.add("3")                                                   # another batch of a query that runs, with stream.trigger = ASAP
    stored(spark, broker, "orders")                                   # what the topic has, as Spark's own source reads it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.kit.batch_reads import load
from tests.kit.broker import Cluster
from tests.kit.streams import AVAILABLE_NOW, LIMIT_S, Transform

QUICK = {"kafka.max.block.ms": "5000"}
"""A topic that is not there is not waited for long."""


def write(frame: DataFrame, broker: Cluster, form: str, mode: str = "append", **more: Any) -> None:
    """Write a batch; ``more`` with ``__`` for ``.``."""
    frame.write.format(form).options(**_options(broker, more)).mode(mode).save()


def stored(spark: SparkSession, broker: Cluster, topic: str) -> list[Row]:
    """All records of a topic by partition and offset, headers among them."""
    rows = load(spark, broker, topic, "kafka", includeHeaders="true").collect()
    return sorted(rows, key=lambda row: (row.partition, row.offset))


def load_committed(spark: SparkSession, broker: Cluster, topic: str) -> list[str]:
    """The values that Spark's own source gives with ``read_committed``."""
    rows = load(spark, broker, topic, "kafka", **{"kafka.isolation.level": "read_committed"}).collect()
    return [bytes(row.value).decode() for row in rows]


def values(spark: SparkSession, broker: Cluster, topic: str) -> list[str]:
    """The values of a topic as text, sorted."""
    return sorted(bytes(row.value).decode() for row in stored(spark, broker, topic))


class LineStream:
    """A stream of lines, its only column ``value``, that is written in runs of one batch each, or by ``add``."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        broker: Cluster,
        form: str,
        *,
        select: Sequence[str] = ("value",),
        mode: str = "append",
        **more: Any,
    ) -> None:
        """Nothing is started; ``more`` are options of the write, with ``__`` for ``.``."""
        self._spark, self._folder, self._form, self._select, self._mode = spark, folder, form, select, mode
        self._options = _options(broker, more)
        self.trigger: Mapping[str, Any] = AVAILABLE_NOW
        self.transform: Transform = lambda frame: frame  # of the selected lines
        self.each_batch: Callable[[DataFrame, int], None] | None = None  # in place of the format
        self._lines = folder / "lines"
        self._files = 0
        self._lines.mkdir(parents=True)

    def start(self, *lines: str) -> StreamingQuery:
        """Start a run with these lines."""
        self.add(*lines)
        frame = self.transform(self._spark.readStream.text(str(self._lines)).selectExpr(*self._select))
        writer = frame.writeStream.format(self._form).options(**self._options).outputMode(self._mode)
        writer = writer.foreachBatch(self.each_batch) if self.each_batch is not None else writer
        checkpoint = str(self._folder / "checkpoint")
        return writer.option("checkpointLocation", checkpoint).trigger(**self.trigger).start()

    def add(self, *lines: str) -> None:
        """A file of these lines, whole when the query sees it."""
        self._files += 1
        part = self._folder / "part.txt"
        part.write_text("\n".join(lines))
        part.rename(self._lines / f"{self._files}.txt")

    def run(self, *lines: str) -> StreamingQuery:
        """Write these lines and wait for the end; raises what the query ends with."""
        query = self.start(*lines)
        try:
            if not query.awaitTermination(int(LIMIT_S)):
                raise AssertionError(f"the query still runs: {query.status}")
        finally:
            query.stop()
        return query


def _options(broker: Cluster, more: dict[str, Any]) -> dict[str, str]:
    named = {name.replace("__", "."): str(value) for name, value in more.items() if value is not None}
    return {"kafka.bootstrap.servers": broker.bootstrap, **QUICK, **named}
