"""Cutting a line of ranges into pieces of about equal cost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from sparkcohort.runtime.protocol.partitions import Range


def cut_ranges(
    ranges: Sequence[Range],
    parts: Sequence[int],
    *,
    least: int = 0,
    shortest: int = 1,
    longest: int | None = None,
    costs: Sequence[int] = (),
) -> list[list[Range]]:
    """Cut ranges, laid end to end, into at most ``len(parts)`` pieces, in proportion to ``parts``; no piece is empty.

    ``costs`` are those of one offset of each range, 1 without; the length of a piece is the cost of its offsets.  Each cut
    is made near its ideal place: between two ranges, or inside a range if both sides keep about ``shortest``.  Then no piece
    exceeds its ideal length by more than 2 * ``shortest``, or two offsets of the dearest range.  If that gives fewer than
    ``least`` pieces, or a piece of more than ``longest`` offsets, the cuts are made at their ideal places.  A piece that
    still has too many offsets is cut again.

    >>> a, b = Range("t", 0, 0, 100), Range("t", 1, 500, 510)
    >>> cut_ranges([a, b], [1, 1], shortest=20)[0], cut_ranges([a, b], [1, 1], costs=[1, 10])[0]
    ([Range(topic='t', partition=0, start=0, end=55)], [Range(topic='t', partition=0, start=0, end=100)])
    """
    line = _RangeLine(ranges, costs or [1] * len(ranges))
    parts = parts[: count_records(ranges)]
    if not parts:
        return []
    pieces = line.cut(parts, shortest)
    if len(pieces) < least or _too_long(pieces, longest):
        pieces = line.cut(parts)
    if len(pieces) < least:  # one offset may cost more than a whole piece: cut by number, not by cost
        pieces = _RangeLine(ranges, [1] * len(ranges)).cut([1] * len(parts))
    return [part for piece in pieces for part in _limit_length(piece, longest)]


def count_records(ranges: Sequence[Range]) -> int:
    """The number of offsets, which counts as that of records."""
    return sum(r.size for r in ranges)


def _too_long(pieces: Sequence[Sequence[Range]], longest: int | None) -> bool:
    return longest is not None and any(count_records(piece) > longest for piece in pieces)


def _limit_length(piece: list[Range], longest: int | None) -> list[list[Range]]:
    """The piece, or parts of it of at most ``longest`` offsets."""
    if longest is None or count_records(piece) <= longest:
        return [piece]
    return _RangeLine(piece, [1] * len(piece)).cut([1] * -(-count_records(piece) // longest))


class _RangeLine:
    """Ranges laid end to end; a place on the line is the cost of all offsets before it."""

    def __init__(self, ranges: Sequence[Range], costs: Sequence[int]) -> None:
        self._ranges, self._costs = ranges, costs
        steps = (r.size * cost for r, cost in zip(ranges, costs, strict=True))
        self._edges = list(accumulate(steps, initial=0))

    def cut(self, parts: Sequence[int], shortest: int = 0) -> list[list[Range]]:
        """Pieces, cut at the ideal places, or where no range is split or ``shortest`` stays on both sides; none is empty."""
        return self._pieces(self._cuts(parts, shortest))

    def _cuts(self, parts: Sequence[int], shortest: int) -> list[int]:
        """The places of the cuts, each at the nearest offset; both ends included."""
        edges, whole = self._edges, sum(parts)
        cuts, index = [0], 0
        for part in accumulate(parts[:-1]):
            ideal = edges[-1] * part // whole
            while edges[index + 1] <= ideal:
                index += 1
            low, right, cost = edges[index], edges[index + 1], self._costs[index]  # of the range of the ideal place
            base = max(low, cuts[-1])
            lowest, highest = base + shortest, right - shortest
            inside = [min(max(ideal, lowest), highest)] if lowest <= highest else []
            place = _nearest(ideal, [base, right, *inside])
            cuts.append(low + (place - low + cost // 2) // cost * cost)
        return sorted({*cuts, edges[-1]})

    def _pieces(self, cuts: Sequence[int]) -> list[list[Range]]:
        pieces: list[list[Range]] = []
        index = 0
        for first, last in pairwise(cuts):
            piece: list[Range] = []
            while index < len(self._ranges) and self._edges[index] < last:
                piece.append(self._part(index, first, last))
                if self._edges[index + 1] > last:
                    break
                index += 1
            pieces.append(piece)
        return pieces

    def _part(self, index: int, first: int, last: int) -> Range:
        """The part of a range between two places."""
        r, base, cost = self._ranges[index], self._edges[index], self._costs[index]
        return r._replace(start=r.start + max(first - base, 0) // cost, end=min(r.end, r.start + (last - base) // cost))


def _nearest(ideal: int, places: Sequence[int]) -> int:
    return min(places, key=lambda place: (abs(place - ideal), place))
