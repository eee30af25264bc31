"""``write.format("cohort")`` and ``writeStream.format("cohort")``: each task writes its rows to Kafka.

Spark makes a writer where it plans a write, sends it to the tasks, and makes another one that gets their messages.  A task has
written when Kafka has acknowledged all of its rows.  A batch that fails runs again: what it wrote before stays, at least once; of an
exactly-once sink it is in transactions that nobody commits (``batch_commit``).
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.decision import SinkDecision
from sparkcohort.runtime.shell.rpc.log_lines import log_to_stderr
from sparkcohort.runtime.text import counted
from sparkcohort.streaming.direct_read import keep_imports
from sparkcohort.streaming.pyfiles import find_pyfiles, has_own_provider
from sparkcohort.streaming.spark_errors import error_for_spark

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sparkcohort.runtime.shell.kafka.produce.produce_report import ProduceReport
    from sparkcohort.runtime.shell.kafka.produce.sink_committer import SinkCommitter
    from sparkcohort.runtime.shell.options.sink_options import SinkOptions
    from sparkcohort.streaming.exactly_once import TaskTransaction

log = logging.getLogger("sparkcohort.writer")

NO_DECISION: Final = SinkDecision("", -1)
_COMMIT_RUNNER: Final = "pyspark.sql.worker.python_streaming_sink_runner"


@dataclass(frozen=True)
class WrittenRows(WriterCommitMessage):
    """The message of a task that has written its rows, in ``task_s``; the jar reads it, too (WriteTotals.java)."""

    report: ProduceReport
    task_s: float
    decision: bytes = b""  # of an exactly-once sink: as if this task's transaction were all (``encode_decision``)


@dataclass(frozen=True)
class RowWriter:
    """What a task needs to write its rows: the options, and the places of the columns."""

    options: SinkOptions
    columns: Mapping[str, int]
    last: SinkDecision = NO_DECISION  # of an exactly-once sink, when it was settled: its run is this one

    def with_new_run(self) -> RowWriter:
        """Of an exactly-once sink: what is decided is committed, and tasks know of it.  Raises CohortError."""
        if not self.options.is_exactly_once:
            return self
        with closing(self._committer()) as committer, _errors_for_spark():
            return replace(self, last=replace(committer.begin_run().proposal, committables=()))

    def write(self, batches: Iterable[pa.RecordBatch]) -> WrittenRows:
        """Write the rows of one task and wait for their acknowledgement.  Raises CohortError."""
        from sparkcohort.runtime.shell.kafka.produce.producer_pool import borrowed_producer  # noqa: PLC0415  only tasks
        from sparkcohort.streaming.sink_rows import producer_rows  # noqa: PLC0415  likewise

        began = time.monotonic()
        log_to_stderr()
        if has_own_provider(self.options.producer.connection):
            find_pyfiles()
        borrowed = borrowed_producer(self.options.producer, is_transactional=self.options.is_exactly_once)
        try:
            with _errors_for_spark(), borrowed as producer:
                transaction = self._transaction()
                for batch in batches:
                    if batch.num_rows and not (transaction and transaction.is_written):
                        if transaction:
                            transaction.begin(producer)
                        encodings = self.options.key, self.options.value
                        producer.write(producer_rows(batch, self.columns, self.options.topic, encodings))
                report = producer.flush()
                decision = transaction.decision(producer) if transaction else b""
                return WrittenRows(report, time.monotonic() - began, decision)
        finally:
            keep_imports()

    def _committer(self) -> SinkCommitter:
        from sparkcohort.runtime.shell.kafka.produce.sink_committer import SinkCommitter  # noqa: PLC0415  most have none

        if has_own_provider(self.options.producer.connection):
            find_pyfiles()
        return SinkCommitter(self.options.producer, self.options.sink_id, self.options.state_topic)

    def _transaction(self) -> TaskTransaction | None:
        """What the task writes in; None at least once."""
        if not self.options.is_exactly_once:
            return None
        from sparkcohort.streaming.exactly_once import TaskTransaction  # noqa: PLC0415  most have none

        return TaskTransaction.of_task(self.options, self.last)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Decide which of an exactly-once sink's transactions count, and commit them.  Raises CohortError."""
        parts = [message.decision for message in messages if isinstance(message, WrittenRows) and message.decision]
        if not parts:
            return
        from sparkcohort.runtime.kafka.decision import joined_decision  # noqa: PLC0415  likewise

        own = joined_decision(parts)
        if self.options.app_id and own.batch <= self.last.batch and own.query == self.last.query:
            log_to_stderr()
            log.info("txn.version=%d of %s was written before, and is not written again", own.batch, own.query)
            return
        with closing(self._committer()) as committer, _errors_for_spark():
            committer.commit(own)


class CohortStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream."""

    def __init__(self, rows: RowWriter) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """As ``RowWriter``."""
        return self._rows.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  PySpark's name
        """Commit what an exactly-once sink has written; log it: with the jar Spark's progress event has it."""
        self._rows.commit(messages)
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
        """Commit what an exactly-once sink has written, and log it."""
        self._rows.commit(messages)
        _log_written("a batch write", messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log that it has failed."""
        _log_failed("a batch write", messages)


@contextmanager
def _errors_for_spark() -> Iterator[None]:
    try:
        yield
    except CohortError as error:
        raise error_for_spark(error)  # noqa: B904  its cause is set


def commits_only() -> bool:
    """Whether this process of Spark commits what others have planned."""
    main = getattr(sys.modules["__main__"], "__spec__", None)
    return _COMMIT_RUNNER in sys.modules or (main is not None and main.name == _COMMIT_RUNNER)


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
