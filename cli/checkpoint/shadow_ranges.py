r"""The ranges of planned batches, and the sums by which two readers of them are compared.

>>> a, b = ReadTotals(), ReadTotals()
>>> for totals in (a, b):
...     totals.add(7, 1_000, 0, b"k", b"v", ())
>>> a.differences(b)
[]
>>> b.add(8, 1_000, 0, None, b"w", (("h", None),))
>>> a.differences(b)
['records 1 and 2', 'last offset 7 and 8', 'bytes 2 and 3', 'checksums differ']
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from sparkcohort.cli.checkpoint.logs import KafkaEnds, Source
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.offsets_json import MalformedOffsets, load, read
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition  # noqa: F401  for the examples

Headers = Iterable[tuple[str, bytes | None]]
EQUAL: Final = "equal"
DIFFERS: Final = "differs"
EXPIRED: Final = "lost to retention"
UNREAD: Final = "not read"


@dataclass(slots=True)
class ReadTotals:
    """One reader's sums of one range: records, first and last offset (-1: none), bytes of keys and values, checksum in order."""

    records: int = 0
    first: int = -1
    last: int = -1
    size: int = 0
    checksum: int = 0

    def add(
        self, offset: int, timestamp_us: int, kind: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        """Add one record; ``kind`` is Spark's ``timestampType``."""
        self.first = offset if self.first < 0 else self.first
        self.records, self.last = self.records + 1, offset
        self.size += len(key or b"") + len(value or b"")
        checksum = zlib.crc32(b"%d %d %d" % (offset, timestamp_us, kind), self.checksum)
        for part in (key, value, *(part for name, content in headers for part in (name.encode(), content))):
            # The length stands first: different records never give the same bytes, and null differs from empty.
            checksum = zlib.crc32(b"-" if part is None else b"%d:" % len(part) + part, checksum)
        self.checksum = checksum

    def differences(self, plain: ReadTotals) -> list[str]:
        """The differences in words; empty if there is none."""
        pairs = {
            "records": (self.records, plain.records),
            "first offset": (self.first, plain.first),
            "last offset": (self.last, plain.last),
            "bytes": (self.size, plain.size),
        }
        differences = [f"{name} {first} and {second}" for name, (first, second) in pairs.items() if first != second]
        return [*differences, "checksums differ"] if self.checksum != plain.checksum else differences


@dataclass(frozen=True, slots=True)
class RangeComparison:
    """One range of one batch, read twice: Cohort's sums, and in ``reason`` what differs, or why it was not read."""

    batch: int
    source: Source
    range: Range
    totals: ReadTotals
    verdict: str
    reason: str = ""


def ranges_between(old: KafkaEnds, new: KafkaEnds) -> Iterator[Range]:
    """The ranges that a batch reads, without those of ``skipped_partitions``.

    >>> at = lambda **ends: KafkaEnds({TopicPartition(t, 0): end for t, end in ends.items()}, {})
    >>> list(ranges_between(at(t=5, u=7), at(t=9, u=7, v=3)))
    [Range(topic='t', partition=0, start=5, end=9)]
    """
    for tp, end in sorted(new.ends.items()):
        start = old.ends.get(tp, end)
        if start < end and not _is_recreated(old, new, tp.topic):
            yield Range(tp.topic, tp.partition, start, end)


def skipped_partitions(old: KafkaEnds, new: KafkaEnds) -> list[str]:
    """Partitions whose start in the batch is in no log, each with the reason.

    >>> at = lambda end, topic_id="": KafkaEnds({TopicPartition("t", 0): end}, {"t": topic_id} if topic_id else {})
    >>> skipped_partitions(at(9), at(4)), skipped_partitions(at(9, "a"), at(12, "b"))
    (['t-0 goes back from 9 to 4'], ['t-0: the topic was recreated'])
    """
    skipped = []
    for tp, end in sorted(new.ends.items()):
        start, name = old.ends.get(tp), f"{tp.topic}-{tp.partition}"
        if start is None:
            skipped.append(f"{name} begins in it")
        elif _is_recreated(old, new, tp.topic):
            skipped.append(f"{name}: the topic was recreated")
        elif end < start:
            skipped.append(f"{name} goes back from {start} to {end}")
    return skipped


def _is_recreated(old: KafkaEnds, new: KafkaEnds, topic: str) -> bool:
    id_before, id_now = old.ids.get(topic), new.ids.get(topic)
    return id_before is not None and id_now is not None and id_before != id_now


def initial_offsets(text: str, name: str) -> KafkaEnds:
    r"""Where batch 0 of ``format("kafka")`` begins, from its file in ``sources``.  Raises CohortError.

    >>> initial_offsets('\0v1\n{"t":{"0":7}}', "sources/0/0").ends[TopicPartition("t", 0)]
    7
    """
    version, _, offsets = text.removeprefix("\0").partition("\n")  # SPARK-19517: Spark writes a zero byte first
    if version != "v1":
        raise CohortError(f"{name} is not of version v1")
    try:
        return KafkaEnds(read(load(offsets, name), name, 0), {})
    except MalformedOffsets as error:
        raise CohortError(str(error)) from None
