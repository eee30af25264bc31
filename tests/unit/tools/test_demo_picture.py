"""The README's first picture: what it draws of a run."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from tools.demo.picture import BIN_S, moments, picture

RUN: dict[str, Any] = {
    "killed": "0",
    "before": {"0": [0, 1], "1": [2, 3], "2": [4, 5]},
    "after": {"1": [2, 3], "2": [4, 5], "3": [0, 1]},
    "settled_s": 10.0,
    "lost": 0,
    "duplicated": 0,
    "delivered_s": {"0": [-1.0, 8.0], "2": [1.0], "4": [2.0, 3.0]},
}


def test_moments_are_of_the_seconds_around_the_kill() -> None:
    """Each quarter of a second once; what is too early or too late for the picture is left out."""
    deliveries = [(0, 0, 0, 10_000), (0, 1, 0, 10_100), (0, 2, 0, 9_000), (0, 3, 0, 1_000), (1, 0, 0, 90_000)]
    assert BIN_S == 0.25
    assert moments(deliveries, 10_000, 12_000) == {"0": [-1.0, 0.0]}


def test_each_owner_has_a_shape_of_its_own() -> None:
    """A mark for each moment, by shape and not by colour alone; the replacement is named beside what it got."""
    shown = picture(RUN)
    marks = re.findall(r'<path class="(circle|square|triangle|diamond|tasks)"', shown)
    assert Counter(marks) == {"circle": 1, "square": 2, "triangle": 1, "tasks": 1}
    assert len(re.findall(r'<path class="diamond"', picture(RUN | {"settled_s": 7.0}))) == 1
    assert "executor 3, new" in shown
    assert shown.count("the same, kept flowing") == 2
    assert "2 went to the replacement" in shown


def test_a_run_in_which_others_moved_too_says_so() -> None:
    """The picture promises nothing that the run has not."""
    shown = picture(RUN | {"after": {"1": [2], "2": [4, 5, 3], "3": [0, 1]}})
    assert "has 1 of these 2" in shown
    assert shown.count("the same, kept flowing") == 1
    assert "3 partitions stayed where they were" in shown
