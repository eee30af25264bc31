"""The judge of the fault campaign: what is well is well, and each wrong thing is found and named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos.judge import Evidence, Sight, growth, judge, lateness, latest, places, standstills

HELD = {"t-0": range(6), "t-1": range(3)}
WELL = [(0, {"t-0": [0, 1, 2], "t-1": [0]}), (1, {"t-0": [3, 4]}), (2, {"t-0": [5], "t-1": [1, 2]})]
EVIDENCE = Evidence(
    HELD, {"t-0": 6}, WELL, [{"t-0": 3}, {"t-0": 5}], [{"t-0": 3}, {"t-0": 3}, {"t-0": 5}]
)  # a history in which all is well


def test_each_record_once_in_order_is_well() -> None:
    """Nothing is found, and the counts are told."""
    assert places(HELD, WELL) == []
    verdict = judge(EVIDENCE)
    assert verdict.well
    assert verdict.lines() == [
        "9 records in 2 batches: lost 0, doubled 0, changed 0, stepped back 0, skipped 0, left open 0, ended without a reason 0"
    ]


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        ([WELL[0], WELL[1], (2, {"t-0": [5], "t-1": [1]})], ["lost: t-1@2 and 0 more"]),
        ([*WELL, (3, {"t-0": [2]})], ["doubled: t-0@2 in batches 0 and 3"]),
        (
            [WELL[0], (1, {"t-0": [4]}), (2, {"t-0": [3, 5], "t-1": [1, 2]})],
            ["skipped: t-0@3 and 0 more before batch 1"],
        ),
        ([WELL[0], (1, {"t-0": [3, 4]})], ["lost: t-0@5 and 0 more", "lost: t-1@1 and 1 more"]),
    ],
)
def test_what_is_wrong_with_records_is_named(batches: list[tuple[int, dict[str, list[int]]]], found: list[str]) -> None:
    """With partition, offset and batch."""
    assert places(HELD, batches) == found
    verdict = judge(replace(EVIDENCE, batches=batches))
    assert not verdict.well
    assert any(found[0] in line for line in verdict.lines())


def test_offsets_that_the_log_never_had_are_no_loss() -> None:
    """Aborted transactions and control records leave gaps."""
    assert places({"t-0": [0, 1, 5, 6]}, [(0, {"t-0": [0, 1]}), (1, {"t-0": [5, 6]})]) == []


def test_what_steps_back_is_named() -> None:
    """A batch's end and a commit, each with where from and to."""
    ranges, commits = [{"t-0": 3}, {"t-0": 2}], [{"t-0": 3, "t-1": 1}, {"t-0": 3}, {"t-0": 1}]
    verdict = judge(replace(EVIDENCE, ranges=ranges, commits=commits))
    assert verdict.findings["stepped back"] == ["batch 1: t-0 from 3 to 2", "commit 2: t-0 from 3 to 1"]
    assert not verdict.well


def test_what_the_cluster_acknowledged_and_has_not_is_lost() -> None:
    """The cluster's loss, said so; more than was acknowledged is well."""
    verdict = judge(replace(EVIDENCE, acknowledged={"t-0": 7, "t-1": 2}))
    assert verdict.findings["lost"] == ["lost by the cluster: 6 of 7 acknowledged records of t-0"]


def test_an_end_of_the_query_that_nothing_excuses_is_wrong() -> None:
    """With its words."""
    verdict = judge(EVIDENCE, ["the driver ended with 1"])
    assert not verdict.well
    assert "  ended without a reason: the driver ended with 1" in verdict.lines()


def test_the_longest_standstill_of_a_kind() -> None:
    """Of the gaps that a fault or its aftermath overlaps, as far as the aftermath goes."""
    at = [0.0, 1.0, 2.0, 12.0, 13.0, 14.0, 60.0]
    faults = [("frozen", 3.0, 5.0), ("frozen", 13.2, 13.5), ("killed", 50.0, 50.0), ("calm", 0.5, 1.0)]
    assert standstills(at, faults, 4.0) == {"frozen": 7.0, "killed": 40.0, "calm": 3.0}


def test_how_late_readers_are_behind_a_batch() -> None:
    """What a batch has committed is readable when it is logged; what a transaction of the dead still hides is late by as long."""
    hidden = [
        Sight(0.0, (5, 5), (5, 0)),
        Sight(1.0, (9, 5), (5, 0)),
        Sight(4.0, (9, 5), (9, 0)),
        Sight(8.5, (9, 7), (9, 5)),
    ]
    late = lateness([*hidden, Sight(9.0, (9, 7), (9, 7))], [2.0, 4.5, 9.5])
    assert late == [(0.0, 6.5), (1.0, 6.5), (4.0, 4.0), (8.5, 0.0), (9.0, 0.0)]
    assert latest(late, [("killed", 3.0, 3.0), ("frozen", 8.0, 9.0), ("calm", 20.0, 21.0)], 2.0) == {
        "killed": 4.0, "frozen": 0.0, "calm": 0.0,
    }  # fmt: skip


def test_a_reader_that_has_seen_nothing_is_not_late() -> None:
    """No sight, or no batch behind one, tells nothing."""
    assert lateness([], [1.0]) == []
    assert lateness([Sight(2.0, (1,), (0,))], [1.0]) == []


def a_life(values: list[float], every_s: float = 100.0, from_s: float = 0.0) -> list[tuple[float, float]]:
    """One figure of one process, looked at every so often."""
    return [(from_s + every_s * number, value) for number, value in enumerate(values)]


@pytest.mark.parametrize(
    ("lives", "ratio"),
    [
        ([a_life([10.0] * 12)], 1.0),
        ([a_life([1.0] * 3 + [10.0] * 4 + [20.0] * 5)], 2.0),  # the first third, of caches that fill, is left out
        ([a_life([10.0] * 12), a_life([float(value) for value in range(10, 22)], from_s=5_000.0)], 21 / 15),
        ([a_life([5.0, 50.0] * 2)] * 30, None),  # however many short lives
        ([], None),
    ],
)
def test_growth_is_that_within_a_life(lives: list[list[tuple[float, float]]], ratio: float | None) -> None:
    """Of medians, so that one look means nothing; the worst of all lives that are long enough."""
    assert growth(lives, 600.0, 600.0) == ratio
