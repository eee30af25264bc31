"""A member's state machine: what it sends, what it takes, gives up and loses, event by event."""

from __future__ import annotations

import pytest

from sparkcohort.runtime.group import member_machine as m
from sparkcohort.runtime.group import member_state as ms
from sparkcohort.runtime.group.member_state import MemberState
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from tests.kit.member_stage import Stage, beaten, joined, sent, sent_join, stage, synced, tps


def test_a_new_member_joins_without_an_id() -> None:
    """It offers its assignors and claims nothing."""
    at = Stage()
    first = sent_join(at(ms.Start()))
    assert (first.member_id, first.protocols) == ("", ("cooperative-sticky", "range"))
    said = first.subscription
    assert (said.topics, said.owned, said.generation, said.rack) == (("t",), (), -1, "r1")


def test_a_follower_syncs_and_owns_what_it_is_assigned() -> None:
    """Each partition is owned since the generation in which it was added."""
    at = stage(MemberState.JOINING)
    assert sent(at(joined(7))) == p.SyncGroup("a-1", "a", 7)
    assert at(synced(0, 1)) == (ms.Assigned(dict.fromkeys(sorted(tps(0, 1)), 7)),)
    assert at.member.owned == dict.fromkeys(sorted(tps(0, 1)), 7)


def test_a_leader_computes_then_syncs_with_the_plan() -> None:
    """Only the leader is asked to compute; a plan of an older generation is dropped."""
    at = stage(MemberState.JOINING)
    members = (p.JoinedMember("a-1", "a", p.Subscription()),)
    reply = p.JoinGroupReply(ErrorCode.NONE, 3, "range", "a-1", "a-1", members)
    assert at(ms.Replied(reply)) == (ms.ComputeAssignment("range", members, 3),)
    assert at(ms.AssignmentComputed((("a-1", ()),), 2)) == ()
    request = sent(at(ms.AssignmentComputed((("a-1", (TopicPartition("t", 0),)),), 3)))
    assert isinstance(request, p.SyncGroup)
    assert request.assignments == (("a-1", (TopicPartition("t", 0),)),)


def test_a_rejoin_gives_nothing_up() -> None:
    """Cooperative: a member joins with all that it owns, and its generation."""
    at = stage(MemberState.STABLE)
    said = sent_join(at(ms.Pushed("b joined"))).subscription
    assert (frozenset(said.owned), said.generation) == (tps(0, 1, 2), 2)


def test_revoke_then_assign_then_rejoin() -> None:
    """What is taken away goes first; the rejoin waits until the shell has given it up, and no longer claims it."""
    at = stage(MemberState.STABLE)
    at(ms.Pushed("x"), joined(3))
    assert at(synced(0, 5)) == (ms.Revoke(tps(1, 2)), ms.Assigned({TopicPartition("t", 5): 3}))
    assert at.member.owned.keys() == tps(0, 1, 2, 5)
    said = sent_join(at(ms.RevocationDone())).subscription
    assert frozenset(said.owned) == tps(0, 5)
    assert at.member.owned == {TopicPartition("t", 0): 1, TopicPartition("t", 5): 3}


def test_while_revoking_it_does_not_rejoin() -> None:
    """Being told to rejoin, by push or heartbeat, waits for the revocation that ends in a rejoin anyway."""
    at = stage(MemberState.REVOKING)
    assert at(ms.Pushed("x")) == ()
    at.at(3_000, p.Tick())
    assert at(beaten(ErrorCode.REBALANCE_IN_PROGRESS)) == ()
    assert at.member.state is MemberState.REVOKING


LOSES: tuple[tuple[ErrorCode, str], ...] = (
    (ErrorCode.UNKNOWN_MEMBER_ID, ""),
    (ErrorCode.ILLEGAL_GENERATION, "a-1"),
)


@pytest.mark.parametrize(("error", "member_id"), LOSES)
@pytest.mark.parametrize("by", ["join", "sync", "heartbeat"])
def test_membership_lost(error: ErrorCode, member_id: str, by: str) -> None:
    """UNKNOWN_MEMBER_ID forgets the id, ILLEGAL_GENERATION keeps it; both lose every partition and join empty-handed."""
    at = stage(MemberState.STABLE)
    match by:
        case "join":
            actions = at(ms.Pushed("x"), joined(2, error=error))
        case "sync":
            actions = at(ms.Pushed("x"), joined(3), synced(error=error))
        case _:
            actions = at.at(3_000, p.Tick(), beaten(error))
    assert actions[0] == ms.PartitionsLost(tps(0, 1, 2))
    request = sent_join(actions)
    assert request.member_id == member_id
    assert request.subscription.owned == ()
    assert request.subscription.generation == -1


