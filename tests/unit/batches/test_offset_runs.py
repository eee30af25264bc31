"""Offsets as runs: cut as a column of them would be."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.batches.offset_runs import OffsetRuns

OFFSETS = st.lists(st.one_of(st.just(1), st.integers(1, 2**40)), min_size=1, max_size=40)


@given(OFFSETS, st.integers(0, 2**60), st.integers(-3, 3), st.integers(0, 39))
def test_rows_below_a_limit_are_those_of_the_offsets(gaps: list[int], base: int, near: int, at: int) -> None:
    """Before, between, at and behind any offset, whatever gaps there are."""
    offsets = [base + sum(gaps[: n + 1]) for n in range(len(gaps))]
    runs, limit = OffsetRuns.from_offsets(offsets), offsets[at % len(offsets)] + near
    assert runs.rows_below(limit, len(offsets)) == bisect_left(offsets, limit)
    assert runs.nbytes == 16 * sum(gap > 1 for gap in gaps[1:])
