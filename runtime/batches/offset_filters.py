"""Filters of a batch read as bounds of offsets and partitions; the filter drops the rows outside anyway.

A bound of a timestamp becomes an offset by ListOffsets: the first record at or after that time.  All records before it are
older, so a **lower** bound loses nothing, in whatever order the timestamps are.  Behind the first record that is too young
there may be older ones: an **upper** bound is right only as far as timestamps are in order (option maxOutOfOrderness).

>>> seven = selection([Condition(Field.PARTITION, Comparison.EQUAL, (7,)), Condition(Field.OFFSET, Comparison.GREATER, (41,))])
>>> seven.wants(TopicPartition("t", 7)), seven.wants(TopicPartition("t", 8)), seven.offsets
(True, False, Bounds(first=42, end=None))
>>> selection([Condition(Field.TIMESTAMP, Comparison.LESS_OR_EQUAL, (1_999,))]).times  # microseconds in, milliseconds out
Bounds(first=None, end=2)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.values.columns import Field

MICROS: Final = 1000
"""Microseconds, which Spark's timestamps have, in one of Kafka's milliseconds."""
Value: TypeAlias = int | str


class Comparison(Enum):
    """How a column is compared with values."""

    EQUAL = "="
    IN = "IN"
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    LESS = "<"
    LESS_OR_EQUAL = "<="


_OPERATORS: Final[Mapping[Comparison, Callable[[Any, Any], bool]]] = {
    Comparison.EQUAL: operator.eq,
    Comparison.GREATER: operator.gt,
    Comparison.GREATER_OR_EQUAL: operator.ge,
    Comparison.LESS: operator.lt,
    Comparison.LESS_OR_EQUAL: operator.le,
}


class Condition(NamedTuple):
    """A comparison of a column that is never null; IN has any number of values, the others one.  Timestamps in microseconds."""

    field: Field
    comparison: Comparison
    values: tuple[Value, ...]

    @property
    def exact(self) -> bool:
        """Whether the bounds say all: those of timestamps and of sets of offsets are wider than the condition."""
        if self.field is Field.OFFSET:
            return self.comparison is not Comparison.IN
        return self.field in (Field.TOPIC, Field.PARTITION)


class Bounds(NamedTuple):
    """Numbers from ``first`` on and below ``end``; None: no bound on that side."""

    first: int | None = None
    end: int | None = None

    def intersect(self, bounds: Bounds) -> Bounds:
        """The numbers that are in both."""
        firsts = [each for each in (self.first, bounds.first) if each is not None]
        ends = [each for each in (self.end, bounds.end) if each is not None]
        return Bounds(max(firsts, default=None), min(ends, default=None))

    def clip(self, whole: Range) -> Range:
        """The part of a range of offsets within the bounds; it may be empty, and then stays inside the range."""
        start = whole.start if self.first is None else min(max(whole.start, self.first), whole.end)
        return whole._replace(start=start, end=whole.end if self.end is None else max(min(whole.end, self.end), start))


class Selection(NamedTuple):
    """The bounds of a read that are known before the log is read."""

    places: tuple[Condition, ...] = ()  # of topics and partitions
    offsets: Bounds = Bounds()
    times: Bounds = Bounds()  # milliseconds

    def wants(self, tp: TopicPartition) -> bool:
        """Whether a partition can have rows for which the conditions hold."""
        return all(_holds(each, tp.topic if each.field is Field.TOPIC else tp.partition) for each in self.places)


ALL: Final = Selection()


def selection(conditions: Iterable[Condition]) -> Selection:
    """The bounds of the rows for which all conditions hold."""
    places: list[Condition] = []
    offsets = times = Bounds()
    for condition in conditions:
        if condition.field in (Field.TOPIC, Field.PARTITION):
            places.append(condition)
        elif condition.field is Field.OFFSET:
            offsets = offsets.intersect(_bounds(condition))
        elif condition.field is Field.TIMESTAMP:
            micros = _bounds(condition)
            times = times.intersect(Bounds(_in_millis(micros.first), _in_millis(micros.end)))
    return Selection(tuple(places), offsets, times)


def narrowed(ranges: Sequence[Range], selected: Selection) -> tuple[Range, ...]:
    """The ranges within the bounds of partitions and offsets, without empty ones."""
    clipped = (selected.offsets.clip(each) for each in ranges if selected.wants(each.tp))
    return tuple(each for each in clipped if each.start < each.end)


def clip_to_times(
    ranges: Sequence[Range], firsts: Mapping[TopicPartition, int | None], ends: Mapping[TopicPartition, int]
) -> tuple[Range, ...]:
    """The ranges from ``firsts``, the first record that is young enough (None: there is none), to ``ends``; no empty ones.

    A partition that a mapping doesn't have is not bounded by it.
    """
    clipped = (
        Bounds(each.end if first is None else first, ends.get(each.tp)).clip(each)
        for each in ranges
        for first in (firsts.get(each.tp, each.start),)
    )
    return tuple(each for each in clipped if each.start < each.end)


def _in_millis(micros: int | None) -> int | None:
    """The first millisecond at or after this time."""
    return None if micros is None else -(-micros // MICROS)


def _bounds(condition: Condition) -> Bounds:
    """The least bounds of the numbers for which a condition holds."""
    numbers = [value for value in condition.values if isinstance(value, int)]
    if not numbers:
        return Bounds(0, 0)
    match condition.comparison:
        case Comparison.GREATER:
            return Bounds(numbers[0] + 1, None)
        case Comparison.GREATER_OR_EQUAL:
            return Bounds(numbers[0], None)
        case Comparison.LESS:
            return Bounds(None, numbers[0])
        case Comparison.LESS_OR_EQUAL:
            return Bounds(None, numbers[0] + 1)
        case Comparison.EQUAL | Comparison.IN:
            return Bounds(min(numbers), max(numbers) + 1)


def _holds(condition: Condition, value: Value) -> bool:
    if condition.comparison is Comparison.IN:
        return value in condition.values
    # Spark compares strings by their UTF-8 bytes.
    left, right = (each.encode() if isinstance(each, str) else each for each in (value, condition.values[0]))
    return _OPERATORS[condition.comparison](left, right)
