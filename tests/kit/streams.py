"""One Spark session for many streaming queries, in the test's own process: a JVM start is dear, a query is not.

Usage, with the fixture ``spark`` of ``tests/e2e/conftest.py``::

    run = Stream(spark, options(broker, topic), tmp_path / "checkpoint").finish()     # AvailableNow, to its end
    check(run.delivered(), held(broker.bootstrap, [topic])).assert_exact()

    with Stream(spark, options(broker, topic), checkpoint, trigger=ASAP) as run:      # until the end of the block
        run.wait_for_rows(1_000)
    message = Stream(spark, {...}, checkpoint).failure()                              # what a user sees in Python

Rows are kept by batch id, as a sink that is keyed by it does: a batch that runs again replaces itself.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  everybody's name for it
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from tests.kit import delivery
from tests.kit.broker import Cluster
from tests.kit.faults import OVERWRITTEN
from tests.kit.jars import jars, reader_jar
from tests.kit.spark import QUIET
from tests.kit.spark_home import spark_home
from tests.kit.tier import of_tier
from tests.kit.waiting import wait_until

FORMS = of_tier(quick=("cohort",), thorough=("cohort", "kafka"))
"""Ours; in ``make test-all`` Spark's own beside it, of which each test says what it does (Spark 4.2.0)."""
AVAILABLE_NOW = {"availableNow": True}
ASAP = {"processingTime": "0 seconds"}
LIMIT_S = 90.0
JVM_END_S = 60.0
# By default each file of a checkpoint is some processes: see docs/operate/sizing.md.
CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
WITHOUT_PROCESSES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
READER: dict[str, str] = {}
"""The option ``reader`` of all that ``options`` makes, in tests marked ``both_readers``."""
PLAIN_COLUMNS = ("topic", "partition", "offset", "key", "value")

Batches = dict[int, list[Row]]
Places = list[tuple[str, int, int]]
"""Topic, partition and offset of each row, in order."""
Transform = Callable[[DataFrame], DataFrame]


@contextmanager
def session(scratch: Path, master: str = "local[2]") -> Iterator[SparkSession]:
    """A session of this process with Spark's own Kafka source beside ours, and its JVM."""
    brought = ",".join(map(str, [*jars("spark-kafka"), *reader_jar()]))
    settings = QUIET | {"spark.jars": brought, "spark.local.dir": str(scratch)}
    settings[CHECKPOINT_FILES] = WITHOUT_PROCESSES
    builder = SparkSession.builder.master(master).appName("tests").config("spark.sql.session.timeZone", "UTC")
    for key, value in settings.items():
        builder = builder.config(key, value)
    # Inherited by the JVM and by every Python that it starts: what is installed counts, not the folder we are in.
    env = {"PYSPARK_PYTHON": sys.executable, "PYTHONSAFEPATH": "1", "SPARK_LOCAL_IP": "127.0.0.1"}
    env["SPARK_HOME"] = str(spark_home())
    env |= OVERWRITTEN
    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
        _end_jvm()


def _end_jvm() -> None:
    """End the JVM that PySpark keeps for the next session of this process: it would stay until the process ends."""
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    java = gateway.proc
    java.stdin.close()  # what it waits for
    java.wait(JVM_END_S)
    SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def sparks_checkpoint_files(spark: SparkSession) -> Iterator[None]:
    """Spark's own way to write a checkpoint, as an application has it, for the queries that start within."""
    spark.conf.unset(CHECKPOINT_FILES)
    try:
        yield
    finally:
        spark.conf.set(CHECKPOINT_FILES, WITHOUT_PROCESSES)


def options(broker: Cluster, topic: str, **more: Any) -> dict[str, str]:
    """Subscribe to ``topic`` as the group of the same name from the earliest offset; ``more`` with ``__`` for ``.``."""
    given = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "subscribe": topic,
        "group.id": topic,
        "startingOffsets": "earliest",
    }
    changed = {name.replace("__", "."): None if value is None else str(value) for name, value in more.items()}
    return {name: value for name, value in {**given, **READER, **changed}.items() if value is not None}


