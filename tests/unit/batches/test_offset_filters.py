"""Filters as bounds of what is read: no row that a filter wants is ever left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.batches.offset_filters import MICROS, Comparison, Condition, clip_to_times, narrowed, selection
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.values.columns import Field


class Row(NamedTuple):
    """A record as a filter sees it; its time in milliseconds."""

    topic: str
    partition: int
    offset: int
    time: int


TIMES = st.integers(-1, 12)
TOPICS = st.sampled_from(["a", "b", "é"])
LOGS = st.dictionaries(st.builds(TopicPartition, TOPICS, st.integers(0, 3)), st.lists(TIMES, max_size=12), max_size=5)
VALUES = {
    Field.TOPIC: TOPICS,
    Field.PARTITION: st.integers(-1, 4),
    Field.OFFSET: st.integers(-1, 13),
    Field.TIMESTAMP: st.integers(-2 * MICROS, 13 * MICROS),
}
SINGLE = [each for each in Comparison if each is not Comparison.IN]
CONDITIONS = st.sampled_from(list(VALUES)).flatmap(
    lambda field: (
        st.builds(Condition, st.just(field), st.sampled_from(SINGLE), st.tuples(VALUES[field]))
        | st.builds(Condition, st.just(field), st.just(Comparison.IN), st.lists(VALUES[field], max_size=3).map(tuple))
    )
)
COMPARED: dict[Comparison, Callable[..., bool]] = {
    Comparison.EQUAL: lambda value, against: value == against,
    Comparison.GREATER: lambda value, against: value > against,
    Comparison.GREATER_OR_EQUAL: lambda value, against: value >= against,
    Comparison.LESS: lambda value, against: value < against,
    Comparison.LESS_OR_EQUAL: lambda value, against: value <= against,
}


def holds(condition: Condition, row: Row) -> bool:
    """Whether a row passes a filter, as SQL has it."""
    of_field = {
        Field.TOPIC: row.topic.encode(),
        Field.PARTITION: row.partition,
        Field.OFFSET: row.offset,
        Field.TIMESTAMP: row.time * MICROS,
    }
    value = of_field[condition.field]
    against = [each.encode() if isinstance(each, str) else each for each in condition.values]
    if condition.comparison is Comparison.IN:
        return value in against
    return COMPARED[condition.comparison](value, against[0])


def rows_of(logs: dict[TopicPartition, list[int]], ranges: Sequence[Range]) -> list[Row]:
    """What a read of these ranges gives, in order."""
    return [
        Row(*each.tp, offset, logs[each.tp][offset])
        for each in sorted(ranges)
        for offset in range(each.start, each.end)
    ]


def first_at(times: list[int], millis: int) -> int | None:
    """ListOffsets by timestamp: the first record that is as young."""
    return next((offset for offset, time in enumerate(times) if time >= millis), None)


@given(LOGS, st.lists(CONDITIONS, max_size=4))
def test_a_narrowed_read_and_a_filter_give_what_the_filter_gives(
    logs: dict[TopicPartition, list[int]], conditions: list[Condition]
) -> None:
    """In whatever order the timestamps are; and what is called exact needs no second look."""
    selected = selection(conditions)
    whole = [Range(*tp, 0, len(times)) for tp, times in logs.items()]
    ranges = narrowed(whole, selected)
    first = selected.times.first
    if first is not None:
        ranges = clip_to_times(ranges, {each.tp: first_at(logs[each.tp], first) for each in ranges}, {})
    seen, wanted = (
        rows_of(logs, ranges),
        [row for row in rows_of(logs, whole) if all(holds(c, row) for c in conditions)],
    )
    again = [each for each in conditions if not each.exact]
    assert [row for row in seen if all(holds(each, row) for each in again)] == wanted


@given(LOGS, st.lists(CONDITIONS, min_size=1, max_size=3), st.integers(0, 5))
def test_an_upper_bound_loses_nothing_within_its_promise(
    logs: dict[TopicPartition, list[int]], conditions: list[Condition], disorder: int
) -> None:
    """Where no record is older by more than ``disorder`` than one before it, the first that is so much too young is the end."""
    kept = {
        tp: times
        for tp, times in logs.items()
        if all(b - a <= disorder for n, a in enumerate(times) for b in times[:n])
    }
    selected = selection(conditions)
    whole = narrowed([Range(*tp, 0, len(times)) for tp, times in kept.items()], selected)
    end = selected.times.end
    found = {each.tp: None if end is None else first_at(kept[each.tp], end + disorder) for each in whole}
    ranges = clip_to_times(whole, {}, {tp: at for tp, at in found.items() if at is not None})

    def wanted(rows: list[Row]) -> list[Row]:
        return [row for row in rows if all(holds(each, row) for each in conditions)]

    assert wanted(rows_of(kept, ranges)) == wanted(rows_of(kept, whole))


def test_microseconds_between_two_milliseconds() -> None:
    """A time that no record can have: after 1.5 ms comes 2 ms, up to 1.5 ms is below 2 ms, and at 1.5 ms is nothing."""

    def times(comparison: Comparison, micros: int) -> tuple[int | None, int | None]:
        return selection([Condition(Field.TIMESTAMP, comparison, (micros,))]).times

    assert times(Comparison.GREATER, 1500) == times(Comparison.GREATER_OR_EQUAL, 1500) == (2, None)
    assert times(Comparison.LESS, 1500) == times(Comparison.LESS_OR_EQUAL, 1500) == (None, 2)
    assert times(Comparison.EQUAL, 1500) == (2, 2)
    assert times(Comparison.GREATER, 2000) == (3, None)
    assert times(Comparison.LESS_OR_EQUAL, 2000) == (None, 3)
