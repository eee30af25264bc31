"""The demo's verdict: what counts as lost, doubled, and a gap."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from tests.kit.tier import of_tier
from tools.demo import flights
from tools.demo.verdict import LABELS, Delivery, Verdict, compare, longest_gap

BOOKS = {0: {0: 11, 1: 12}, 1: {0: 21}}
ALL: list[Delivery] = [(0, 0, 11, 0), (0, 1, 12, 0), (1, 0, 21, 0)]


@pytest.mark.parametrize(
    ("deliveries", "counts"),
    [
        ([*reversed(ALL)], (3, 0, 0)),
        (ALL[:-1], (2, 1, 0)),
        ([], (0, 3, 0)),
        ([*ALL, ALL[0], ALL[0]], (5, 0, 2)),
        ([*ALL, (1, 7, 5, 0), (3, 0, 5, 0)], (5, 0, 2)),
        ([*ALL[:-1], (1, 0, 99, 0)], (3, 1, 0)),
    ],
    ids=["all", "one is missing", "nothing", "one thrice", "two that nobody produced", "other bytes"],
)
def test_what_is_lost_and_what_is_doubled(deliveries: list[Delivery], counts: tuple[int, int, int]) -> None:
    """Delivered, lost and doubled, in whatever order they came."""
    assert compare(BOOKS, deliveries) == counts


@pytest.mark.parametrize(
    ("begin", "end", "gap"),
    [(0, 1000, 400), (0, 99, 100), (110, 120, 400), (450, 460, 400), (520, 600, 50), (2000, 3000, None)],
)
def test_the_longest_gap_reaches_into_the_window(begin: int, end: int, gap: int | None) -> None:
    """Gaps count by partition when a part of them is inside; other partitions don't."""
    deliveries = [(1, offset, 0, at) for offset, at in enumerate((0, 100, 100, 500, 550))]
    assert longest_gap([*deliveries, (2, 0, 0, 10), (2, 1, 0, 9999)], {1}, begin, end) == gap


def verdict(**changes: object) -> Verdict:
    """A verdict of a good run."""
    good: dict[str, object] = dict.fromkeys(Verdict.__slots__, 0)
    return Verdict(**{**good, "produced": 3, "delivered": 3, "committed_equals_end": True, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "passed"),
    [({}, True), ({"lost": 1}, False), ({"duplicated": 1}, False), ({"committed_equals_end": False}, False),
     ({"produced": 0}, False)],
)  # fmt: skip
def test_it_passes_only_when_nothing_is_wrong(changes: dict[str, object], passed: bool) -> None:
    """Lost, doubled or uncommitted records fail it; so does a run without records."""
    assert verdict(**changes).passed is passed
    assert json.loads(json.dumps(verdict(**changes).as_value()))["delivered"] == 3


def test_every_value_is_explained() -> None:
    """The table has a label for each name of the JSON object."""
    assert list(LABELS) == list(verdict().as_value())


def test_the_events_are_the_flights() -> None:
    """Every row of the file is one JSON object of 19 typed columns, keyed by its aircraft."""
    first, *rest = islice(flights.events(), of_tier(quick=5_000, thorough=None))
    assert len(rest) + 1 == of_tier(quick=5_000, thorough=flights.FLIGHTS)
    key, said = first.key, json.loads(first.value)
    assert (key, said["tailnum"], said["dep_delay"], said["time_hour"]) == (
        b"N14228",
        "N14228",
        2,
        "2013-01-01T10:00:00Z",
    )
    assert len(said) == 19
    assert any(json.loads(flight.value)["dep_time"] is None for flight in rest[:5000])
