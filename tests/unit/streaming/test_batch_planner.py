"""Into which tasks a batch read is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.streaming.batch_planner import task_ranges

SIZES = st.integers(0, 30) | st.integers(0, 5_000_000)
RANGES = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from("tu"), st.integers(0, 9)),
    st.tuples(st.integers(0, 2**40), SIZES),
    max_size=12,
).map(lambda found: [Range(*tp, start, start + size) for tp, (start, size) in found.items()])


@given(RANGES, st.none() | st.integers(1, 300), st.none() | st.integers(20_000, 10**7) | st.just(10**9))
def test_ranges_are_covered_exactly(ranges: list[Range], least: int | None, most: int | None) -> None:
    """Every offset is in one task, in order, none is empty, and no task has more than it may."""
    tasks = task_ranges(ranges, min_partitions=least, max_records=most)
    assert list(tasks) == sorted(tasks)
    assert all(task.start < task.end for task in tasks)
    assert most is None or all(task.end - task.start <= most for task in tasks)
    joined: list[Range] = []
    for task in tasks:
        if joined and joined[-1].tp == task.tp and joined[-1].end == task.start:
            joined[-1] = joined[-1]._replace(end=task.end)
        else:
            joined.append(task)
    assert joined == sorted(each for each in ranges if each.start < each.end)


@given(RANGES, st.integers(1, 300))
def test_about_as_many_tasks_as_are_wanted(ranges: list[Range], least: int) -> None:
    """As Spark: more by rounding, and fewer by rounding or where there are no more offsets, yet about as many."""
    full = [each for each in ranges if each.start < each.end]
    tasks = task_ranges(ranges, min_partitions=least)
    offsets = sum(each.end - each.start for each in full)
    assert len(tasks) >= len(full)
    assert min(least, offsets) - len(full) <= len(tasks) <= max(least, len(full)) + len(full)


@pytest.mark.parametrize(
    ("sizes", "least", "expected"),
    [
        ((5, 5, 5), None, (1, 1, 1)),
        ((5, 5, 5), 3, (1, 1, 1)),
        ((10_000, 1), 2, (1, 1)),
        ((10_000, 1), 10, (9, 1)),
        ((30, 40, 5, 20), 3, (1, 1, 1, 1)),
        ((100, 100), 4, (2, 2)),
        ((2, 0), 9, (2, 0)),
    ],
)
def test_tasks_of_each_range_as_spark_has_them(
    sizes: tuple[int, ...], least: int | None, expected: tuple[int, ...]
) -> None:
    """Large ranges are cut in proportion; small ones stay whole and don't count for that."""
    tasks = task_ranges([Range("t", number, 0, size) for number, size in enumerate(sizes)], min_partitions=least)
    assert tuple(sum(task.partition == number for task in tasks) for number in range(len(sizes))) == expected
