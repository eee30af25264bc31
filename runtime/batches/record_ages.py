"""The lag in time: the age of a partition's first record that no committed batch has.

Fetchers report the first visible record at or after a position, and its timestamp.  No rate is used.  Timestamps are the
producers' or the brokers' (``message.timestamp.type``), so an age is as right as their clocks.

>>> times, tp = RecordAges(), TopicPartition("orders", 0)
>>> times.add(tp, FirstRecord(position=100, offset=103, timestamp_ms=5_000))
>>> times.age_ms(tp, 100, 200, now_ms=9_000), times.age_ms(tp, 103, 200, now_ms=9_000)
(4000, 4000)
>>> times.age_ms(tp, 200, 200, now_ms=9_000)
0
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from sparkcohort.runtime.protocol.partitions import TopicPartition

MOST_RECORDS: Final = 8
"""Records kept of one partition; a planned, a running and a committed batch need three."""
NO_TIMESTAMP: Final = -1
"""Kafka's RecordBatch.NO_TIMESTAMP: the record is of a client older than timestamps."""


class FirstRecord(NamedTuple):
    """The first visible record at or after ``position`` is that of ``offset``, with this timestamp."""

    position: int
    offset: int
    timestamp_ms: int


class RecordAges:
    """The reported records of all partitions; for one thread at a time."""

    def __init__(self) -> None:
        self._records: dict[TopicPartition, tuple[FirstRecord, ...]] = {}  # each in the order of offsets
        self._ids: dict[str, str] = {}

    def add(self, tp: TopicPartition, record: FirstRecord) -> None:
        """Add a reported record; one without a timestamp is dropped."""
        if record.timestamp_ms == NO_TIMESTAMP or not 0 <= record.position <= record.offset:
            return
        other_records = [earlier for earlier in self._records.get(tp, ()) if earlier.offset != record.offset]
        same_record = [earlier for earlier in self._records.get(tp, ()) if earlier.offset == record.offset]
        wider = record._replace(position=min([record.position, *(earlier.position for earlier in same_record)]))
        self._records[tp] = tuple(sorted([*other_records, wider], key=lambda earlier: earlier.offset)[-MOST_RECORDS:])

    def drop_recreated(self, ids: Mapping[str, str]) -> None:
        """Forget the records of recreated topics: their offsets are of another log."""
        recreated = {topic for topic, topic_id in ids.items() if self._ids.get(topic, topic_id) != topic_id}
        self._records = (
            {tp: records for tp, records in self._records.items() if tp.topic not in recreated}
            if recreated
            else self._records
        )
        self._ids.update(ids)

    def age_ms(self, tp: TopicPartition, committed: int, end: int, now_ms: int) -> int | None:
        """The age of the first record from ``committed`` on, 0 where the log ends there; None: it is unknown.

        Between two known records the age of the earlier one is taken, an upper bound.  A future timestamp counts as age 0.
        """
        if end <= committed:
            return 0
        records = self._records.get(tp, ())
        exact = [each for each in records if each.position <= committed <= each.offset]
        earlier = [each for each in records if each.offset < committed]
        first = exact[0] if exact else earlier[-1] if earlier else None
        return None if first is None else max(now_ms - first.timestamp_ms, 0)

    def drop_committed(self, committed: Mapping[TopicPartition, int], partitions: Collection[TopicPartition]) -> None:
        """Forget the records before ``committed`` except the last one, and partitions that don't exist any more."""
        self._records = {
            tp: _keep_from(records, committed.get(tp, 0)) for tp, records in self._records.items() if tp in partitions
        }


def _keep_from(records: tuple[FirstRecord, ...], committed: int) -> tuple[FirstRecord, ...]:
    passed = sum(each.offset < committed for each in records)
    return records[max(passed - 1, 0) :]