FATAL = (
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.INVALID_SESSION_TIMEOUT,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
)


@pytest.mark.parametrize("error", FATAL)
def test_errors_that_end_the_member(error: ErrorCode) -> None:
    """It loses what it owns, tells why, and is heard of no more."""
    at = stage(MemberState.STABLE)
    at(ms.Pushed("x"))
    reply = ms.Replied(p.JoinGroupReply(error, message="because"))
    assert at(reply) == (ms.PartitionsLost(tps(0, 1, 2)), ms.Failed(error, "because"))
    assert m.deadline(at.member) is None
    assert at(ms.Start()) == ()


def test_a_fenced_heartbeat_ends_the_member() -> None:
    """A newer process with the same instance id fences the older one for good."""
    at = stage(MemberState.STABLE)
    actions = at.at(3_000, p.Tick(), beaten(ErrorCode.FENCED_INSTANCE_ID))
    assert actions[-1] == ms.Failed(ErrorCode.FENCED_INSTANCE_ID, "")


def test_a_sync_answered_with_a_rebalance_rejoins() -> None:
    """REBALANCE_IN_PROGRESS keeps everything and joins again."""
    at = stage(MemberState.STABLE)
    actions = at(ms.Pushed("x"), joined(3), synced(error=ErrorCode.REBALANCE_IN_PROGRESS))
    assert frozenset(sent_join(actions).subscription.owned) == tps(0, 1, 2)


def test_a_join_made_void_is_repeated_after_a_while() -> None:
    """REBALANCE_IN_PROGRESS to a join: a later one of the same member took its place; no storm follows."""
    at = stage(MemberState.JOINING)
    assert at(joined(1, error=ErrorCode.REBALANCE_IN_PROGRESS)) == ()
    assert m.deadline(at.member) == 100
    assert isinstance(sent(at.at(100, p.Tick())), p.JoinGroup)


def test_told_to_rejoin_while_syncing() -> None:
    """The assignment under way is taken first, then the member rejoins."""
    at = stage(MemberState.SYNCING)
    assert at(ms.Pushed("x", 1)) == ()
    actions = at(synced(0))
    assert isinstance(actions[0], ms.Assigned)
    assert sent_join(actions).member_id == "a-1"


def test_told_to_rejoin_before_the_join_is_answered() -> None:
    """A push that overtook the answer to the join counts if it is about that generation, and not if about an older."""
    for pushed, rejoins in ((2, False), (3, True)):
        at = stage(MemberState.STABLE)
        at(ms.Pushed("x", 2))
        assert at(ms.Pushed("y", pushed)) == ()
        assert isinstance(sent(at(joined(3))), p.SyncGroup)  # first it asks what it must give up
        actions = at(synced(0, 1, 2))
        assert isinstance(sent(actions), p.JoinGroup) if rejoins else not actions


def test_a_push_for_a_generation_left_behind_is_void() -> None:
    """A push that comes late does not start another rebalance."""
    at = stage(MemberState.STABLE)
    before = at.member
    assert at(ms.Pushed("x", 1)) == ()
    assert at.member == before


def test_heartbeats_follow_their_interval() -> None:
    """One at a time, each an interval after the last answer; they begin with the join's reply."""
    at = Stage()
    at(ms.Start())
    assert m.deadline(at.member) is None
    at(joined(1))
    assert m.deadline(at.member) == 3_000
    assert at.at(2_999, p.Tick()) == ()
    assert sent(at.at(3_000, p.Tick())) == p.Heartbeat("a-1", "a", 1)
    assert at.at(6_000, p.Tick()) == ()
    at.at(6_500, beaten())
    assert m.deadline(at.member) == 9_500


def test_a_heartbeat_answered_with_a_rebalance_rejoins() -> None:
    """Without push, a heartbeat tells."""
    at = stage(MemberState.STABLE)
    assert isinstance(sent(at.at(3_000, p.Tick(), beaten(ErrorCode.REBALANCE_IN_PROGRESS))), p.JoinGroup)


