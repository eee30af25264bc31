r"""The ranges of planned batches, and what two readers got of them, as sums that can be compared.

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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sparkcohort.cli.checkpoint.logs import KafkaEnds, Source
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.offsets_json import MalformedOffsets, load, read
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition

Headers = Iterable[tuple[str, bytes | None]]
EQUAL: Final = "equal"
DIFFERS: Final = "differs"
GONE: Final = "lost to retention"
UNREAD: Final = "not read"


@dataclass(slots=True)
class ReadTotals:
    """What one reader got of one range: records, first and last offset (-1: none), bytes of keys and values, a checksum of all in order."""

    records: int = 0
    first: int = -1
    last: int = -1
    size: int = 0
    checksum: int = 0

    def add(
        self, offset: int, timestamp_us: int, kind: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        """One record; ``kind`` is Spark's ``timestampType``."""
        self.first = offset if self.first < 0 else self.first
        self.records, self.last = self.records + 1, offset
        self.size += len(key or b"") + len(value or b"")
        checksum = zlib.crc32(b"%d %d %d" % (offset, timestamp_us, kind), self.checksum)
        for part in (key, value, *(part for name, content in headers for part in (name.encode(), content))):
            # With its length, so that no two records run into the same bytes; null is not empty.
            checksum = zlib.crc32(b"-" if part is None else b"%d:" % len(part) + part, checksum)
        self.checksum = checksum

    def differences(self, other: ReadTotals) -> list[str]:
        """In words; none where all is the same."""
        pairs = {
            "records": (self.records, other.records),
            "first offset": (self.first, other.first),
            "last offset": (self.last, other.last),
            "bytes": (self.size, other.size),
        }
        found = [f"{name} {ours} and {theirs}" for name, (ours, theirs) in pairs.items() if ours != theirs]
        return [*found, "checksums differ"] if self.checksum != other.checksum else found


@dataclass(frozen=True, slots=True)
class RangeComparison:
    """One range of one batch, read twice; ``why`` says what differs, or why it was not read."""

    batch: int
    source: Source
    range: Range
    records: int
    size: int
    checksum: int
    verdict: str
    why: str = ""


def compared(batch: int, source: Source, wanted: Range, ours: ReadTotals, theirs: ReadTotals) -> RangeComparison:
    """The verdict on one range.

    >>> compared(3, 0, Range("t", 0, 5, 9), ReadTotals(), ReadTotals()).verdict
    'equal'
    """
    why = ours.differences(theirs)
    return RangeComparison(
        batch,
        source,
        wanted,
        ours.records,
        ours.size,
        ours.checksum,
        DIFFERS if why else EQUAL,
        "; ".join(why),
    )


def ranges(before: KafkaEnds, after: KafkaEnds) -> Iterator[Range]:
    """What a batch reads, but for what ``left_out`` names.

    >>> at = lambda **ends: KafkaEnds({TopicPartition(t, 0): end for t, end in ends.items()}, {})
    >>> list(ranges(at(t=5, u=7), at(t=9, u=7, v=3)))
    [Range(topic='t', partition=0, start=5, end=9)]
    """
    for tp, end in sorted(after.ends.items()):
        start = before.ends.get(tp, end)
        if start < end and not _made_anew(before, after, tp.topic):
            yield Range(tp.topic, tp.partition, start, end)


def left_out(before: KafkaEnds, after: KafkaEnds) -> list[str]:
    """Partitions of which nobody wrote down where the batch begins, each with the reason.

    >>> at = lambda end, topic_id="": KafkaEnds({TopicPartition("t", 0): end}, {"t": topic_id} if topic_id else {})
    >>> left_out(at(9), at(4)), left_out(at(9, "a"), at(12, "b"))
    (['t-0 goes back from 9 to 4'], ['t-0: the topic was made anew'])
    """
    found = []
    for tp, end in sorted(after.ends.items()):
        start, name = before.ends.get(tp), f"{tp.topic}-{tp.partition}"
        if start is None:
            found.append(f"{name} begins in it")
        elif _made_anew(before, after, tp.topic):
            found.append(f"{name}: the topic was made anew")
        elif end < start:
            found.append(f"{name} goes back from {start} to {end}")
    return found


def _made_anew(before: KafkaEnds, after: KafkaEnds, topic: str) -> bool:
    was, now = before.ids.get(topic), after.ids.get(topic)
    return was is not None and now is not None and was != now


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


def by_range(wanted: Iterable[Range]) -> Mapping[TopicPartition, ReadTotals]:
    """Nothing read yet of each."""
    return {each.tp: ReadTotals() for each in wanted}
