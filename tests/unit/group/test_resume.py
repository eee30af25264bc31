"""A new coordinator run goes on with its predecessor's journal: nobody loses anything, generations go on above."""

from __future__ import annotations

import pytest

from sparkcohort.runtime import group as g
from sparkcohort.runtime.protocol import messages as p
from tests.kit.group_desk import DESKS, Desk, beat, commit, completing, join, stable, sync, tp

RESUME = p.Resume(1000, "run2")


def resumed(desk: Desk) -> Desk:
    """The desk after a restart of its coordinator."""
    desk.now_ms += 10_000_000  # another process, another clock: no deadline of the old one means anything
    desk.step(RESUME)
    return desk


@pytest.mark.parametrize("state", DESKS)
def test_in_every_state(state: str) -> None:
    """Owners stay owners, nobody waits for the old run, all have a fresh session, and the next generation is higher."""
    desk = DESKS[state]()
    before = desk.group
    after = resumed(desk).group
    assert after.state is (g.GroupState.PREPARING_REBALANCE if before.members else g.GroupState.EMPTY)
    assert (after.owned, after.committed, after.members) == (before.owned, before.committed, before.members)
    assert not after.joins
    assert not after.syncs
    assert desk.pushed() == tuple(before.members)
    assert set(after.sessions.values()) == ({desk.now_ms + 500} if before.members else set())
    if before.members:
        for member_id in before.members:
            desk.ask(join(member_id))
    else:
        desk.enter("a")
    assert desk.group.generation == 1001


def test_owners_commit_all_along() -> None:
    """A restart fences nobody who owns: its commits are accepted before it has rejoined."""
    desk = resumed(stable())
    assert desk.error(commit("b-3", 2, "t2@2=5")) == "NONE"
    assert desk.group.committed[tp("t2")].offset == 5


def test_a_rejoin_is_what_heartbeats_ask_for() -> None:
    """A heartbeat under the generation that the journal knew is answered with a rebalance."""
    assert resumed(stable()).error(beat("b-3", 2)) == "REBALANCE_IN_PROGRESS"


def test_an_assignment_that_was_not_stored_is_not_given() -> None:
    """Before the leader's sync there is nothing to give, even if the generation before had something."""
    assert resumed(completing()).error(sync("b-3", 2)) == "REBALANCE_IN_PROGRESS"


def test_ids_are_of_the_new_run() -> None:
    """A newcomer's id has the new run's salt."""
    desk = resumed(stable())
    desk.enter("c")
    assert "c-run2-4" in desk.members()