def test_an_answer_to_an_earlier_heartbeat_is_void() -> None:
    """A heartbeat sent before the rejoin says nothing about the new generation."""
    at = stage(MemberState.STABLE)
    at.at(3_000, p.Tick(), ms.Pushed("x"), joined(3), synced(0, 1, 2))
    assert at(beaten(ErrorCode.ILLEGAL_GENERATION)) == ()
    assert at.member.state is MemberState.STABLE


@pytest.mark.parametrize(
    ("request_name", "state"), [("JoinGroup", MemberState.JOINING), ("SyncGroup", MemberState.SYNCING)]
)
def test_an_unanswered_request_is_repeated(request_name: str, state: MemberState) -> None:
    """Later and later, up to a second apart."""
    at = stage(state)
    waits = []
    for _ in range(6):
        at(ms.Unreachable(request_name))
        due_ms = at.member.retry_due_ms
        assert due_ms is not None
        waits.append(due_ms - at.now_ms)
        assert type(sent(at.at(due_ms, p.Tick()))).__name__ == request_name
    assert waits == [100, 200, 400, 800, 1_000, 1_000]


def test_a_coordinator_away_for_a_session_ends_the_member() -> None:
    """Counted from the first failure; what it owned is lost."""
    at = stage(MemberState.STABLE)
    assert at.at(3_000, p.Tick(), ms.Unreachable("Heartbeat")) == ()
    assert at.at(12_999, p.Tick(), ms.Unreachable("Heartbeat")) == ()
    lost, failed = at.at(13_000, ms.Unreachable("Heartbeat"))
    assert lost == ms.PartitionsLost(tps(0, 1, 2))
    assert failed == ms.Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator has not answered for 10000 ms")


def test_a_frozen_member_is_not_one_without_coordinator() -> None:
    """Thawed after ten sessions, with its last request failed, it asks again, learns the worst, and joins anew."""
    at = stage(MemberState.STABLE)
    at.at(3_000, p.Tick())
    assert at.at(100_000, ms.Unreachable("Heartbeat")) == ()
    assert sent(at.at(100_100, p.Tick())) == p.Heartbeat("a-1", "a", 2)
    assert at(beaten(ErrorCode.UNKNOWN_MEMBER_ID))[0] == ms.PartitionsLost(tps(0, 1, 2))


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR])
def test_a_coordinator_that_is_not_ready_counts_as_away(error: ErrorCode) -> None:
    """Its answers are retried for a session timeout; then the member ends."""
    at = stage(MemberState.JOINING)
    at(joined(0, error=error))
    assert m.deadline(at.member) == 100
    assert isinstance(at.at(10_000, p.Tick(), joined(0, error=error))[-1], ms.Failed)
    at = stage(MemberState.STABLE)
    assert at.at(3_000, p.Tick(), beaten(error)) == ()
    assert m.deadline(at.member) == 3_100


def test_a_commit_names_assignment_generations() -> None:
    """Only what is owned is committed, each partition under the generation since which it is owned."""
    at = stage(MemberState.STABLE)
    request = ms.commit(at.member, dict.fromkeys(tps(0, 2, 9), 50))
    assert request is not None
    assert (request.member_id, request.generation) == ("a-1", 2)
    assert request.offsets == (p.CommittedPosition("t", 0, 50, 1), p.CommittedPosition("t", 2, 50, 2))
    assert ms.commit(at.member, dict.fromkeys(tps(9), 50)) is None


@pytest.mark.parametrize("state", [MemberState.REVOKING, MemberState.STOPPING])
def test_what_is_being_given_up_is_committed_until_it_is(state: MemberState) -> None:
    """What a task has done meanwhile, the next owner begins behind."""
    at = stage(state)
    request = ms.commit(at.member, dict.fromkeys(tps(0, 1), 50))
    assert request is not None
    assert request.offsets == (p.CommittedPosition("t", 0, 50, 1), p.CommittedPosition("t", 1, 50, 1))
    at(ms.RevocationDone())
    assert ms.commit(at.member, dict.fromkeys(tps(1), 50)) is None


