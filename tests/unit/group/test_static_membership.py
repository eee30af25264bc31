"""Static membership (KIP-345): a member that comes back without its id takes its slot, the old one is fenced."""

from __future__ import annotations

from sparkcohort.runtime import group as g
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from tests.kit.group_desk import Desk, beat, commit, completing, join, leave, stable, sync, tp


def test_takeover_in_a_stable_group_moves_nothing() -> None:
    """The new process gets the old one's assignment in the current generation, and nobody else notices."""
    desk = stable()
    reply = desk.joined(desk.ask(join("", "s", "i")))
    assert (reply.error, reply.member_id, reply.generation) == (ErrorCode.NONE, "i-4", 2)
    assert (desk.group.state, desk.group.generation, desk.pushed()) == ("Stable", 2, ())
    assert desk.removed() == ("i-2",)
    assert desk.synced(desk.ask(sync("i-4", 2, instance="i"))).assignment == (tp("t1"),)
    assert g.owned(desk.group, "i-4") == {tp("t1"): 2}
    assert desk.members() == ("a-1", "i-4", "b-3")


def test_the_old_incarnation_is_fenced() -> None:
    """Heartbeats, syncs, joins and commits of the old id are answered FENCED_INSTANCE_ID."""
    desk = stable()
    desk.ask(join("", "s", "i"))
    assert desk.error(beat("i-2", 2, "i")) == "FENCED_INSTANCE_ID"
    assert desk.error(sync("i-2", 2, instance="i")) == "FENCED_INSTANCE_ID"
    assert desk.error(join("i-2", "s", "i")) == "FENCED_INSTANCE_ID"
    assert desk.error(commit("i-2", 2, "t1@2=5", instance="i")) == "FENCED_INSTANCE_ID"
    assert desk.error(commit("i-4", 2, "t1@2=5", instance="i")) == "NONE"


def test_takeover_that_would_change_the_protocol_rebalances() -> None:
    """When the protocol chosen would be another, the members have to agree anew."""
    desk = stable()
    for member_id in ("a-1", "i-2", "b-3"):
        desk.ask(join(member_id, protocols=("coop", "range")))
    desk.ask(sync("a-1", 3))
    new = desk.ask(join("", "s", "i", protocols=("range",)))
    assert (desk.group.state, desk.group.generation, desk.group.protocol_name) == ("PreparingRebalance", 3, "coop")
    assert (desk.removed(), desk.pushed(), dict(desk.group.joins)) == (("i-2",), ("a-1", "b-3"), {"i-4": new})
    desk.ask(join("a-1", "a", protocols=("coop", "range")))
    desk.ask(join("b-3", "b", protocols=("coop", "range")))
    assert (desk.group.state, desk.group.protocol_name) == ("CompletingRebalance", "range")
    assert (desk.joined(new).error, desk.joined(new).generation, desk.joined(new).protocol_name) == (
        ErrorCode.NONE,
        4,
        "range",
    )


def led_by_a_static_member() -> Desk:
    """The join phase after a-1 left: i-2 (instance i) leads and waits in its join, b-3 is yet to come."""
    desk = stable()
    desk.ask(leave("a-1"))
    desk.ask(join("i-2", "s", "i", claims="t1"))
    assert (desk.group.state, desk.group.leader) == ("PreparingRebalance", "i-2")
    return desk


def test_takeover_of_the_leader_in_the_join_phase() -> None:
    """The old leader's join is fenced; the new process leads the next generation, and there is something to compute."""
    desk = led_by_a_static_member()
    old = desk.group.joins["i-2"]
    new = desk.ask(join("", "s", "i"))
    assert desk.joined(old).error is ErrorCode.FENCED_INSTANCE_ID
    assert (desk.group.state, desk.group.leader, desk.pushed()) == ("PreparingRebalance", "i-4", ())
    desk.ask(join("b-3", "b", claims="t2"))
    reply = desk.joined(new)
    assert (reply.error, reply.generation, reply.leader) == (ErrorCode.NONE, 3, "i-4")
    assert [m.member_id for m in reply.members] == ["i-4", "b-3"]


def test_takeover_of_the_leader_while_its_plan_is_awaited() -> None:
    """Nobody waits for a plan that never comes: followers are told to rejoin, and the new process leads."""
    desk = led_by_a_static_member()
    desk.ask(join("b-3", "b", claims="t2"))
    waiting = desk.ask(sync("b-3", 3))
    new = desk.ask(join("", "s", "i"))
    assert desk.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert (desk.group.state, desk.group.leader, desk.removed()) == ("PreparingRebalance", "i-4", ("i-2",))
    assert desk.error(sync("i-2", 3, {"i-2": "t1", "b-3": "t2"}, "i")) == "FENCED_INSTANCE_ID"
    desk.ask(join("b-3", "b", claims="t2"))
    reply = desk.joined(new)
    assert (reply.error, reply.generation, reply.leader) == (ErrorCode.NONE, 4, "i-4")
    assert [m.member_id for m in reply.members] == ["i-4", "b-3"]


def test_takeover_while_a_plan_is_awaited_rebalances() -> None:
    """The old process's sync is answered FENCED_INSTANCE_ID, and a rebalance starts whatever its metadata."""
    desk = completing()
    old = desk.ask(sync("i-2", 2, instance="i"))
    desk.ask(join("", "s", "i"))
    assert desk.synced(old).error is ErrorCode.FENCED_INSTANCE_ID
    assert desk.group.state == "PreparingRebalance"
    assert set(desk.pushed()) == {"a-1", "b-3"}
