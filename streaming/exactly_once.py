"""A task's transaction: under a transactional id of this worker that is free, begun before the first row, left open.

A worker keeps its ids: a new one for each batch would be 7 days in the memory of Kafka's coordinators.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self

from pyspark import TaskContext

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.batch_commit import NameUse, is_free
from sparkcohort.runtime.kafka.decision import (
    TASK_SEPARATOR,
    Committable,
    SinkDecision,
    SinkTransaction,
    encode_decision,
)

if TYPE_CHECKING:
    from sparkcohort.runtime.shell.kafka.produce.row_producer import Producer
    from sparkcohort.runtime.shell.options.sink_options import SinkOptions

MOST_SINKS: Final = 64
_uses: dict[tuple[str, str], list[NameUse]] = {}
"""The ids of this worker, by sink and query."""


def take_name(sink_id: str, query: str, batch: int, new_word: Callable[[], str] = lambda: uuid.uuid4().hex) -> str:
    """An id that no decision may name: one used two batches ago, or a new one.

    >>> words = iter("abc").__next__
    >>> [take_name("s", "q", batch, words) for batch in (5, 5, 6, 7, 7, 8)]
    ['s/a', 's/b', 's/c', 's/a', 's/b', 's/c']
    """
    if (sink_id, query) not in _uses and len(_uses) >= MOST_SINKS:
        _uses.pop(next(iter(_uses)))
    uses = _uses.setdefault((sink_id, query), [])
    free = next((use for use in uses if is_free(use, batch)), None)
    name = free.name if free is not None else f"{sink_id}{TASK_SEPARATOR}{new_word()}"
    uses[:] = [*(use for use in uses if use is not free), NameUse(name, batch)]
    return name


class TaskTransaction:
    """The transaction of one task; none is begun for a task without rows, nor for a batch that is decided."""

    def __init__(self, options: SinkOptions, query: str, batch: int, run: str, *, is_written: bool) -> None:
        """``is_written``: another run's tasks have written this batch, and it is decided: rows are passed over."""
        self.is_written = is_written
        self._options, self._query, self._batch, self._run = options, query, batch, run
        self._transaction: SinkTransaction | None = None

    @classmethod
    def of_task(cls, options: SinkOptions, last: SinkDecision) -> Self:
        """The transaction of the task that runs here; ``last`` is the sink's last decision when the write was planned."""
        query, batch = options.app_id, options.app_version
        if batch is None:
            context = TaskContext.get()
            properties = [context.getLocalProperty(name) if context else None for name in _PROPERTIES]
            if properties[0] is None or properties[1] is None:
                raise CohortError("this task is of no batch of a stream: delivery.guarantee=exactly-once can't name it")
            query, batch = properties[0], int(properties[1])
        is_before = bool(options.app_id) and batch < last.batch
        is_written = last.query == query and (batch == last.batch or is_before)
        return cls(options, query, batch, last.run, is_written=is_written)

    def begin(self, producer: Producer) -> None:
        """Before the first row."""
        if self._transaction is None:
            name = take_name(self._options.sink_id, self._query, self._batch)
            self._transaction = producer.begin(name, self._options.producer.transaction_ms)

    def decision(self, producer: Producer) -> bytes:
        """What the driver is told, after a flush."""
        own = (Committable(self._transaction, producer.written_ranges()),) if self._transaction is not None else ()
        return encode_decision(SinkDecision(self._query, self._batch, own, self._run))


_PROPERTIES: Final = ("sql.streaming.queryId", "streaming.sql.batchId")
"""Spark's local properties of a stream's tasks (``StreamExecution``, ``MicroBatchExecution``)."""
