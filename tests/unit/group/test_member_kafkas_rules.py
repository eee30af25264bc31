"""Kafka's rules for clients of the classic protocol, one test for each (AbstractCoordinator, ConsumerCoordinator)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sparkcohort.runtime.group import member_machine as m
from sparkcohort.runtime.group import member_state as ms
from sparkcohort.runtime.group.member_state import MemberState, timeout_ms
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from tests.kit.member_stage import (
    CONFIG,
    Stage,
    beaten,
    joined,
    sent,
    sent_join,
    stage,
    synced,
    tps,
)


def said(actions: tuple[ms.MemberAction, ...]) -> tuple[str, frozenset[TopicPartition], int]:
    """What a join says: id, claims, and the generation of the claims."""
    request = sent_join(actions)
    return request.member_id, frozenset(request.subscription.owned), request.subscription.generation


def at_every_request(
    error: ErrorCode, config: ms.MemberConfig = CONFIG
) -> list[tuple[Stage, tuple[ms.MemberAction, ...]]]:
    """A member of generation 2 or 3 that owns three partitions, after its join, sync or heartbeat was answered so."""
    by_join, by_sync, by_beat = (stage(MemberState.STABLE, config) for _ in range(3))
    return [
        (by_join, by_join(ms.Pushed("x"), joined(2, error=error))),
        (by_sync, by_sync(ms.Pushed("x"), joined(3), synced(error=error))),
        (by_beat, by_beat.at(3_000, p.Tick(), beaten(error))),
    ]


def test_unknown_member_id_resets_id_and_generation() -> None:
    """Join, sync and heartbeat alike: it joins as a stranger that owns nothing."""
    for at, actions in at_every_request(ErrorCode.UNKNOWN_MEMBER_ID):
        assert said(actions) == ("", frozenset(), -1)
        assert (at.member.member_id, at.member.generation, dict(at.member.owned)) == ("", -1, {})


def test_illegal_generation_keeps_the_id() -> None:
    """It joins as itself, without claims: somebody else may have had the partitions since."""
    for at, actions in at_every_request(ErrorCode.ILLEGAL_GENERATION):
        assert said(actions) == ("a-1", frozenset(), -1)
        assert (at.member.member_id, at.member.generation) == ("a-1", -1)


def test_rebalance_in_progress_keeps_id_and_partitions() -> None:
    """The reply of a sync or heartbeat: it rejoins with all that it owns, in its generation."""
    by_sync = stage(MemberState.STABLE)
    actions = by_sync(ms.Pushed("x"), joined(3), synced(error=ErrorCode.REBALANCE_IN_PROGRESS))
    assert said(actions) == ("a-1", tps(0, 1, 2), 3)
    by_beat = stage(MemberState.STABLE)
    assert said(by_beat.at(3_000, p.Tick(), beaten(ErrorCode.REBALANCE_IN_PROGRESS))) == ("a-1", tps(0, 1, 2), 2)


def test_fenced_instance_id_is_fatal() -> None:
    """Another process has the place: it loses everything, says why, and never asks again."""
    for at, actions in at_every_request(ErrorCode.FENCED_INSTANCE_ID):
        assert actions == (ms.PartitionsLost(tps(0, 1, 2)), ms.Failed(ErrorCode.FENCED_INSTANCE_ID, ""))
        assert m.deadline(at.member) is None
        assert at(ms.Start(), ms.Pushed("x")) == ()


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_an_error_is_ignored_when_the_generation_changed_since_the_heartbeat_was_sent(error: ErrorCode) -> None:
    """The answer to a heartbeat of the last generation, after one of this generation was sent, is about the last."""
    at = stage(MemberState.STABLE)
    last = sent(at.at(3_000, p.Tick()))
    at(ms.Pushed("x"), joined(3), synced(0, 1, 2))
    this = sent(at.at(6_000, p.Tick()))
    before = at.member
    assert at(ms.Replied(p.HeartbeatReply(error), last)) == ()
    assert at.member == before
    assert at(ms.Replied(p.HeartbeatReply(error), this))[0] == ms.PartitionsLost(tps(0, 1, 2))


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.NONE])
def test_an_answer_is_ignored_when_the_generation_changed_since_the_sync_was_sent(error: ErrorCode) -> None:
    """A sync that the loss of membership overtook: neither its error nor its assignment is the new membership's."""
    at = stage(MemberState.STABLE)
    at(ms.Pushed("x"))
    last = sent(at(joined(3)))
    at.at(3_000, p.Tick(), beaten(ErrorCode.UNKNOWN_MEMBER_ID))
    this = sent(at(joined(4)))
    before = at.member
    old = replace(synced(0, 1, 2, error=error), request=last)
    assert at(old) == ()
    assert at.member == before
    assert at(replace(synced(5), request=this)) == (ms.Assigned({TopicPartition("t", 5): 4}),)


def test_revoke_then_assign_then_rejoin() -> None:
    """On the new assignment: what is lost to others goes first, what is new comes next, the rejoin is last of all."""
    at = stage(MemberState.STABLE)
    at(ms.Pushed("x"), joined(3))
    assert at(synced(0, 5)) == (ms.Revoke(tps(1, 2)), ms.Assigned({TopicPartition("t", 5): 3}))
    assert said(at(ms.RevocationDone())) == ("a-1", tps(0, 5), 3)


