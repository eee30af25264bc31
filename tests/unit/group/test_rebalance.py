"""The rules of joining and of time: votes, leaders, stragglers, syncs that are owed, size."""

from __future__ import annotations

import pytest

from sparkcohort.runtime.group import GroupConfig
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.reasons import requested
from tests.kit.group_desk import (
    Desk,
    beat,
    commit,
    completing,
    emptied,
    join,
    leave,
    preparing,
    stable,
    subscription,
    sync,
    tp,
)


def test_generation_starts_above_the_reserved_block() -> None:
    """The first generation follows the configured one, so that generations never go down over a restart (I4)."""
    desk = Desk(GroupConfig("billing", first_generation=3000))
    assert desk.joined(desk.enter("a")).generation == 3001


def test_only_the_end_of_a_join_phase_raises_the_generation() -> None:
    """A takeover in Stable, a repeated join, heartbeats, commits and syncs change nothing."""
    desk = stable()
    for request in (
        join(client="s", instance="i"),
        join("b-3", "b"),
        beat("b-3", 2),
        commit("b-3", 2, "t2@2=1"),
        sync("b-3", 2),
        join("b-3", "b", meta="x"),
    ):
        desk.ask(request)
        assert desk.group.generation == 2
    assert desk.group.state == "PreparingRebalance"


def test_generation_rises_when_the_group_becomes_empty() -> None:
    """Becoming Empty ends a join phase too."""
    assert emptied().group.generation == 3


def test_ids_are_numbered_and_salted() -> None:
    """A new member's id is its instance id, the run's salt, and a number."""
    desk = Desk(GroupConfig("billing", member_id_salt="run7"))
    desk.enter("a")
    desk.ask(join("", "a", "i"))
    assert desk.members() == ("a-run7-1", "i-run7-2")


def test_protocol_of_most_votes_among_those_all_support() -> None:
    """Each member votes for its first protocol that all support; most votes win."""
    desk = Desk()
    desk.enter("a", protocols=("x", "range", "coop"))
    desk.enter("b", protocols=("coop", "range"))
    last = desk.enter("c", protocols=("y", "coop", "range"))
    desk.ask(join("a-1", "a", protocols=("x", "range", "coop")))
    assert desk.joined(last).protocol_name == "coop"


def test_leader_gets_all_subscriptions_and_followers_none() -> None:
    """The first joiner leads and is sent what each member wants."""
    desk = Desk()
    desk.enter("a", meta="A")
    follower = desk.ask(join("", "s", "i", meta="S"))
    leader = desk.ask(join("a-1", "a", meta="A"))
    assert desk.joined(follower).members == ()
    assert desk.joined(leader).members == (
        p.JoinedMember("a-1", "a", subscription("A")),
        p.JoinedMember("i-2", "i", subscription("S")),
    )


def test_a_leader_that_leaves_is_replaced() -> None:
    """The first of those who remain leads."""
    desk = stable()
    desk.ask(leave("a-1"))
    assert desk.group.leader == "i-2"


def test_a_leader_that_does_not_rejoin_is_replaced() -> None:
    """At the rebalance timeout the leader is one that did rejoin; the others stay until their sessions end (KIP-345)."""
    desk = stable()
    desk.ask(join("", "s", "i"))  # takes over without a rebalance
    desk.ask(join("b-3", "b", meta="x"))
    assert set(desk.pushed()) == {"a-1", "i-4"}
    desk.now_ms = 400
    desk.keep("a-1", "i-4")
    desk.pass_to(500)
    assert desk.members() == ("a-1", "i-4", "b-3")
    assert desk.group.leader == "b-3"
    assert desk.group.state == "CompletingRebalance"


def test_a_group_of_absent_static_members_waits_for_their_sessions() -> None:
    """Kafka's testGroupStuckInRebalanceTimeoutDueToNonjoinedStaticMember: the join phase goes on until their sessions end."""
    desk = Desk()
    desk.ask(join("", "s", "i", session_timeout_ms=2_000))
    desk.ask(sync("i-1", 1, {"i-1": "t0"}, "i"))
    desk.step(p.Trigger(requested("topics changed")))
    desk.pass_to(600)
    assert desk.group.state == "PreparingRebalance"
    assert desk.members() == ("i-1",)
    desk.pass_to(2_000)
    assert (desk.group.state, desk.members()) == ("Empty", ())


def test_a_newcomer_is_not_parked_for_ever() -> None:
    """A newcomer whose join is still parked after five minutes is put out and told so."""
    desk = stable(max_session_timeout_ms=10**6)
    for member_id in ("a-1", "i-2", "b-3"):
        desk.ask(join(member_id, meta="y", session_timeout_ms=10**6, rebalance_timeout_ms=10**6))
    c = desk.enter("c", session_timeout_ms=10**6)
    desk.now_ms = 299_999
    desk.pass_to(300_000)
    assert desk.joined(c).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert "c-4" not in desk.members()


