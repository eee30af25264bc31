"""A task's transaction: under a transactional id of this worker that is free, begun before the first row, left open.

A worker keeps its ids: a new one for each batch would be 7 days in the memory of Kafka's coordinators.  It gives up that of a task
that failed, or whose transaction was ended while it wrote, and one whose InitProducerId got no answer.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
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
"""The ids of this worker that can be used again, by sink and query."""


def _new_word() -> str:
    return uuid.uuid4().hex


def _new_name(sink_id: str, new_word: Callable[[], str] = _new_word) -> str:
    return f"{sink_id}{TASK_SEPARATOR}{new_word()}"


def take_name(sink_id: str, query: str, batch: int, new_word: Callable[[], str] = _new_word) -> str:
    """An id that no decision may name: one used two batches ago, or a new one.  It is this task's until ``give_back``.

    >>> words = iter("abc").__next__
    >>> def used(batch: int) -> str:
    ...     name = take_name("s", "q", batch, words)
    ...     give_back("s", "q", NameUse(name, batch))
    ...     return name
    >>> [used(batch) for batch in (5, 5, 6, 7, 7, 8)]
    ['s/a', 's/b', 's/c', 's/a', 's/b', 's/c']
    """
    uses = _uses.get((sink_id, query), [])
    free = next((use for use in uses if is_free(use, batch)), None)
    if free is None:
        return _new_name(sink_id, new_word)
    uses.remove(free)
    return free.name


def give_back(sink_id: str, query: str, use: NameUse) -> None:
    """An id can be used again, once it has rested: its transaction was open after its last write."""
    if (sink_id, query) not in _uses and len(_uses) >= MOST_SINKS:
        _uses.pop(next(iter(_uses)))
    _uses.setdefault((sink_id, query), []).append(use)


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
            new_name = partial(_new_name, self._options.sink_id)
            self._transaction = producer.begin(name, self._options.producer.transaction_ms, new_name)

    def decision(self, producer: Producer) -> bytes:
        """What the driver is told, after a flush.  Raises ProduceError."""
        if self._transaction is None:
            return encode_decision(SinkDecision(self._query, self._batch, (), self._run))
        # A leader that asks no coordinator (before KIP-890) lets an ended transaction go on with what comes late, and the next
        # marker of this producer ends that, too: a commit of the id's next transaction would make it visible.
        if producer.is_open(self._transaction):
            use = NameUse(self._transaction.name, self._batch)
            give_back(self._options.sink_id, self._query, use)
        own = Committable(self._transaction, producer.written_ranges())
        return encode_decision(SinkDecision(self._query, self._batch, (own,), self._run))


_PROPERTIES: Final = ("sql.streaming.queryId", "streaming.sql.batchId")
"""Spark's local properties of a stream's tasks (``StreamExecution``, ``MicroBatchExecution``)."""