def test_no_rejoin_where_nothing_was_revoked() -> None:
    """A member that only got more has nothing to tell."""
    at = stage(MemberState.STABLE)
    at(ms.Pushed("x"), joined(3))
    assert at(synced(0, 1, 2, 5)) == (ms.Assigned({TopicPartition("t", 5): 3}),)
    assert at.member.state is MemberState.STABLE


def test_only_new_partitions_are_assigned() -> None:
    """What stays is neither revoked nor assigned again, and keeps its generation."""
    at = stage(MemberState.STABLE)
    at(ms.Pushed("x"), joined(3))
    assert at(synced(0, 1, 2)) == ()
    assert at.member.owned == {TopicPartition("t", 0): 1, TopicPartition("t", 1): 1, TopicPartition("t", 2): 2}


@pytest.mark.parametrize(
    "error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID]
)
def test_lost_is_not_revoked(error: ErrorCode) -> None:
    """A member out of the group gives nothing up: there is nobody to commit to, and the partitions may be taken."""
    for _at, actions in at_every_request(error):
        assert ms.PartitionsLost(tps(0, 1, 2)) in actions
        assert not [action for action in actions if isinstance(action, ms.Revoke)]


def test_lost_in_the_middle_of_a_revocation() -> None:
    """The end of a revocation that the loss overtook means nothing any more."""
    at = stage(MemberState.REVOKING)
    assert at.at(3_000, p.Tick(), beaten(ErrorCode.UNKNOWN_MEMBER_ID))[0] == ms.PartitionsLost(tps(0, 1))
    before = at.member
    assert at(ms.RevocationDone()) == ()
    assert at.member == before


def test_a_cooperative_member_joins_with_all_that_it_owns() -> None:
    """And keeps it while the others join."""
    at = stage(MemberState.STABLE)
    assert said(at(ms.Pushed("x"))) == ("a-1", tps(0, 1, 2), 2)
    assert at.member.owned.keys() == tps(0, 1, 2)


def test_topics_no_longer_subscribed_to_are_revoked_before_the_join() -> None:
    """The one exception of the cooperative way: so the partitions are free in this round, not in the next."""
    at = stage(MemberState.STABLE)
    assert at(ms.Resubscribe(("u",))) == (ms.Revoke(tps(0, 1, 2)),)
    assert m.deadline(at.member) is not None
    actions = at(ms.RevocationDone())
    assert (said(actions), sent_join(actions).reason) == (("a-1", frozenset(), 2), "topics changed")


def test_topics_dropped_while_a_join_is_repeated() -> None:
    """Heartbeats go on while the shell gives up: a slow one must not cost the membership."""
    at = stage(MemberState.STABLE)
    lost = sent(at(ms.Pushed("x")))
    at(ms.Unreachable("JoinGroup"), ms.Resubscribe(("u",)))
    assert at.at(100, p.Tick()) == (ms.Revoke(tps(0, 1, 2)),)
    assert isinstance(sent(at(p.Tick())), p.Heartbeat)
    assert at(replace(joined(3), request=lost)) == ()
    assert said(at(ms.RevocationDone())) == ("a-1", frozenset(), 2)


def test_claims_carry_the_generation_in_which_they_were_true() -> None:
    """KIP-792: so the leader can tell which of two claims is the older; one that missed a generation claims nothing."""
    at = stage(MemberState.STABLE)
    assert said(at(ms.Pushed("x")))[2] == 2
    assert said(at(joined(9), synced(0, error=ErrorCode.REBALANCE_IN_PROGRESS)))[2] == 9
    assert said(at(joined(10, error=ErrorCode.ILLEGAL_GENERATION)))[2] == -1


def test_a_join_waits_for_the_rebalance_timeout_and_five_seconds() -> None:
    """Parked requests outlast the join phase; others are answered at once, or a third of the session is enough."""
    waits = {
        type(request).__name__: timeout_ms(CONFIG, request)
        for request in (
            sent(stage(MemberState.UNJOINED)(ms.Start())),
            sent(stage(MemberState.JOINING)(joined(1))),
            p.Heartbeat("a-1", "a", 1),
            p.LeaveGroup(()),
        )
    }
    assert waits == {"JoinGroup": 65_000, "SyncGroup": 65_000, "Heartbeat": 3_333, "LeaveGroup": 3_333}


def test_heartbeats_start_when_the_join_is_answered() -> None:
    """Before the sync, and not a moment earlier; they stop while it waits in a join, where it counts as alive."""
    at = Stage()
    at(ms.Start())
    assert m.deadline(at.member) is None
    at.at(500, joined(1))
    assert (at.member.state, m.deadline(at.member)) == (MemberState.SYNCING, 3_500)
    at(synced(0), ms.Pushed("x"))
    assert m.deadline(at.member) is None


def test_a_static_member_in_its_old_place_takes_the_assignment_of_the_current_generation() -> None:
    """KIP-345: answered with the generation that is, it syncs, and owns what its predecessor was assigned, since now."""
    at = stage(MemberState.UNJOINED)
    join = sent_join(at(ms.Start()))
    assert (join.member_id, join.group_instance_id) == ("", "a")
    assert sent(at(joined(7))) == p.SyncGroup("a-1", "a", 7)
    assert at(synced(0, 1)) == (ms.Assigned(dict.fromkeys(sorted(tps(0, 1)), 7)),)
    assert at.member.state is MemberState.STABLE
    request = ms.commit(at.member, dict.fromkeys(tps(0), 50))
    assert request is not None
    assert (request.group_instance_id, request.offsets[0].assignment_generation) == ("a", 7)
