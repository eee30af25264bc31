"""Waiting with a deadline."""

from __future__ import annotations

import pytest

from tests.kit.waiting import hold_for, wait_for_none, wait_until


def test_a_deadline_names_what_was_waited_for() -> None:
    """Past the deadline the error says what did not come, and what was seen last."""
    with pytest.raises(AssertionError, match=r"waited 0\.01 s for the moon; last seen: 0"):
        wait_until(lambda: 0, 0.01, "the moon", every_s=0.001)


def test_a_deadline_names_what_is_left() -> None:
    """The shorter list of the last poll is what stands in the error; none at all is what was waited for."""
    answers = iter([["a", "b"], ["b"], []])
    wait_for_none(lambda: next(answers), 5, "the end", every_s=0.001)
    with pytest.raises(AssertionError, match=r"waited 0\.01 s for the end; left: \['b'\]"):
        wait_for_none(lambda: ["b"], 0.01, "the end", every_s=0.001)


def test_what_ceases_to_hold_is_noticed() -> None:
    """hold_for fails as soon as the predicate does, and passes when it never does."""
    answers = iter([1, 1, 0])
    with pytest.raises(AssertionError, match="did not hold"):
        hold_for(lambda: next(answers), 5, "luck", every_s=0.001)
    hold_for(lambda: True, 0.01, "truth", every_s=0.001)
