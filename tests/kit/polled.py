"""A source of record batches, and what it tells, polled until it has told it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.events import Event, Records
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.values.columns import KAFKA_ROW, Columns
from tests.kit.waiting import wait_until

NO_END = 2**63 - 1


@contextmanager
def fetching(
    conf: Mapping[str, Any],
    tp: TopicPartition,
    start: int = 0,
    *,
    columns: Columns = KAFKA_ROW,
    kind: Callable[..., RecordSource] = RecordSource,
) -> Iterator[RecordSource]:
    """A source of one partition, without an end."""
    source = kind(conf, columns=columns)
    try:
        source.assign({tp: (start, NO_END)})
        yield source
    finally:
        source.close()


def first(source: RecordSource, kind: type[Event]) -> Any:
    """The first event of this kind."""
    found: list[Event] = []

    def seen() -> bool:
        found.extend(event for event in source.poll(0.1) if isinstance(event, kind))
        return bool(found)

    wait_until(seen, 60, kind.__name__, every_s=0)
    return found[0]


def read_to(source: RecordSource, end: int) -> list[int]:
    """The offsets of the records that come, up to ``end`` of the only partition."""
    found: list[int] = []

    def reached() -> bool:
        for event in source.poll(0.1):
            if isinstance(event, Records) and event.batch is not None:
                found.extend(event.batch.column("offset").to_pylist())
        return bool(found) and found[-1] + 1 >= end

    wait_until(reached, 60, f"offset {end}", every_s=0)
    return found


def complaint(source: RecordSource) -> set[int]:
    """What it complains of, once it does; no event comes before."""
    wait_until(lambda: source.poll(0.1) or source.complaints, 30, "a complaint", every_s=0)
    return set(source.complaints)


def poll_for(poll: Callable[[], Any], seconds: float) -> None:
    """Poll for so long."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        poll()
