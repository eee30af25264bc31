"""What ``make bench-assignors`` measures, leaves out, and makes of its runs."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from sparkcohort.assignors import ASSIGNORS
from tools.bench.assignors import grid, groups, report
from tools.bench.assignors.grid import LARGE, SMALL, Measured
from tools.bench.assignors.groups import Cell, Took
from tools.bench.assignors.sides import KAFKAS, OURS, Side, SideError
from tools.bench.report import as_json

FRESH = Cell("cooperative-sticky", *LARGE, "equal", "fresh")


def measured(cell: Cell, ours_ms: float, kafkas_ms: float | None, peak: int = 0) -> Measured:
    """A cell with three runs of ours around a median, and one of Kafka's or none."""
    runs = {OURS: [Took(ours_ms * part / 1e3, cell.partitions) for part in (0.5, 1, 9)]}
    if kafkas_ms is not None:
        runs[KAFKAS] = [Took(kafkas_ms / 1e3, cell.partitions)]
    return Measured(cell, runs, peak, "" if kafkas_ms is not None else "Kafka's took over 30 s")


def judged(*cells: Measured) -> dict[str, Any]:
    """The report of these."""
    found = report.cells(cells)
    return {
        "cells": found,
        "bounds": report.bounds(found),
        "aims": report.aims(found),
        "skipped": report.skipped(found),
    }


def test_the_grid_has_what_the_bounds_name_first() -> None:
    """Up to a million partitions, every cell once; a part of it by parts of names."""
    every = grid.cells(ASSIGNORS)
    assert len(every) == len(set(every))
    assert max(cell.partitions for cell in every) == 1_000_000
    small = [cell for cell in every if (cell.members, cell.partitions) == (50, 1_000) and cell.assignor == "sticky"]
    assert (small[0].members, small[0].per_member) == SMALL[:2]
    assert {(cell.subscriptions, cell.topics, cell.event) for cell in small} == set(
        product(("equal", "unequal"), (1, 10, 100, 500, 1_000), ("fresh", "joins", "leaves"))
    )
    assert len(grid.cells(ASSIGNORS, quick=True)) < 150
    few = grid.cells(["range", "cooperative-sticky"], only=["equal/2000x500/100/fresh"])
    assert list(map(str, few)) == [f"{name}/equal/2000x500/100/fresh" for name in ("cooperative-sticky", "range")]


@pytest.mark.parametrize("subscriptions", groups.EVERY)
@pytest.mark.parametrize("event", groups.EVENTS)
def test_a_group_is_as_it_was_asked_for(subscriptions: str, event: str) -> None:
    """Members, partitions and topics; who was there owns all of it, a newcomer nothing; unequal ones skip a fifth."""
    asked = groups.cell(Cell("cooperative-sticky", 7, 10, 15, subscriptions, event).words())
    topics, members = groups.topics_of(asked), groups.group_of(asked)
    assert sum(topics.values()) == 70
    assert len(members) == {"fresh": 7, "joins": 8, "leaves": 6}[event]
    wanted = {"equal": {15}, "unequal": {12}}[subscriptions]
    assert {len(said.topics) for said in members.values()} == wanted
    owned = [partition for said in members.values() for partition in said.owned]
    assert len(owned) == len(set(owned)) == {"fresh": 0, "joins": 70, "leaves": 60}[event]
    assert all(set(said.since) == set(said.owned) for said in members.values())


def test_our_side_measures_a_whole_round() -> None:
    """Every partition is in the assignments; memory is counted beside the input."""
    asked = Cell("range", 4, 25, 3, "equal", "fresh")
    topics, members = groups.topics_of(asked), groups.group_of(asked)
    took = groups.run(asked, topics, members)
    assert took.partitions == 100
    assert took.seconds > 0
    assert groups.peak(asked, topics, members) > 4 * 100


def test_both_sides_must_give_out_as_much() -> None:
    """Where that is determined: a side that does less is not compared."""
    runs = {OURS: [Took(1, 100)], KAFKAS: [Took(1, 99)]}
    with pytest.raises(SideError, match=r"\[99, 100\]"):
        grid.check(Cell("range", 4, 25, 3, "equal", "fresh"), runs)
    grid.check(Cell("cooperative-sticky", 4, 25, 3, "unequal", "joins"), runs)


