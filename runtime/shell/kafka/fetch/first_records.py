"""When the first visible records from given positions on were written: read, a batch of each partition."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from sparkcohort.runtime.batches.record_ages import FirstRecord
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.new_source import bounds, new_record_source
from sparkcohort.runtime.shell.kafka.fetch.record_source import Event, Records, RecordSource
from sparkcohort.runtime.values.columns import with_timestamp

QUEUE: Final = 64 << 10
NO_END: Final = 2**63 - 1
TIMESTAMPS: Final = with_timestamp(())
MICROSECONDS: Final = 1000

Positions: TypeAlias = Mapping[TopicPartition, int]
FirstRecords: TypeAlias = Collection[tuple[TopicPartition, FirstRecord]]


def read_first_records(
    conf: Mapping[str, Any],
    positions: Positions,
    timeout_s: float,
    tell: Callable[[FirstRecords], None],
    ended: Callable[[], bool],
) -> None:
    """Pass the first record at or after each position to ``tell``, until all have answered, the time is over, or ``ended``.

    A partition that has none, or fails, is left out.  Raises KafkaException for settings that librdkafka refuses.
    """
    if not positions:
        return
    source = new_record_source({**conf, **bounds(QUEUE)}, columns=TIMESTAMPS)
    try:
        source.assign({tp: (offset, NO_END) for tp, offset in positions.items()})
        _poll(source, dict(positions), timeout_s, tell, ended)
    finally:
        source.close()


def _poll(
    source: RecordSource,
    positions: dict[TopicPartition, int],
    timeout_s: float,
    tell: Callable[[FirstRecords], None],
    ended: Callable[[], bool],
) -> None:
    deadline = time.monotonic() + timeout_s
    while positions and not ended() and time.monotonic() < deadline:
        events = source.poll(0.1)
        tell(list(_first_records(events, positions)))
        done = {event.tp for event in events} & positions.keys()  # the end of the log and an error, too, are answers
        source.unassign(done)
        for tp in done:
            del positions[tp]


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