def test_a_parked_member_needs_no_heartbeat() -> None:
    """Whoever waits in a join or sync does not expire; its session begins anew with the answer."""
    desk = stable()
    desk.ask(join("b-3", "b", meta="x", rebalance_timeout_ms=5_000))
    desk.now_ms = 400
    desk.keep("a-1", "i-2")
    desk.pass_to(800)
    desk.keep("a-1", "i-2")
    assert "b-3" in desk.members()
    desk.ask(join("a-1", "a"))
    desk.ask(join("i-2", "s", "i"))
    desk.pass_to(1_299)
    assert "b-3" in desk.members()
    desk.pass_to(1_300)
    assert "b-3" not in desk.members()


def test_a_member_that_rejoins_instead_of_waiting_for_its_sync_is_parked() -> None:
    """Its join answers its sync, and does not begin a session: it waits for the others, however long that takes."""
    desk = completing()
    parked = desk.ask(sync("b-3", 2))
    desk.ask(join("b-3", "b", meta="x", rebalance_timeout_ms=5_000))
    assert desk.synced(parked).error is ErrorCode.REBALANCE_IN_PROGRESS
    desk.now_ms = 400
    desk.keep("a-1", "i-2")
    desk.pass_to(800)
    assert "b-3" in desk.members()


def test_sessions_expire_and_heartbeats_renew_them() -> None:
    """A member is put out a session timeout after its last sign of life, which starts a rebalance."""
    desk = stable()
    desk.now_ms = 300
    desk.keep("a-1", "i-2")
    desk.pass_to(499)
    assert len(desk.members()) == 3
    desk.pass_to(500)
    assert desk.members() == ("a-1", "i-2")
    assert desk.removed() == ("b-3",)
    assert desk.pushed() == ("a-1", "i-2")


def test_heartbeats_count_in_the_join_phase() -> None:
    """In PreparingRebalance a heartbeat is answered REBALANCE_IN_PROGRESS and renews the session."""
    desk = preparing()
    desk.now_ms = 300
    assert desk.error(beat("a-1", 2)) == "REBALANCE_IN_PROGRESS"
    assert desk.group.sessions["a-1"] == 800


def test_members_that_do_not_sync_are_put_out() -> None:
    """KAFKA-12890: whoever has not synced within the rebalance timeout is removed, the leader too, and a rebalance starts."""
    desk = completing()
    synced = desk.ask(sync("b-3", 2))
    desk.now_ms = 400
    desk.keep("a-1", "i-2")
    desk.pass_to(500)
    assert desk.removed() == ("a-1", "i-2")
    assert desk.synced(synced).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert (desk.group.state, desk.group.leader) == ("PreparingRebalance", "b-3")


def test_late_syncs_are_owed_in_a_stable_group_too() -> None:
    """A follower that never asks for its assignment is put out of a stable group."""
    desk = completing()
    desk.ask(sync("b-3", 2))
    desk.ask(sync("a-1", 2, {"a-1": "t0"}))
    assert desk.group.state == "Stable"
    desk.now_ms = 400
    desk.keep("a-1", "i-2", "b-3")
    desk.pass_to(500)
    assert desk.removed() == ("i-2",)
    assert desk.group.state == "PreparingRebalance"


def test_the_plan_reaches_everyone() -> None:
    """The leader's sync answers all parked ones; whoever it leaves out gets an empty one; unknown members are dropped."""
    desk = completing()
    follower = desk.ask(sync("b-3", 2))
    leader = desk.ask(sync("a-1", 2, {"a-1": "t0", "x-9": "t1"}))
    assert desk.synced(leader).assignment == (tp("t0"),)
    assert desk.synced(follower).assignment == ()
    assert desk.synced(desk.ask(sync("i-2", 2, instance="i"))).assignment == ()
    assert set(desk.group.assignments) == {"a-1", "i-2", "b-3"}


def test_a_rebalance_before_the_plan_voids_parked_syncs() -> None:
    """A join in CompletingRebalance answers parked syncs REBALANCE_IN_PROGRESS and clears assignments."""
    desk = preparing()
    desk.ask(join("a-1", "a", claims="t0"))
    assert set(desk.group.assignments) == {"a-1", "i-2", "b-3"}
    follower = desk.ask(sync("b-3", 3))
    desk.enter("c")
    assert desk.synced(follower).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.pushed() == ("a-1", "i-2")
    assert desk.group.assignments == {}


def test_a_static_member_takes_its_slot_in_a_full_join_phase() -> None:
    """Its predecessor waits in its join, so the group doesn't grow."""
    desk = stable(max_size=3)
    desk.step(p.Trigger(requested("x")))
    old = desk.ask(join("i-2", "s", "i"))
    desk.ask(join("a-1", "a"))
    again = desk.ask(join(client="s", instance="i"))
    assert desk.joined(old).error is ErrorCode.FENCED_INSTANCE_ID
    desk.ask(join("b-3", "b"))
    assert desk.joined(again).error is ErrorCode.NONE
    assert len(desk.members()) == 3


