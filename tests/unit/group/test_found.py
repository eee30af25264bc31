"""What the simulator has found in the group, each as small as it gets."""

from __future__ import annotations

from sparkcohort.runtime import group as g
from tests.kit.group_desk import Desk, beat, join, stable, sync, tp


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


def test_what_a_taken_over_member_was_about_to_give_up_is_given_out() -> None:
    """Nobody else would ask for the follow-up round: the one that had to give up is gone."""
    desk = stable()
    desk.ask(join("b-3", "b", meta="new"))
    desk.ask(join("i-2", "s", "i", claims="t1"))
    desk.ask(join("a-1", "a"))
    desk.ask(sync("a-1", 3, {"a-1": "t0", "b-3": "t2"}))  # t1 is withheld until i-2 has given it up
    desk.ask(sync("b-3", 3))
    desk.ask(join("", "s", "i"))
    assert tp("t1") not in g.owners(desk.group)
    assert desk.group.state == "PreparingRebalance"
    assert desk.pushed() == ("a-1", "i-4", "b-3")


def test_a_member_that_has_lost_what_it_owns_has_changed() -> None:
    """A static member that missed a generation comes back with its old metadata, and without what it was granted."""
    desk = stable()
    desk.ask(join("b-3", "b", meta="new", claims="t2"))
    desk.ask(join("a-1", "a", claims="t0"))
    desk.pass_to(499)
    desk.ask(beat("i-2", 2, "i"))
    desk.pass_to(500)  # the join phase ends without i-2, which stays
    desk.ask(sync("a-1", 3, {"a-1": "t0", "i-2": "t1", "b-3": "t2"}))
    desk.ask(sync("b-3", 3))
    assert desk.error(beat("i-2", 2, "i")) == "ILLEGAL_GENERATION"
    assert g.owned(desk.group, "i-2") == {tp("t1"): 2}
    desk.ask(join("i-2", "s", "i"))
    assert desk.group.state == "PreparingRebalance"
    assert g.owned(desk.group, "i-2") == {}


def test_a_join_that_was_overtaken_takes_nothing_away() -> None:
    """The request of long ago, come late or once more, claims nothing; its member has been given a partition since."""
    desk = Desk()
    desk.enter("a", attempt=1)
    first = join("a-1", attempt=1)
    desk.ask(sync("a-1", 1, {"a-1": "t0"}))
    before = desk.group
    assert desk.error(first) == "REBALANCE_IN_PROGRESS"
    assert desk.group == before
    desk.ask(join("a-1", "a", claims="t0", attempt=2))
    desk.ask(sync("a-1", 2, {"a-1": "t0"}))
    assert desk.error(first) == "REBALANCE_IN_PROGRESS"
    assert g.owned(desk.group, "a-1") == {tp("t0"): 1}
