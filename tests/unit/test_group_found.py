"""What the simulator has found in the group, each as small as it gets."""

from __future__ import annotations

from sparkcohort.runtime import group as g
from tests.support.group_desk import Desk, beat, join, stable, sync, tp


def test_a_rebalance_does_not_prolong_an_absent_static_member() -> None:
    """The session of one that did not rejoin goes on as it was: rebalance after rebalance would keep it for ever."""
    desk = Desk()
    desk.enter("a")
    desk.ask(join("", "s", "i", session_timeout_ms=1_200))
    desk.ask(join("a-1", "a"))
    desk.ask(sync("a-1", 2))
    desk.ask(sync("i-2", 2, instance="i"))
    desk.ask(join("a-1", "a", meta="new"))
    desk.pass_to(500)  # the join phase ends without i-2, which stays
    assert (desk.group.state, desk.group.generation) == ("CompletingRebalance", 3)
    assert desk.group.sessions["i-2"] == 1_200