def test_reasons_are_cut() -> None:
    """KIP-800: 255 characters of a join's reason are kept, as of a leave's."""
    desk = stable()
    desk.ask(join("b-3", "b", meta="x", reason="y" * 300))
    assert desk.group.rebalance is not None
    assert str(desk.group.rebalance.reason) == "b-3 rejoined: " + "y" * 255


@pytest.mark.parametrize("make", [preparing, completing])
def test_a_repeated_request_voids_the_earlier_one(make: object) -> None:
    """A member that asks again, its connection being gone, leaves no request unanswered."""
    desk = preparing() if make is preparing else completing()
    again = join("b-3", "b", claims="t2") if make is preparing else sync("b-3", 2)
    first = desk.group.joins["b-3"] if make is preparing else desk.ask(again)
    second = desk.ask(again)
    reply = desk.replies[first]
    assert isinstance(reply, p.JoinGroupReply | p.SyncGroupReply)
    assert reply.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second not in desk.replies


def test_a_batch_leaves_with_one_rebalance() -> None:
    """KIP-345: each member of a batch has its own answer, and there is one rebalance for all."""
    desk = stable()
    reply = desk.tell(
        p.LeaveGroup((p.LeavingMember("b-3", "b", "x" * 300), p.LeavingMember("x-9", "x"), p.LeavingMember("i-2", "i")))
    )
    assert isinstance(reply, p.LeaveGroupReply)
    assert [error.name for _m, error in reply.members] == ["NONE", "UNKNOWN_MEMBER_ID", "NONE"]
    assert desk.removed() == ("b-3", "i-2")
    assert desk.pushed() == ("a-1",)
    assert next(a.reason for a in desk.actions if isinstance(a, p.Removed)) == "it left: " + "x" * 255


def test_a_leave_may_end_the_join_phase() -> None:
    """When the only one missing leaves, the others' joins are answered."""
    desk = preparing()
    desk.ask(leave("a-1"))
    assert (desk.group.state, desk.group.leader) == ("CompletingRebalance", "i-2")


def test_a_full_stable_group_refuses_newcomers_but_not_its_own() -> None:
    """Size counts newcomers; members rejoin, and a static member's slot can be taken over."""
    desk = stable(max_size=3)
    assert desk.error(join(client="c")) == "GROUP_MAX_SIZE_REACHED"
    assert desk.error(join(client="s", instance="i")) == "NONE"
    assert desk.ask(join("b-3", "b", meta="x")) in desk.group.joins.values()


def test_the_one_too_many_is_put_out() -> None:
    """A member that comes last to a join phase in which newcomers took all places is refused and removed."""
    desk = stable(max_size=3)
    desk.step(p.Trigger(requested("x")))
    joins = [desk.enter("c"), desk.enter("d"), desk.enter("e")]
    assert desk.error(join("b-3", "b")) == "GROUP_MAX_SIZE_REACHED"
    assert "b-3" not in desk.members()
    assert not set(joins) & desk.replies.keys()


def test_rebalanced_tells_why_who_what_and_how_long() -> None:
    """The action that ends a rebalance has its first reason, its members, and what each owned before and owns after."""
    desk = stable()
    desk.now_ms = 100
    desk.ask(leave("b-3"))
    desk.ask(join("a-1", "a", claims="t0"))
    desk.now_ms = 130
    desk.ask(join("i-2", "s", "i", claims="t1"))
    desk.ask(sync("a-1", 3, {"a-1": "t0,t2", "i-2": "t1"}))
    (done,) = [a for a in desk.actions if isinstance(a, p.Rebalanced)]
    assert (str(done.reason), done.started_ms, done.ended_ms) == ("b-3 left", 100, 130)
    assert {m: [n for _t, n in tps] for m, tps in done.previous_assignment.items()} == {
        "a-1": [0],
        "i-2": [1],
        "b-3": [2],
    }
    assert {m: [n for _t, n in tps] for m, tps in done.assignment.items()} == {"a-1": [0, 2], "i-2": [1]}


def test_a_sync_that_the_next_join_phase_overtook_is_answered() -> None:
    """a's sync comes when b has rejoined: it gets its stored assignment and is told to rejoin, instead of claiming all again."""
    desk = completing()
    desk.ask(sync("a-1", 2, {"a-1": "t0", "i-2": "t1", "b-3": "t2"}))
    desk.ask(join("b-3", "b", meta="new", claims=""))
    late = desk.ask(sync("i-2", 2, instance="i"))

    assert desk.synced(late).assignment == (tp("t1"),)
    assert "i-2" in desk.pushed()


def test_a_sync_after_its_members_own_join_is_not() -> None:
    """Who waits in its join already has no use for the assignment of the generation before."""
    desk = preparing()

    assert desk.error(sync("b-3", 2)) == "REBALANCE_IN_PROGRESS"
