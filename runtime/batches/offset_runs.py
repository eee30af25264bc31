"""The offsets of a batch's rows as runs, without a column: in a run each offset is one more than the last.

A log without gaps is one run, however many rows there are.

>>> runs = OffsetRuns.from_offsets([5, 6, 7, 10, 11])
>>> [runs.rows_below(limit, 5) for limit in (0, 5, 7, 8, 10, 11, 12, 99)]
[0, 0, 2, 3, 3, 4, 5, 5]
>>> len(runs)
2
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Final

_NUMBER: Final = "q"
_RUN: Final = struct.Struct("qq")  # offset and row, as the native code has them


class OffsetRuns:
    """The offsets of the rows of one batch, growing."""

    __slots__ = ("_numbers",)

    def __init__(self, runs: bytes) -> None:
        """Each run is the offset and the number of its first row: two native 64-bit integers."""
        self._numbers = memoryview(runs).cast(_NUMBER)

    @classmethod
    def from_offsets(cls, offsets: Sequence[int]) -> OffsetRuns:
        """The runs of these offsets, at least one."""
        starts = [0, *(row for row, (previous, offset) in enumerate(pairwise(offsets), 1) if offset != previous + 1)]
        return cls(b"".join(_RUN.pack(offsets[row], row) for row in starts))

    def __len__(self) -> int:
        return len(self._numbers) // 2

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._numbers[::2], self._numbers[1::2], strict=True)

    @property
    def nbytes(self) -> int:
        """The bytes of the runs, without the first one that every batch has."""
        return self._numbers.nbytes - _RUN.size

    def drop_rows(self, dropped: Collection[int], rows: int) -> OffsetRuns:
        """The runs when some of the batch's ``rows`` are dropped, and not all.

        >>> list(OffsetRuns.from_offsets([5, 6, 7, 10]).drop_rows({1}, 4))
        [(5, 0), (7, 1), (10, 2)]
        """
        starts = [*self, (0, rows)]
        offsets = (
            offset + row - first
            for (offset, first), (_, next_first) in pairwise(starts)
            for row in range(first, next_first)
        )
        return OffsetRuns.from_offsets([offset for row, offset in enumerate(offsets) if row not in dropped])

    def offset_of(self, row: int) -> int:
        """The offset of a row."""
        offset, first = max((run for run in self if run[1] <= row), key=lambda run: run[1])
        return offset + row - first

    def rows_below(self, limit: int, rows: int) -> int:
        """How many of the batch's ``rows`` have offsets below ``limit``."""
        numbers = self._numbers
        next_run = bisect_left(range(len(self)), limit, key=lambda run: numbers[2 * run])
        if not next_run:
            return 0
        offset, first = numbers[2 * next_run - 2], numbers[2 * next_run - 1]
        end = numbers[2 * next_run + 1] if next_run < len(self) else rows
        return min(first + limit - offset, end)
