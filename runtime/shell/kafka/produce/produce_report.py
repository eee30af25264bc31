"""What a producer answers with: counts of what was acknowledged, or the error that ended it."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkcohort.runtime.errors import CohortError


class ProduceError(CohortError):
    """A batch can't be written for good; the message names topic, partition, option and remedy, never a key or value."""


@dataclass
class ProduceReport:
    """What was acknowledged since the last flush, by topic; ``waited_s`` is the time spent waiting for brokers.

    The counts are plain dicts: Java's unpickler, which reads them in ``WriteTotals``, knows no Counter.
    """

    rows: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)  # of the record batches as they were sent
    batches: dict[str, int] = field(default_factory=dict)
    retries: dict[str, int] = field(default_factory=dict)  # sent once more
    waited_s: float = 0.0

    def acknowledge(self, topic: str, rows: int, nbytes: int) -> None:
        """Count a batch that the leader has acknowledged."""
        for counts, number in ((self.rows, rows), (self.bytes, nbytes), (self.batches, 1)):
            counts[topic] = counts.get(topic, 0) + number

    def add(self, report: ProduceReport) -> None:
        """Count what another one has."""
        for counts, more in (
            (self.rows, report.rows),
            (self.bytes, report.bytes),
            (self.batches, report.batches),
            (self.retries, report.retries),
        ):
            counts.update({topic: counts.get(topic, 0) + number for topic, number in more.items()})
        self.waited_s += report.waited_s