def test_a_commit_refused_as_unknown_asks_at_once() -> None:
    """It is only a hint, since it may be about an earlier membership: a heartbeat tells for sure."""
    at = stage(MemberState.STABLE)
    refused = p.OffsetCommitReply(((TopicPartition("t", 0), ErrorCode.UNKNOWN_MEMBER_ID),))
    assert at.at(50, ms.Replied(refused)) == ()
    assert m.deadline(at.member) == 50
    assert isinstance(sent(at(p.Tick())), p.Heartbeat)


@pytest.mark.parametrize("state", [MemberState.STABLE, MemberState.COMPUTING, MemberState.SYNCING, MemberState.JOINING])
def test_new_topics_lead_to_a_rejoin(state: MemberState) -> None:
    """At once when nothing is outstanding, else after the reply."""
    at = stage(state)
    actions = at(ms.Resubscribe(("t", "u")))
    if state is MemberState.JOINING:
        at(joined(1))
        actions = at(synced())
    elif state is MemberState.SYNCING:
        actions = at(synced(0))
    assert sent_join(actions).subscription.topics == ("t", "u")
    assert at(ms.Resubscribe(("t", "u"))) == ()


def test_stopping_gives_up_first_then_leaves() -> None:
    """Revoke everything, then LeaveGroup; heartbeats go on in between."""
    at = stage(MemberState.STABLE)
    assert at(ms.Stop("done")) == (ms.Revoke(tps(0, 1, 2)),)
    assert isinstance(sent(at.at(3_000, p.Tick())), p.Heartbeat)
    at(beaten(ErrorCode.REBALANCE_IN_PROGRESS))
    assert sent(at(ms.RevocationDone())) == p.LeaveGroup((p.LeavingMember("a-1", "a", "done"),))
    assert (at.member.state, at.member.owned) == (MemberState.LEFT, {})


def test_a_stopping_member_that_is_put_out_is_done() -> None:
    """There is nothing to finish any more, and nothing to leave."""
    at = stage(MemberState.STOPPING)
    assert at.at(3_000, p.Tick(), beaten(ErrorCode.UNKNOWN_MEMBER_ID)) == (ms.PartitionsLost(tps(0, 1)),)
    assert at.member.state is MemberState.LEFT


@pytest.mark.parametrize("joined_already", [True, False])
def test_who_leaves(joined_already: bool) -> None:
    """A member that stops leaves, with its reason (KIP-800), once it has an id; its executor is gone: no successor takes the slot."""
    at = Stage()
    at(ms.Start(), *([joined(1), synced()] if joined_already else []))
    leaving = p.LeaveGroup((p.LeavingMember("a-1", "a", "done"),))
    assert at(ms.Stop("done")) == ((ms.Send(leaving),) if joined_already else ())
    assert at.member.state is MemberState.LEFT


EVENTS: tuple[ms.MemberEvent, ...] = (
    ms.Start(),
    p.Tick(),
    ms.Pushed("x"),
    ms.Pushed("x", 1),
    ms.AssignmentComputed((), 1),
    ms.RevocationDone(),
    ms.Stop("x"),
    ms.Resubscribe(("u",)),
    *(ms.Unreachable(name) for name in ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "LeaveGroup")),
    *(
        reply(error)
        for error in ErrorCode
        for reply in (lambda e: joined(1, error=e), lambda e: synced(1, error=e), beaten)
    ),
    ms.Replied(p.OffsetCommitReply(())),
    ms.Replied(p.LeaveGroupReply(ErrorCode.NONE)),
    ms.Replied(p.OffsetFetchReply(ErrorCode.NONE)),
)


@pytest.mark.parametrize("state", list(MemberState))
def test_every_event_in_every_state(state: MemberState) -> None:
    """Every event has an outcome in every state: a later state, or nothing at all; what has ended stays ended."""
    for event in EVENTS:
        at = stage(state)
        before = at.member
        actions = at(event)
        if state in {MemberState.LEFT, MemberState.FAILED}:
            assert (at.member, actions) == (before, ())
        if at.member.state in {MemberState.JOINING, MemberState.SYNCING}:
            assert at.member.outstanding is not None
        if at.member.state in {MemberState.STABLE, MemberState.REVOKING, MemberState.COMPUTING}:
            assert at.member.heartbeat_due_ms is not None
        assert at.member.revoking <= at.member.owned.keys()
