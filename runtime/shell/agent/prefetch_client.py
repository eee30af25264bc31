"""The Kafka client of a prefetcher: a record source, made again after a failure.

The columns that are fetched are the query's and the timestamps, since records' ages are reported for every query.

librdkafka shows no topic's id, and a topic may be recreated.  No two topics have the same id, and the driver had seen the plan's
before anything was fetched for that plan (``Buffer.follow_plan``): records are of that topic if it still has this id after they
have come.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.agent.owned_buffers import FetchTargets
from sparkcohort.runtime.shell.kafka import blocking_client
from sparkcohort.runtime.shell.kafka.fetch.events import Event, Largest, PartitionError
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.shell.kafka.fetch.settings import bounds
from sparkcohort.runtime.shell.options.connection_settings import TransportError
from sparkcohort.runtime.values.columns import Columns, Field, with_timestamp

POLL_S = 0.05
NO_END = 2**63 - 1
LEAST_LARGEST = 2 << 20  # a record as large as brokers take by default is fetched ahead by the smallest buffer
REMEDY = "that is a quarter of buffer.bytes; the tasks read it directly"


class PrefetchClient:
    """``source`` may be woken, and asked for figures, by any thread; all else is for one."""

    def __init__(
        self, conf: Mapping[str, Any], columns: Columns, buffer_bytes: int, batch_bytes: int, threads: int
    ) -> None:
        """Make the first source; no broker is awaited."""
        self._columns, self._fetched = columns, with_timestamp(columns)
        self._new_source = partial(
            RecordSource,
            {**conf, **bounds(max(buffer_bytes // 8, 64 << 10))},
            batch_bytes=batch_bytes,
            unhurried=True,
            largest=Largest(max(buffer_bytes // 4, LEAST_LARGEST), REMEDY),
            columns=self._fetched,
            threads=threads,
        )
        self.source = self._new_source()
        self.assigned: set[TopicPartition] = set()
        self.is_lost = False  # how the source stands is not known: it is made again

    def replace_lost(self) -> None:
        """Make the source again if it is lost."""
        if self.is_lost:
            old, self.source = self.source, self._new_source()
            self.assigned, self.is_lost = set(), False
            with contextlib.suppress(Exception):  # it may have been closing when it failed
                old.close()

    def poll(self, targets: FetchTargets, pace_s: float) -> list[Event]:
        """Fetch what is due; wait for it for ``POLL_S``, or ``pace_s`` if that is longer."""
        self.source.unassign(targets.stop)
        self.source.assign({tp: (offset, NO_END) for tp, offset in targets.start.items()})
        self.assigned = (self.assigned - targets.stop) | set(targets.start)
        self.source.pace(pace_s)
        return self.source.poll(max(POLL_S, pace_s))

    def topic_ids(
        self, events: Sequence[Event], expected: Callable[[TopicPartition], str]
    ) -> dict[TopicPartition, str]:
        """The ids of the topics of records that have come: the cluster is asked where one is expected, and the client tells none."""
        ids = {event.tp: self.source.topic_id(event.tp) for event in events}
        records = {event.tp for event in events if not isinstance(event, PartitionError)}
        doubted = {tp.topic for tp in records if not ids[tp] and expected(tp)}
        with contextlib.suppress(TransportError):  # no broker answers: they stay unknown
            answer = blocking_client.topic_ids(self.source.cluster, doubted)
            ids = {tp: topic_id or answer.get(tp.topic, "") for tp, topic_id in ids.items()}
        return ids

    def split_timestamps(self, batch: pa.RecordBatch | None) -> tuple[pa.RecordBatch | None, pa.Array | None]:
        """The rows as the query has them, and their timestamps."""
        if batch is None:
            return None, None
        fields = [column.field for column in self._fetched]
        times = batch.column(fields.index(Field.TIMESTAMP))
        return (batch if self._fetched == self._columns else batch.select(range(len(self._columns)))), times

    def close(self) -> None:
        """Close all connections."""
        self.source.close()
