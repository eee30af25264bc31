"""The offsets of a batch read that a filter may keep: a bound of the filter in, narrower ranges out.

A bound takes away no record that its filter keeps; Spark filters what is read.  ScanBound.java makes it: ``["AND", bound, ...]``,
``["OR", bound, ...]`` or ``[comparison, column, value, ...]``, of which one value has to fit.

>>> narrow_range(["AND", [">=", "offset", 5], ["=", "partition", 0, 2]], Range("t", 0, 0, 10), {})
Range(topic='t', partition=0, start=5, end=10)
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final, TypeAlias

from sparkcohort.runtime.protocol.partitions import Range, TopicPartition

Bound: TypeAlias = Sequence[Any]
FirstOffsets: TypeAlias = Mapping[int, Mapping[TopicPartition, int]]
"""By milliseconds, and by partition: all records before this offset are older."""

_COMPARISONS: Final = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def times_of_bound(bound: Bound) -> frozenset[int]:
    """The milliseconds of which a bound needs first offsets."""
    match bound:
        case ["AND" | "OR", *parts]:
            return frozenset[int]().union(*map(times_of_bound, parts))
        case [_, "timestamp", time]:
            return frozenset((time,))
        case _:
            return frozenset()


def narrow_range(bound: Bound, whole: Range, first_offsets: FirstOffsets) -> Range:
    """A part of a range with every offset that a bound allows; offsets between those of a list may be in it."""
    start, end = whole.start, whole.end
    match bound:
        case ["AND", *parts]:
            return reduce(lambda narrowed, part: narrow_range(part, narrowed, first_offsets), parts, whole)
        case ["OR", *parts]:
            ranges = [part for each in parts if (part := narrow_range(each, whole, first_offsets)).size]
            start = min((part.start for part in ranges), default=end)
            end = max((part.end for part in ranges), default=end)
        case [_, "timestamp", time]:  # always a lower bound: behind the first young record there may be older ones
            start = first_offsets[time].get(whole.tp, start)
        case [comparison, "offset", *values]:
            start = {"=": min(values), ">=": values[0], ">": values[0] + 1}.get(comparison, start)
            end = {"=": max(values) + 1, "<=": values[0] + 1, "<": values[0]}.get(comparison, end)
        case [comparison, ("topic" | "partition") as column, *values]:
            if not any(_COMPARISONS[comparison](getattr(whole, column), value) for value in values):
                start = end
    start = min(max(start, whole.start), whole.end)
    return whole._replace(start=start, end=max(min(end, whole.end), start))
