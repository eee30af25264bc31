"""How many bytes an offset of each partition is worth, as the tasks that read them have reported.

Bytes are those that a record's columns take in Arrow.  They are counted per offset, not per record: ranges are ranges
of offsets, and where compaction or transactions leave gaps an offset is worth less.

Every report halves the weight of the earlier ones, so a change of sizes is known after a batch or two.

>>> a, b, c = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
>>> seen = {a: add_range(None, 1_000, 200_000), b: add_range(None, 3_000, 300_000)}
>>> [Sizes(seen).mean(tp) for tp in (a, b, TopicPartition("t", 2), c)]
[200, 100, 125, None]
>>> Sizes(seen).weights([a, c]) == {a: 200 + RECORD_BYTES, c: 125 + RECORD_BYTES}
True
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from sparkcohort.runtime.protocol.partitions import TopicPartition

RECORD_BYTES: Final = 150
"""What a row costs beside its bytes, in bytes: from Kafka into Spark rows with values of 20, 100 and 1,000 bytes took
1.8, 2.2 and 9.5 µs of CPU, which is 8 ns a byte and the time of 150 more for each row."""

TYPICAL_BYTES: Final = 160
"""What a record is taken for while nothing is known: a value of 100 bytes and the other columns."""

WHOLE_ROWS: Final = 4096
WHOLE_BYTES: Final = 1 << 20
"""From here on a batch pays for itself, in the agent's steps and in what a task hands to Spark (``streaming.direct_read.packed``)."""


class ObservedSize(NamedTuple):
    """What was read of one partition: recent offsets and their bytes, earlier ones counting less, and all offsets."""

    offsets: float
    nbytes: float
    total: int


def add_range(size: ObservedSize | None, offsets: int, nbytes: int) -> ObservedSize:
    """What has been seen after another range of so many offsets was read, which had so many bytes."""
    if size is None:
        return ObservedSize(offsets, nbytes, offsets)
    return ObservedSize(size.offsets / 2 + offsets, size.nbytes / 2 + nbytes, size.total + offsets)


@dataclass(frozen=True)
class Sizes:
    """What is known of all partitions at one moment."""

    by_partition: Mapping[TopicPartition, ObservedSize] = field(default_factory=dict)

    def total(self, tp: TopicPartition) -> int:
        """How many offsets of a partition have been read in this run."""
        return self.by_partition[tp].total if tp in self.by_partition else 0

    def mean(self, tp: TopicPartition) -> int | None:
        """Bytes of an offset, rounded up: the partition's own, else its topic's; None where nothing is known."""
        own = self.by_partition.get(tp)
        mean = self._topics.get(tp.topic) if own is None else own.nbytes / own.offsets
        return None if mean is None else -int(-mean // 1)

    def weights(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """What reading an offset of each costs, in bytes; one of an unknown topic is taken for a record like all others."""
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
