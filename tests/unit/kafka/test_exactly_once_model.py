"""Model check: what two drivers of one sink, their tasks and Kafka's transactions can come to."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.model.exactly_once import Explorer


def test_two_drivers_and_one_attempt_of_each_task() -> None:
    """Every order of every step of one batch, either driver frozen or dead at any of them."""
    explorer = Explorer(batches=1, retries=False, time_outs=0)
    assert explorer.explore() > 13_000
    assert {"ended", "TIMED_OUT", "OVERTAKEN"} <= explorer.ends


@pytest.mark.thorough("all states of two attempts, and of two batches with a time-out")
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    ("setting", "least"),
    [
        ({"batches": 1, "time_outs": 0}, 380_000),
        ({"batches": 2, "retries": False, "unanswered": 1}, 220_000),
    ],
    ids=["two attempts", "two batches, a time-out and a late request"],
)
def test_all_states(setting: dict[str, Any], least: int) -> None:
    """To the last state."""
    assert Explorer(**setting).explore() >= least


@pytest.mark.parametrize("checks", [True, False], ids=["leaders check", "they don't"])
@pytest.mark.parametrize(
    "setting",
    [{"batches": 2, "unanswered": 1}, {"batches": 3, "drivers": 1, "unanswered": 2}],
    ids=["two drivers", "three batches"],
)
def test_what_follows_a_state_follows_the_one_that_stands_for_it(setting: dict[str, Any], checks: bool) -> None:
    """Else a model of fewer states would have left some out."""
    explorer, choices = Explorer(**setting, checks=checks), random.Random(7)
    for _ in range(20):
        world, moves = explorer.first(), list(explorer.moves(explorer.first()))
        while moves:
            world = choices.choice(moves)[1]
            stands = explorer.reduced(world)
            moves = list(explorer.moves(world))
            assert explorer.reduced(stands) == stands
            follow = {explorer.reduced(after) for _, after in moves}
            assert follow | {stands} == {explorer.reduced(after) for _, after in explorer.moves(stands)} | {stands}


def test_leaders_that_do_not_check() -> None:
    """What a frozen attempt writes to them becomes visible by no commit of another batch; it would, without the look behind its last write."""
    setting: dict[str, Any] = {"batches": 3, "drivers": 1, "tasks": 1, "time_outs": 0, "checks": False}
    assert Explorer(**setting).explore() > 1_000
    with pytest.raises(AssertionError, match="visible twice"):
        Explorer(**setting, broken="open").explore()


CONTROLS = {"rest": (0, 0), "run": (0, 0), "batch": (0, 0), "check": (1, 0), "fenced": (0, 0), "another": (0, 1)}
"""Rules that are left out, and how many time-outs and late InitProducerIds show it."""


@pytest.mark.parametrize("rule", CONTROLS)
def test_without_a_rule_a_law_is_broken(rule: str) -> None:
    """An id that rests, the run and the batch that are compared, the open transactions that are checked, the fence, another id."""
    time_outs, unanswered = CONTROLS[rule]
    explorer = Explorer(retries=False, broken=rule, time_outs=time_outs, unanswered=unanswered)
    with pytest.raises(AssertionError, match=r"visible|lost|decided|hole"):
        explorer.explore(50_000)
