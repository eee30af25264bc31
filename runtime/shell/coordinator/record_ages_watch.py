"""The ages of waiting records on the driver, from the owners' reports.

``record_ages`` has the rules; here are the lock and the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from sparkcohort.runtime.batches.record_ages import FirstRecord, RecordAges
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import TopicPartition

Offsets = Mapping[TopicPartition, int]


class RecordAgesWatch:
    """All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times = RecordAges()

    def record_report(self, report: calls.RecordTimestamps, owners: Mapping[TopicPartition, str]) -> None:
        """Add an owner's report; only of partitions that it owns."""
        records = {
            (TopicPartition(row.topic, row.partition), FirstRecord(row.position, row.offset, row.timestamp_ms))
            for row in report.records
        }
        with self._lock:
            for tp, record in records:
                if owners.get(tp) == report.member:
                    self._times.add(tp, record)

    def ages_ms(self, committed: Offsets, ends: Offsets, ids: Mapping[str, str]) -> dict[TopicPartition, int]:
        """The age of each partition's first uncommitted record, where it is known; 0 where there is none."""
        now_ms = int(time.time() * 1000)
        with self._lock:
            self._times.drop_recreated(ids)
            self._times.drop_committed(committed, committed.keys())
            ages = {
                tp: self._times.age_ms(tp, offset, ends[tp], now_ms) for tp, offset in committed.items() if tp in ends
            }
        return {tp: age for tp, age in ages.items() if age is not None}
