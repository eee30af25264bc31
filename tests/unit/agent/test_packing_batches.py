"""Batches on their way to the JVM: small ones joined, large ones untouched, rows and order as they were."""

from __future__ import annotations

import itertools

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.batches.record_sizes import WHOLE_BYTES, WHOLE_ROWS
from sparkcohort.streaming.direct_read import packed


def batches_of(sizes: list[int]) -> list[pa.RecordBatch]:
    """Batches of so many numbers each, counted through."""
    firsts = [sum(sizes[:index]) for index in range(len(sizes))]
    return [
        pa.record_batch({"n": pa.array(range(first, first + size), pa.int64())})
        for first, size in zip(firsts, sizes, strict=True)
    ]


@given(st.lists(st.sampled_from([1, 2, 100, WHOLE_ROWS - 1, WHOLE_ROWS, WHOLE_ROWS + 1]), max_size=12))
def test_rows_and_order_stay(sizes: list[int]) -> None:
    """What comes out is what went in, in order, and no two small batches are left side by side."""
    given_batches = batches_of(sizes)
    out = list(packed(given_batches))

    assert [n for batch in out for n in batch["n"].to_pylist()] == list(range(sum(sizes)))
    small = [batch.num_rows < WHOLE_ROWS for batch in out]
    assert not any(left and right for left, right in itertools.pairwise(small))


def test_large_batches_are_not_copied() -> None:
    """A batch of many rows, or of many bytes, passes as the object that it is."""
    many = batches_of([WHOLE_ROWS])[0]
    heavy = pa.record_batch({"n": pa.array([b"x" * WHOLE_BYTES])})

    assert next(iter(packed([many]))) is many
    assert next(iter(packed([heavy]))) is heavy


def test_what_waits_is_bounded() -> None:
    """Few rows of many bytes don't wait for thousands more."""
    third = [pa.record_batch({"n": pa.array([b"x" * (WHOLE_BYTES // 3)])}) for _ in range(9)]
    assert [batch.num_rows for batch in packed(third)] == [3, 3, 3]
