"""One answer of each partition: when the first visible records from given positions on were written, and whether leaders answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaError

from sparkcohort.runtime.batches.record_ages import FirstRecord
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.events import Event, PartitionError, Records
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.shell.kafka.fetch.settings import bounds
from sparkcohort.runtime.shell.options.client_defaults import PROBING
from sparkcohort.runtime.values.columns import OFFSETS, Columns, with_timestamp

QUEUE: Final = 64 << 10
POLL_S: Final = 0.1
MOST_RECORDS: Final = 1_000
NO_END: Final = 2**63 - 1
TIMESTAMPS: Final = with_timestamp(())
MICROSECONDS: Final = 1000

Positions: TypeAlias = Mapping[TopicPartition, int]
FirstRecords: TypeAlias = Collection[tuple[TopicPartition, FirstRecord]]


def read_first_records(conf: Mapping[str, Any], positions: Positions, timeout_s: float) -> Iterator[FirstRecords]:
    """The first record at or after each position as they come, until all partitions have answered or the time is over.

    A partition that has none, or fails, is left out.  Raises KafkaException for settings that librdkafka refuses.
    """
    for events in poll_once_each({**conf, **bounds(QUEUE)}, TIMESTAMPS, positions, timeout_s):
        yield list(_first_records(events, positions))


def probe_leaders(conf: Mapping[str, Any], starts: Positions, limit_s: float) -> frozenset[TopicPartition]:
    """The partitions whose leaders answered a fetch from these offsets within the limit, whatever the answer."""
    polls = poll_once_each({**conf, **PROBING}, OFFSETS, starts, limit_s, _is_an_answer)
    return frozenset(event.tp for events in polls for event in events) & starts.keys()


def _is_an_answer(event: Event) -> bool:
    """Errors of the client's own have numbers below zero: they are those of the way."""
    return not (isinstance(event, PartitionError) and isinstance(event.error, KafkaError) and event.error.code() < 0)


def poll_once_each(
    conf: Mapping[str, Any],
    columns: Columns,
    positions: Positions,
    timeout_s: float,
    is_answer: Callable[[Event], bool] = lambda _: True,
) -> Iterator[list[Event]]:
    """The answers of each poll, until all partitions have answered or the time is over; the end of a log and an error are answers, too."""
    if not positions:
        return
    open_partitions, deadline = set(positions), time.monotonic() + timeout_s
    with closing(RecordSource(conf, columns=columns)) as source:
        source.assign({tp: (offset, NO_END) for tp, offset in positions.items()})
        while open_partitions and time.monotonic() < deadline:
            events = [
                event for event in source.poll(POLL_S, MOST_RECORDS) if event.tp in open_partitions and is_answer(event)
            ]
            source.unassign({event.tp for event in events})
            open_partitions -= {event.tp for event in events}
            yield events


def _first_records(events: Iterable[Event], positions: Positions) -> Iterator[tuple[TopicPartition, FirstRecord]]:
    met: set[TopicPartition] = set()
    for event in events:
        if not isinstance(event, Records) or event.batch is None or event.runs is None:
            continue
        if event.tp in positions and event.tp not in met:
            met.add(event.tp)
            row = event.runs.rows_below(positions[event.tp], event.batch.num_rows)
            if row < event.batch.num_rows:
                written_ms = event.batch.column(0)[row].value // MICROSECONDS
                yield event.tp, FirstRecord(positions[event.tp], event.runs.offset_of(row), written_ms)