class Runs(Side):
    """A side whose runs take what they are said to; the first is that of ``prepare``."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(name, 1)
        self.took = Took(seconds, 100)
        self.runs = 0

    def prepare(self, cell: Cell) -> Took:
        """As fast as it gets."""
        return self.took

    def run(self) -> Took:
        """One more."""
        self.runs += 1
        return self.took

    def peak(self) -> int:
        """Nothing at all."""
        return 0


@pytest.mark.parametrize(("seconds", "runs", "counted"), [(0.1, 5, 5), (2.0, 3, 3), (7.0, 0, 1), (0.01, 25, 25)])
def test_who_takes_long_is_not_run_again(seconds: float, runs: int, counted: int) -> None:
    """Six seconds are enough for a cell; short runs are made several at a time."""
    slow, quick = Runs(KAFKAS, seconds), Runs(OURS, 0.1)
    measured = grid.one_cell(Cell("range", 4, 25, 3, "equal", "fresh"), [quick, slow], 5, {KAFKAS: [], OURS: []})
    assert (slow.runs, len(measured.runs[KAFKAS])) == (runs, counted)
    assert len(measured.runs[OURS]) == 5


def test_what_is_left_out_is_said() -> None:
    """No time, no cell; larger ones of a kind that was too slow aren't tried."""
    told: list[str] = []
    found = grid.measure(grid.Plan([FRESH], 1, -1.0, 1.0), told.append)
    assert told == []
    assert [each.note for each in found] == ["time is up"]
    assert judged(*found)["skipped"] == {"time is up": [str(FRESH)]}
    assert judged(*found)["bounds"] == {}
    small = Cell("cooperative-sticky", *SMALL, "equal", "fresh")
    assert grid.no_smaller(FRESH, small)
    assert not grid.no_smaller(small, FRESH)
    leaves = Cell("cooperative-sticky", *SMALL, "equal", "leaves")
    assert grid.no_smaller(leaves, small)
    assert not grid.no_smaller(FRESH, leaves)
    assert not grid.no_smaller(Cell("sticky", *LARGE, "equal", "fresh"), small)
    both = {OURS: [small], KAFKAS: [leaves, small]}
    note = f"{OURS} was too slow for a smaller one; {KAFKAS} was too slow for a smaller one"
    assert grid.one_cell(FRESH, [Side(OURS, 1), Side(KAFKAS, 1)], 1, both) == Measured(FRESH, {}, None, note)


def test_bounds_say_what_is_missed() -> None:
    """Each of the bounds by itself, by medians."""
    leaves, joins = (Cell("cooperative-sticky", *LARGE, "equal", event) for event in ("leaves", "joins"))
    small = Cell("cooperative-sticky", *SMALL, "equal", "joins")
    good = [
        measured(FRESH, 250, 260, 200_000_000),
        measured(leaves, 400, 1600),
        measured(joins, 900, 900),
        measured(small, 2.9, 1.0),
    ]
    assert list(judged(*good)["bounds"].values()) == [True] * 5
    for at, worse in (
        (0, measured(FRESH, 251, 260)),
        (0, measured(FRESH, 250, 260, 200_000_001)),
        (1, measured(leaves, 401, 1600)),
        (2, measured(joins, 901, 900)),
        (3, measured(small, 3.0, 1.0)),
    ):
        bounds = judged(*good[:at], worse, *good[at + 1 :])["bounds"]
        assert list(bounds.values()).count(False) == 1, worse


def test_the_tables_show_both_sides_and_the_json_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Piped, tables have no escape sequences; who was too slow has no figures and is named."""
    result = judged(measured(FRESH, 125, 500, 10**8), measured(Cell("range", *LARGE, "equal", "fresh"), 10, None))
    assert result["aims"]["equal, fresh: 2 x faster"] == "1 of 1"
    report.print_tables(result)
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "125.0 (62.5 to 1,125.0)" in printed
    assert "4.00" in printed
    assert "Kafka's took over 30 s" in printed
    assert "\n" not in as_json(result)
    assert json.loads(as_json(result))["cells"][str(FRESH)]["times"] == 4
