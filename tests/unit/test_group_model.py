"""Model check: the states that two members and three partitions can reach, each with the laws I1 to I5."""

from __future__ import annotations

import pytest

from sparkcohort.runtime import ownership
from tests.support.group_laws import LawBroken
from tests.support.model_check import Explorer


def test_every_order_of_starting_up() -> None:
    """Two members start at once: whatever arrives first, the laws hold, and all ends settled."""
    explorer = Explorer(faults=0)
    explorer.explore(explorer.beginning())
    assert (len(explorer.seen) > 500, explorer.settled > 0) == (True, True)


def test_every_fault_of_a_settled_group() -> None:
    """One leave, death, expiry, time-out or trigger, and every order of all that follows from it."""
    explorer = Explorer(faults=1)
    explorer.explore(explorer.calmed(explorer.beginning()))
    assert (len(explorer.seen) > 1_000, explorer.settled > 1) == (True, True)


def test_a_group_that_ignores_what_is_given_up_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check can fail: where a rejoin frees nothing, a revoked partition never gets its new owner."""
    monkeypatch.setattr(ownership, "honour_claims", lambda _turn, _member: None)
    explorer = Explorer(faults=0)
    with pytest.raises((AssertionError, LawBroken)):
        explorer.explore(explorer.beginning())
