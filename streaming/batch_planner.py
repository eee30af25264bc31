"""The tasks of a batch read, by the rules of Spark's ``KafkaOffsetRangeCalculator``.

One task for each partition that has something to read.  ``maxRecordsPerPartition`` cuts longer ranges into equal parts.
``minPartitions`` cuts the largest ones further, in proportion to their lengths.

>>> [(each.start, each.end) for each in task_ranges([Range("t", 0, 0, 10), Range("t", 1, 5, 5)], max_records=4)]
[(0, 3), (3, 6), (6, 10)]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from sparkcohort.runtime.protocol.partitions import Range


def task_ranges(
    ranges: Iterable[Range], *, min_partitions: int | None = None, max_records: int | None = None
) -> tuple[Range, ...]:
    """The range of each task, in order; none is empty.

    There are about ``min_partitions`` tasks at least, never more than offsets.  No task has more than ``max_records`` offsets.
    """
    whole = sorted(each for each in ranges if each.start < each.end)
    if max_records is not None:
        whole = [part for each in whole for part in _parts(each, -(-each.size // max_records))]
    if min_partitions is None or len(whole) >= min_partitions:
        return tuple(whole)
    return tuple(
        part for each, count in zip(whole, _counts(whole, min_partitions), strict=True) for part in _parts(each, count)
    )


def _counts(ranges: Sequence[Range], parts: int) -> list[int]:
    """The number of parts of each range.  As in Spark, ranges that stay whole don't count for the proportions of the others."""
    total = sum(each.size for each in ranges)
    small = [_rounded(each.size, total, parts) <= 1 for each in ranges]
    large_total = total - sum(each.size for each, whole in zip(ranges, small, strict=True) if whole)
    for_large = max(parts - sum(small), 1)
    return [
        1 if whole else max(_rounded(each.size, large_total, for_large), 1)
        for each, whole in zip(ranges, small, strict=True)
    ]


def _rounded(size: int, total: int, parts: int) -> int:
    """``size / total * wanted``, halves up, as Java rounds."""
    return (2 * size * parts + total) // (2 * total)


def _parts(whole: Range, count: int) -> list[Range]:
    count = min(count, whole.size)
    cuts = [whole.start + whole.size * number // count for number in range(count + 1)]
    return [whole._replace(start=first, end=end) for first, end in pairwise(cuts)]
