"""The mean bytes of an offset of each partition, from the reports of tasks.

Bytes are those of a record's columns in Arrow.  They are counted per offset, not per record: ranges are ranges of offsets,
and where compaction or transactions leave gaps an offset has fewer bytes.

Each report halves the weight of the earlier ones, so a change of sizes shows after a batch or two.

>>> a, b, c = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
>>> sizes = {a: add_range(None, 1_000, 200_000), b: add_range(None, 3_000, 300_000)}
>>> [Sizes(sizes).mean(tp) for tp in (a, b, TopicPartition("t", 2), c)]
[200, 100, 125, None]
>>> Sizes(sizes).weights([a, c]) == {a: 200 + RECORD_BYTES, c: 125 + RECORD_BYTES}
True
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from sparkcohort.runtime.protocol.partitions import TopicPartition

RECORD_BYTES: Final = 150
"""The cost of a row besides its bytes, in bytes.  Measured from Kafka into Spark: rows with values of 20, 100 and 1,000 bytes
took 1.8, 2.2 and 9.5 µs of CPU, which is 8 ns a byte plus the time of 150 bytes for each row."""

TYPICAL_BYTES: Final = 160
"""The assumed bytes of a record before any report: a value of 100 bytes and the other columns."""

WHOLE_ROWS: Final = 4096
WHOLE_BYTES: Final = 1 << 20
"""Batches of at least so many rows or bytes are not joined with others, in the agent and in ``streaming.direct_read.packed``."""


class ObservedSize(NamedTuple):
    """What was read of one partition: offsets and their bytes, older ones with less weight; ``total`` counts all offsets."""

    offsets: float
    nbytes: float
    total: int


def add_range(size: ObservedSize | None, offsets: int, nbytes: int) -> ObservedSize:
    """The size after another range of so many offsets, with so many bytes."""
    if size is None:
        return ObservedSize(offsets, nbytes, offsets)
    return ObservedSize(size.offsets / 2 + offsets, size.nbytes / 2 + nbytes, size.total + offsets)


@dataclass(frozen=True)
class Sizes:
    """The sizes of all partitions at one moment."""

    by_partition: Mapping[TopicPartition, ObservedSize] = field(default_factory=dict)

    def total(self, tp: TopicPartition) -> int:
        """How many offsets of a partition have been read in this run."""
        return self.by_partition[tp].total if tp in self.by_partition else 0

    def mean(self, tp: TopicPartition) -> int | None:
        """Bytes of an offset, rounded up: the mean of the partition, else of its topic; None where both are unknown."""
        own = self.by_partition.get(tp)
        mean = self._topics.get(tp.topic) if own is None else own.nbytes / own.offsets
        return None if mean is None else -int(-mean // 1)

    def weights(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The cost of reading one offset of each partition, in bytes; an unknown topic has the mean of all topics."""
        if not self.by_partition:
            return dict.fromkeys(partitions, RECORD_BYTES + TYPICAL_BYTES)
        unknown = -int(-self._overall // 1)
        means = {tp: self.mean(TopicPartition(*tp)) for tp in partitions}
        return {tp: RECORD_BYTES + (unknown if mean is None else mean) for tp, mean in means.items()}

    @cached_property
    def _topics(self) -> dict[str, float]:
        sums: dict[str, tuple[float, float]] = {}
        for tp, size in self.by_partition.items():
            offsets, nbytes = sums.get(tp.topic, (0.0, 0.0))
            sums[tp.topic] = offsets + size.offsets, nbytes + size.nbytes
        return {topic: nbytes / offsets for topic, (offsets, nbytes) in sums.items()}

    @cached_property
    def _overall(self) -> float:
        offsets = sum(size.offsets for size in self.by_partition.values())
        return sum(size.nbytes for size in self.by_partition.values()) / offsets if offsets else TYPICAL_BYTES