class Stream:
    """One query and the rows that it delivered, by batch."""

    def __init__(
        self,
        spark: SparkSession,
        source: Mapping[str, str],
        checkpoint: Path,
        *,
        form: str = "cohort",
        trigger: Mapping[str, Any] | None = None,
        columns: tuple[str, ...] | None = PLAIN_COLUMNS,
        schema: StructType | str | None = None,
        transform: Transform | None = None,
        batches: Batches | None = None,
    ) -> None:
        """Nothing is started; ``batches`` of an earlier run on the same checkpoint can be gone on with.

        ``columns`` None keeps all; ``schema`` is the reader's; ``transform`` works on the streaming DataFrame before that.
        """
        self.batches: Batches = {} if batches is None else batches
        self._spark, self._source, self._checkpoint, self._form = spark, dict(source), checkpoint, form
        self._trigger, self._columns, self._transform = dict(trigger or AVAILABLE_NOW), columns, transform
        self._schema = schema
        self._lock = threading.Lock()
        self._query: StreamingQuery | None = None

    @property
    def query(self) -> StreamingQuery:
        """Spark's handle; raises RuntimeError before ``start``."""
        if self._query is None:
            raise RuntimeError("the query was not started")
        return self._query

    def load(self) -> DataFrame:
        """The streaming DataFrame."""
        given = {name: value for name, value in self._source.items() if self._form == "cohort" or _known_to_spark(name)}
        reader = self._spark.readStream.format(self._form)
        if self._schema is not None:
            reader = reader.schema(self._schema)
        found: DataFrame = reader.options(**given).load()
        return found

    def start(self) -> Self:
        """Start the query."""
        stream = self.load()
        if self._transform is not None:
            stream = self._transform(stream)
        writer = stream.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(self._checkpoint))
        self._query = writer.trigger(**self._trigger).start()
        return self

    def _keep(self, batch: DataFrame, batch_id: int) -> None:
        rows = (batch if self._columns is None else batch.select(*self._columns)).collect()
        with self._lock:
            self.batches[batch_id] = rows

    def finish(self, timeout_s: float = LIMIT_S) -> Self:
        """Start it unless it runs, and wait for its end; raises what the query ended with, or AssertionError."""
        if self._query is None:
            self.start()
        try:
            if not self.query.awaitTermination(int(timeout_s)):
                raise AssertionError(f"the query still runs after {timeout_s} s: {self.query.status}")
        finally:
            self.query.stop()
        return self

    def failure(self, timeout_s: float = LIMIT_S) -> str:
        """The text of the exception with which the query ends, as a Python user sees it."""
        try:
            self.finish(timeout_s)
        except StreamingQueryException as error:
            return str(error)
        raise AssertionError("the query ended well")

    def outcome(self, timeout_s: float = LIMIT_S) -> Places | str:
        """Where the rows of the whole run are, or the text of the error at its start or at its end."""
        try:
            rows = self.finish(timeout_s).rows
        except PySparkException as error:
            return str(error)
        return sorted((row.topic, row.partition, row.offset) for row in rows)

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop the query; raises what it had ended with before."""
        self.query.stop()
        failed = self.query.exception()
        if failed is not None and error is None:
            raise failed

    # --- what came out ---

    @property
    def rows(self) -> list[Row]:
        """All rows, by batch."""
        with self._lock:
            return [row for number in sorted(self.batches) for row in self.batches[number]]

    def wait_for_rows(self, count: int, timeout_s: float = LIMIT_S) -> Self:
        """Wait until so many rows have come; raises what the query ended with, or AssertionError."""

        def come() -> bool:
            if not self.query.isActive:
                self.query.awaitTermination()  # raises the query's own exception
                raise AssertionError(f"the query ended with {len(self.rows)} of {count} rows")
            return len(self.rows) >= count

        wait_until(come, timeout_s, f"{count} rows")
        return self

    def delivered(self) -> pa.Table:
        """The rows as ``delivery.check`` takes them."""
        with self._lock:
            kept = [(row, number) for number, rows in sorted(self.batches.items()) for row in rows]
        found = (
            (row.topic, row.partition, row.offset, *delivery.measured(row.key, row.value), number)
            for row, number in kept
        )
        return delivery.table(found, delivery.DELIVERED)

    def spans(self) -> dict[int, dict[int, tuple[int, int]]]:
        """First and last offset of each partition (of the only topic) in each batch."""
        spans: dict[int, dict[int, tuple[int, int]]] = {}
        with self._lock:
            for number, rows in self.batches.items():
                for row in rows:
                    first, last = spans.setdefault(number, {}).get(row.partition, (row.offset, row.offset))
                    spans[number][row.partition] = (min(first, row.offset), max(last, row.offset))
        return spans


def together(
    spark: SparkSession, sources: Mapping[str, Mapping[str, str]], checkpoint: Path, form: str = "cohort"
) -> dict[str, Places]:
    """Where the rows of each source are, by its name, in one AvailableNow query over all of them."""
    plain = ("name", "topic", "partition", "offset")

    def load(name: str) -> DataFrame:
        frame = Stream(spark, sources[name], checkpoint, form=form).load()
        return frame.select(F.lit(name).alias("name"), *plain[1:])

    first, *rest = sources

    def united(_: DataFrame) -> DataFrame:
        return reduce(DataFrame.union, map(load, rest), load(first))

    found: dict[str, Places] = {name: [] for name in sources}
    for row in Stream(spark, sources[first], checkpoint, form=form, columns=plain, transform=united).finish().rows:
        found[row["name"]].append((row.topic, row.partition, row.offset))
    return {name: sorted(places) for name, places in found.items()}


def assert_outcome(found: Places | str, expected: int | str) -> None:
    """So many rows, or an error with these words."""
    if isinstance(expected, str):
        assert isinstance(found, str), f"{len(found)} rows, and not {expected!r}"
        assert expected in found
    else:
        assert not isinstance(found, str), found
        assert len(found) == expected


def error(run: Callable[[], Any]) -> str:
    """The error of a query or a read, in whole; it may come from the JVM as it is."""
    with pytest.raises((PySparkException, Py4JJavaError)) as caught:
        run()
    return str(caught.value)


def _known_to_spark(name: str) -> bool:
    """Whether ``format("kafka")`` takes an option of ours."""
    return name.startswith("kafka.") or "." not in name
