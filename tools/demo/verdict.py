"""The verdict: what the producer's books say against what the sink has."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Final

Delivery = tuple[int, int, int, int]
"""Partition, offset, checksum of the columns, and when (ms)."""


LABELS: Final = {
    "produced": "flights the broker acknowledged",
    "delivered": "delivered at the sink",
    "lost": "lost, or with another value in a column",
    "duplicated": "duplicated",
    "rebalances": "rebalances since the kill",
    "partitions_moved": "partitions moved since the kill",
    "partitions_stayed": "partitions that never moved",
    "longest_gap_ms": "longest gap of one that never moved (ms)",
    "usual_gap_ms": "the same in the 5 s before the kill (ms)",
    "committed_equals_end": "committed in Kafka = end delivered, every partition",
    "generation": "generation",
    "slots_by_jvm": "slots that the JVM read from agents",
    "slots_by_python": "slots that a Python worker read",
    "agents_left": "agent processes left behind",
    "seconds": "seconds in all",
}
"""What the values mean to a reader."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the demo found; the JSON object at its end has these names."""

    produced: int
    delivered: int
    lost: int
    duplicated: int
    rebalances: int
    partitions_moved: int
    partitions_stayed: int
    longest_gap_ms: int | None
    usual_gap_ms: int | None
    committed_equals_end: bool
    generation: int
    slots_by_jvm: int
    slots_by_python: int
    agents_left: int
    seconds: float

    @property
    def passed(self) -> bool:
        """Nothing lost, nothing doubled, and Kafka's group says so."""
        return self.lost == 0 and self.duplicated == 0 and self.committed_equals_end and self.produced > 0

    def as_value(self) -> dict[str, object]:
        """Plain values for JSON."""
        return asdict(self)


def compare(books: Mapping[int, Mapping[int, int]], deliveries: Iterable[Delivery]) -> tuple[int, int, int]:
    """(delivered, lost, duplicated) against the books: partition to offset to checksum of the columns.

    Lost is what the broker acknowledged and no delivery has with that checksum; duplicated is every delivery of an
    offset beyond its first, and every delivery of what nobody produced.
    """
    seen: Counter[tuple[int, int]] = Counter()
    intact = 0
    for partition, offset, checksum, _ in deliveries:
        seen[partition, offset] += 1
        intact += seen[partition, offset] == 1 and books.get(partition, {}).get(offset) == checksum
    produced = sum(map(len, books.values()))
    strangers = sum(1 for partition, offset in seen if offset not in books.get(partition, {}))
    return seen.total(), produced - intact, seen.total() - len(seen) + strangers


def longest_gap(deliveries: Iterable[Delivery], partitions: Collection[int], begin_ms: int, end_ms: int) -> int | None:
    """The longest time between two deliveries of one of ``partitions`` that reaches into [begin, end]; None: no two."""
    times: dict[int, set[int]] = defaultdict(set)
    for partition, _, _, at_ms in deliveries:
        if partition in partitions:
            times[partition].add(at_ms)
    gaps = [
        later - earlier
        for moments in map(sorted, times.values())
        for earlier, later in pairwise(moments)
        if later >= begin_ms and earlier <= end_ms
    ]
    return max(gaps, default=None)
