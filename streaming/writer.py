"""``write.format("cohort")`` and ``writeStream.format("cohort")``: each task writes its rows to Kafka, at least once.

Spark makes a writer where it plans a write, sends it to the tasks, and makes another one that gets their messages.  A task has
written when Kafka has acknowledged all of its rows.  A batch that fails runs again: what it wrote before stays.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.rpc.log_lines import log_to_stderr
from sparkcohort.runtime.text import counted
from sparkcohort.streaming.direct_read import keep_imports
from sparkcohort.streaming.pyfiles import find_pyfiles, has_own_provider
from sparkcohort.streaming.spark_errors import error_for_spark

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sparkcohort.runtime.shell.kafka.produce.produce_report import ProduceReport
    from sparkcohort.runtime.shell.options.sink_options import SinkOptions

log = logging.getLogger("sparkcohort.writer")


@dataclass(frozen=True)
class WrittenRows(WriterCommitMessage):
    """The message of a task that has written its rows, in ``task_s``; the jar reads it, too (WriteTotals.java)."""

    report: ProduceReport
    task_s: float


@dataclass(frozen=True)
class RowWriter:
    """What a task needs to write its rows: the options, and the places of the columns."""

    options: SinkOptions
    columns: Mapping[str, int]

    def write(self, batches: Iterable[pa.RecordBatch]) -> WrittenRows:
        """Write the rows of one task and wait for their acknowledgement.  Raises CohortError."""
        from sparkcohort.runtime.shell.kafka.produce.producer_pool import borrowed_producer  # noqa: PLC0415  only tasks
        from sparkcohort.streaming.sink_rows import producer_rows  # noqa: PLC0415  likewise

        began = time.monotonic()
        log_to_stderr()
        if has_own_provider(self.options.producer.connection):
            find_pyfiles()
        try:
            with borrowed_producer(self.options.producer) as producer:
                for batch in batches:
                    if batch.num_rows:
                        encodings = self.options.key, self.options.value
                        producer.write(producer_rows(batch, self.columns, self.options.topic, encodings))
                return WrittenRows(producer.flush(), time.monotonic() - began)
        except CohortError as error:
            raise error_for_spark(error)  # noqa: B904  its cause is set
        finally:
            keep_imports()


class CohortStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream."""

    def __init__(self, rows: RowWriter) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """As ``RowWriter``."""
        return self._rows.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  PySpark's name
        """Log what the batch has written; with the jar Spark's progress event has it."""
        _log_written(f"batch {batchId}", messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  PySpark's name
        """Log that the batch will be written again."""
        _log_failed(f"batch {batchId}", messages)


class CohortBatchWriter(DataSourceArrowWriter):
    """Writes one DataFrame."""

    def __init__(self, rows: RowWriter) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """As ``RowWriter``."""
        return self._rows.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what was written."""
        _log_written("a batch write", messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log that it has failed."""
        _log_failed("a batch write", messages)


@cache
def log_warning(text: str) -> None:
    """Log a warning of the options, once in a process: Spark makes a writer twice a batch."""
    log_to_stderr()
    log.warning("%s", text)


def _log_written(subject: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    log_to_stderr()
    total = _total(messages)
    topics = ", ".join(
        f"{topic} {counted(rows, 'row')} ({total.bytes[topic]:,} bytes, {total.batches[topic]:,} batches, "
        f"{total.retries.get(topic, 0)} retries)"
        for topic, rows in sorted(total.rows.items())
    )
    log.info("%s is in Kafka: %s; its tasks waited %.3f s for brokers", subject, topics or "no row", total.waited_s)


def _log_failed(subject: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    log_to_stderr()
    rows = sum(_total(messages).rows.values())
    log.warning("%s failed, and %s of tasks that ended well stay in Kafka", subject, counted(rows, "row"))


def _total(messages: Sequence[WriterCommitMessage | None]) -> ProduceReport:
    from sparkcohort.runtime.shell.kafka.produce.produce_report import ProduceReport  # noqa: PLC0415  not to be planned

    total = ProduceReport()
    for message in messages:
        if isinstance(message, WrittenRows):
            total.add(message.report)
    return total
