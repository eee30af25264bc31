"""The query that a run serves, as Spark's progress events tell of it.

A source does not know the query that reads it.  Its tasks do, so the first that claims a slot says it; and a listener
in the driver (``ProgressListener``) says which batches are in Spark's commit log, to the run of that query alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import TopicPartition

Offsets = Mapping[TopicPartition, int]
Ids = Mapping[str, str]


class QueryProgress:
    """What is known of the query, and of the batch in flight; every method may be called from any thread."""

    def __init__(self, commit: Callable[[Offsets, Ids], None]) -> None:
        """``commit`` is called, under the lock, with the end of a batch that Spark's commit log has, and must not wait."""
        self._commit = commit
        self._lock = threading.Lock()
        self._query = self._name = ""
        self._in_flight: tuple[object, Offsets, Ids] = None, {}, {}
        self._lag: calls.OffsetsBehindLatest | None = None
        self.writes: Mapping[str, Any] | None = None  # by Cohort's sink, as the jar counts them: replaced whole

    def serves(self, query: str) -> None:
        """A task of this query has asked for its slot; a run serves one query for life."""
        self._query = self._query or query

    def plan(self, value: object, end: Offsets, ids: Ids) -> None:
        """The batch in flight ends at ``end``, in topics of these ids; ``value`` is what Spark has of both."""
        with self._lock:
            self._in_flight = value, end, ids

    def batch_committed(self, batch: calls.BatchCommitted) -> str:
        """A listener says that a batch is in Spark's commit log; returns the id of the query served, if it is known."""
        if self._query and batch.query == self._query:
            for source in batch.sources:
                self._committed(batch.name, source)
        return self._query

    def _committed(self, name: str, source: calls.SourceProgress) -> None:
        with self._lock:
            value, end, ids = self._in_flight
            # A query may have sources besides this one, and an event may be late: only the end of the batch in flight
            # can't be taken for another, and nothing that is committed later lies behind it.
            if source.end == value:
                self._name, self._lag = name, source.offsets_behind
                self._commit(end, ids)

    def as_value(self) -> dict[str, Any] | None:
        """For the status: the query and how far its last batch was behind the logs, if a listener tells of it."""
        with self._lock:
            lag = self._lag
            if lag is None:
                return None
            return {"id": self._query, "name": self._name, "offsets_behind_latest": lag._asdict()}
