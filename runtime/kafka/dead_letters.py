"""The records of a dead letter topic: what can't be decoded, as it came, and why, in headers of Kafka Connect's names.

Source: Connect's ``DeadLetterQueueReporter``.  A consumer that knows its topics knows these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.values.columns import Field


class RawRecord(NamedTuple):
    """A record without its place; its time in ms is None for the time at which it is written."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp: int | None


class RecordFault(NamedTuple):
    """Why the key or value of a row can't be decoded, or not all of it."""

    row: int
    field: Field
    reason: str
    message: str


def first_faults(faults: Iterable[RecordFault]) -> list[RecordFault]:
    """One fault of each row, in order of rows: Connect converts the key first, and stops there."""
    return sorted({fault.row: fault for fault in sorted(faults, reverse=True)}.values())


def dead_letter(record: RawRecord, tp: TopicPartition, offset: int, fault: RecordFault) -> RawRecord:
    """The record as it is written."""
    texts = {
        "topic": tp.topic,
        "partition": str(tp.partition),
        "offset": str(offset),
        "stage": f"{fault.field.name}_CONVERTER",
        "exception.class.name": fault.reason,
        "exception.message": fault.message,
    }
    added = ((f"__connect.errors.{name}", text.encode()) for name, text in texts.items())
    # A format that knows no time has -1, which no producer takes.
    is_timed = record.timestamp is not None and record.timestamp >= 0
    return record._replace(headers=(*record.headers, *added), timestamp=record.timestamp if is_timed else None)
