"""Data loss that the driver can see, by Spark's condition names (``kafka-error-conditions.json``) and ``failOnDataLoss``."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol import TopicPartition
from sparkcohort.runtime.shell.client import names_of
from sparkcohort.runtime.shell.log_ends import LogEnds, Snapshot

log = logging.getLogger("sparkcohort.data_loss")

CONFIRMATIONS = 3
"""How often an end below the known offset is asked again before it is believed: a new leader may lag (KAFKA-7703)."""
REMEDY = (
    "Some data may have been lost: it was aged out by Kafka, or the topic was deleted or created anew, before it was "
    "processed. To go on without it set the option failOnDataLoss to false."
)


class DriverDataLoss(CohortError):
    """Data that was to be read is gone and ``failOnDataLoss`` is true; ``error`` is Spark's condition name."""


class DataLoss:
    """Decides between failing and warning; remembers where new partitions began."""

    def __init__(self, log_ends: LogEnds, *, fail: bool, confirm_s: float = 1.0) -> None:
        self._log_ends = log_ends
        self._fail = fail
        self._confirm_s = confirm_s
        self._beginnings: dict[TopicPartition, int] = {}

    def deleted(self, start: Mapping[TopicPartition, int], snapshot: Snapshot) -> frozenset[TopicPartition]:
        """Partitions of ``start`` that are no more.  Raises DriverDataLoss (PARTITIONS_DELETED)."""
        gone = frozenset(start) - snapshot.partitions
        if gone:
            self._lost("PARTITIONS_DELETED", f"Partitions {names_of(gone)} have been deleted.")
        return gone

    def left_out(self, partitions: Collection[TopicPartition]) -> None:
        """A batch that is replayed ends without these, which it starts with.  Raises DriverDataLoss (PARTITIONS_DELETED)."""
        self._lost(
            "PARTITIONS_DELETED",
            f"Partitions {names_of(partitions)} were taken for deleted when this batch was planned.",
        )

    def shortened(self, start: Mapping[TopicPartition, int], snapshot: Snapshot) -> dict[TopicPartition, int]:
        """Partitions whose log ends before ``start``, with the offset to go on from: the beginning of what is there now.

        Raises DriverDataLoss (PARTITION_OFFSET_CHANGED).
        """
        suspects = _shorter(start, snapshot.ends)
        for _ in range(CONFIRMATIONS):
            if not suspects:
                return {}
            again = self._log_ends.refresh(self._confirm_s)
            answered = {tp: end for tp, end in again.ends.items() if tp in suspects and tp not in again.unreachable}
            if len(answered) < len(suspects):
                return {}  # nobody to confirm it: the partition is held, not lost
            suspects = _shorter({tp: start[tp] for tp in suspects}, answered)
        if not suspects:
            return {}
        for tp, end in sorted(suspects.items()):
            self._lost(
                "PARTITION_OFFSET_CHANGED",
                f"Partition {names_of([tp])} offset was changed from {start[tp]} to {end}: the topic was created anew "
                "or truncated, or the start offset is beyond what there is.",
            )
        return self._log_ends.beginnings(suspects)

    def beginnings(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions begin that were not there when the query started: the same answer at every call.

        Raises DriverDataLoss (ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO) when records are gone already.
        """
        wanted = list(partitions)
        missing = [tp for tp in wanted if tp not in self._beginnings]
        for tp, offset in sorted(self._log_ends.beginnings(missing).items() if missing else ()):
            if offset > 0:
                self._lost(
                    "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
                    f"Added partition {names_of([tp])} starts from {offset} instead of 0.",
                )
            self._beginnings[tp] = offset
        return {tp: self._beginnings[tp] for tp in wanted}

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """A deleted partition that comes back begins anew."""
        for tp in partitions:
            self._beginnings.pop(tp, None)

    def _lost(self, condition: str, reason: str) -> None:
        name = f"KAFKA_DATA_LOSS.{condition}"
        if self._fail:
            raise DriverDataLoss(f"[{name}] {reason} {REMEDY}", name)
        log.warning("[%s] %s Going on, as failOnDataLoss is false.", name, reason)


def _shorter(start: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {tp: ends[tp] for tp, offset in start.items() if tp in ends and ends[tp] < offset}
