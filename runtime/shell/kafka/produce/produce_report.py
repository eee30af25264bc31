"""What a producer answers with: counts of what was acknowledged, or the error that ended it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from sparkcohort.runtime.errors import CohortError


class ProduceError(CohortError):
    """A batch can't be written for good; the message names topic, partition, option and remedy, never a key or value."""


@dataclass(frozen=True)
class ProduceReport:
    """What was acknowledged since the last flush, by topic; ``waited_s`` is the time spent waiting for brokers."""

    rows: Mapping[str, int]
    bytes: Mapping[str, int]  # of the record batches as they were sent
    batches: Mapping[str, int]
    retries: Mapping[str, int]  # sent once more
    waited_s: float


class ProduceTally:
    """The counts of a report while they grow."""

    def __init__(self) -> None:
        """Nothing is acknowledged yet."""
        self.rows: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.batches: Counter[str] = Counter()
        self.retries: Counter[str] = Counter()
        self.waited_s = 0.0

    def acknowledge(self, topic: str, rows: int, nbytes: int) -> None:
        """Count a batch that the leader has acknowledged."""
        self.rows[topic] += rows
        self.bytes[topic] += nbytes
        self.batches[topic] += 1

    def add(self, report: ProduceReport) -> None:
        """Count what another producer reports."""
        for counts, more in zip(
            (self.rows, self.bytes, self.batches, self.retries),
            (report.rows, report.bytes, report.batches, report.retries),
            strict=True,
        ):
            counts.update(more)
        self.waited_s += report.waited_s

    def report(self) -> ProduceReport:
        """The counts so far."""
        return ProduceReport(dict(self.rows), dict(self.bytes), dict(self.batches), dict(self.retries), self.waited_s)
