"""Cutting a line of ranges into pieces of about equal length."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from sparkcohort.runtime.protocol import Range


def cut(ranges: Sequence[Range], count: int, least: int, shortest: int, longest: int | None) -> list[list[Range]]:
    """Cut ranges, laid end to end, into at most ``count`` pieces, none empty.

    Every cut goes to the nearest place near its ideal one: between two ranges, or inside a range if both sides
    keep ``shortest`` offsets.  Then no piece exceeds its ideal length by more than 2 * ``shortest``.  If that yields
    fewer than ``least`` pieces, or one of more than ``longest`` offsets, the cuts are made exactly, anywhere.

    >>> a, b = Range("t", 0, 0, 100), Range("t", 1, 500, 510)
    >>> cut([a, b], 2, 0, 20, None)[0]
    [Range(topic='t', partition=0, start=0, end=55)]
    """
    edges = list(accumulate((r.end - r.start for r in ranges), initial=0))
    count = min(count, edges[-1])
    if count < 1:
        return []
    cuts = _near(edges, count, shortest)
    if len(cuts) - 1 < least or (longest is not None and max(b - a for a, b in pairwise(cuts)) > longest):
        cuts = [_ideal(edges[-1], i, count) for i in range(count + 1)]
    return _pieces(ranges, edges, cuts)


def _ideal(total: int, i: int, count: int) -> int:
    return total * i // count


def _near(edges: Sequence[int], count: int, shortest: int) -> list[int]:
    """Places of the cuts on the line, ascending and distinct, both ends included."""
    cuts, at = [0], 0
    for i in range(1, count):
        ideal = _ideal(edges[-1], i, count)
        while edges[at + 1] <= ideal:
            at += 1
        left, right = edges[at], edges[at + 1]  # the range that the ideal place is in
        base = max(left, cuts[-1])
        lowest, highest = base + shortest, right - shortest
        inside = [min(max(ideal, lowest), highest)] if lowest <= highest else []
        cuts.append(_nearest(ideal, [base, right, *inside]))
    return sorted({*cuts, edges[-1]})


def _nearest(ideal: int, places: Sequence[int]) -> int:
    return min(places, key=lambda place: (abs(place - ideal), place))


def _pieces(ranges: Sequence[Range], edges: Sequence[int], cuts: Sequence[int]) -> list[list[Range]]:
    pieces: list[list[Range]] = []
    at = 0
    for first, last in pairwise(cuts):
        piece: list[Range] = []
        while at < len(ranges) and edges[at] < last:
            r, base = ranges[at], edges[at]
            piece.append(r._replace(start=r.start + max(first - base, 0), end=min(r.end, r.start + last - base)))
            if edges[at + 1] > last:
                break
            at += 1
        pieces.append(piece)
    return pieces
