"""How long records have waited, on the driver: what owners tell of the records that they have fetched, and the clock.

The rules are in ``record_ages``; here are the lock and the time.  What no owner has seen is asked for by ``driver.log_lookup``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping

from sparkcohort.runtime.batches.record_ages import FirstRecord, RecordAges
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import TopicPartition

Offsets = Mapping[TopicPartition, int]


class RecordAgesWatch:
    """All methods may be called from any thread."""

    def __init__(self) -> None:
        """Nothing has been seen."""
        self._lock = threading.Lock()
        self._times = RecordAges()

    def record_report(self, report: calls.RecordTimestamps, owners: Mapping[TopicPartition, str]) -> None:
        """An owner's report; what it doesn't own is not its to tell."""
        records = {
            (TopicPartition(row.topic, row.partition), FirstRecord(row.position, row.offset, row.timestamp_ms))
            for row in report.records
        }
        self.add([(tp, record) for tp, record in records if owners.get(tp) == report.member])

    def add(self, records: Collection[tuple[TopicPartition, FirstRecord]]) -> None:
        """Somebody has seen these records."""
        with self._lock:
            for tp, record in records:
                self._times.add(tp, record)

    def ages_ms(self, committed: Offsets, ends: Offsets, ids: Mapping[str, str]) -> dict[TopicPartition, int]:
        """The age of the first record that is not committed of each partition, as far as it is known; 0 where there is none."""
        now_ms = int(time.time() * 1000)
        with self._lock:
            self._times.follow(ids)
            self._times.keep(committed, committed.keys())
            ages = {
                tp: self._times.age_ms(tp, offset, ends[tp], now_ms) for tp, offset in committed.items() if tp in ends
            }
        return {tp: age for tp, age in ages.items() if age is not None}

    def unseen(self, committed: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
        """The committed positions behind which records wait that nobody has seen."""
        with self._lock:
            return self._times.unseen({tp: offset for tp, offset in committed.items() if ends.get(tp, offset) > offset})
