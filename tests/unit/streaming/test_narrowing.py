"""What a filter's bound leaves of a range: never less than the filter keeps."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.streaming.narrowing import narrow_range, times_of_bound

COMPARISONS = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
NUMBERS = st.lists(st.integers(-2, 14), min_size=1, max_size=3)
LEAVES = st.one_of(
    st.tuples(st.just("="), st.sampled_from(("offset", "partition")), NUMBERS),
    st.tuples(
        st.sampled_from(sorted(COMPARISONS)), st.sampled_from(("offset", "partition")), NUMBERS.map(lambda s: s[:1])
    ),
    st.tuples(st.sampled_from(sorted(COMPARISONS)), st.just("topic"), st.sampled_from((["s"], ["t"], ["u"]))),
    st.tuples(st.sampled_from((">=", "=")), st.just("timestamp"), st.lists(st.integers(1, 9), min_size=1, max_size=1)),
).map(lambda leaf: [leaf[0], leaf[1], *leaf[2]])
BOUNDS: st.SearchStrategy[list[Any]] = st.recursive(
    LEAVES,
    lambda inner: st.tuples(st.sampled_from(("AND", "OR")), st.lists(inner, min_size=2, max_size=3)).map(
        lambda both: [both[0], *both[1]]
    ),
    max_leaves=8,
)


def _keeps(bound: Sequence[Any], record: dict[str, Any]) -> bool:
    if bound[0] in ("AND", "OR"):
        return (all if bound[0] == "AND" else any)(_keeps(part, record) for part in bound[1:])
    return any(COMPARISONS[bound[0]](record[bound[1]], value) for value in bound[2:])


def _is_exact(bound: Sequence[Any]) -> bool:
    """Whether what a bound keeps has no gaps and doesn't depend on times."""
    match bound:
        case ["AND", *parts]:
            return all(map(_is_exact, parts))
        case [_, "offset", *values]:
            return len(values) == 1
        case _:
            return bool(bound[0] != "OR" and bound[1] != "timestamp")


@given(BOUNDS, st.integers(0, 3), st.integers(0, 10), st.lists(st.integers(0, 10), max_size=12), st.booleans())
def test_no_record_that_the_filter_keeps_is_left_out(
    bound: list[Any], partition: int, start: int, times: list[int], known: bool
) -> None:
    """Records with times in any order; where first offsets are not known, time bounds nothing."""
    whole = Range("t", partition, start, start + len(times))
    records: list[dict[str, Any]] = [
        {"topic": "t", "partition": partition, "offset": start + place, "timestamp": time}
        for place, time in enumerate(times)
    ]
    first = {
        time: {whole.tp: next((each["offset"] for each in records if each["timestamp"] >= time), 99)} if known else {}
        for time in times_of_bound(bound)
    }
    part = narrow_range(bound, whole, first)
    assert whole.start <= part.start <= part.end <= whole.end
    kept = [each["offset"] for each in records if _keeps(bound, each)]
    assert all(part.start <= offset < part.end for offset in kept)
    if _is_exact(bound) and kept:
        assert (part.start, part.end) == (kept[0], kept[-1] + 1)


def test_nothing_is_pushed() -> None:
    """A scan without a filter reads all."""
    whole = Range("t", 0, 3, 9)
    assert narrow_range([], whole, {}) == whole
    assert not times_of_bound([])
