"""SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetFetch: a function for each effect."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sparkcohort.runtime.group import offsets, partition_ownership, rebalance
from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.group.fencing import PASS, gate
from sparkcohort.runtime.group.table import GroupState, Input
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.reasons import NO_REASON, REASON_LENGTH, Cause, Reason

if TYPE_CHECKING:
    from sparkcohort.runtime.group.context import StepContext
    from sparkcohort.runtime.group.state import Group


def park_sync(context: StepContext, correlation: int, request: p.SyncGroup) -> None:
    """A follower waits for the leader's assignment; an earlier sync of it is void."""
    if (earlier := context.group.syncs.get(request.member_id)) is not None:
        context.answer(earlier, p.SyncGroupReply(ErrorCode.REBALANCE_IN_PROGRESS, message="it synced again"))
    context.record(r.SyncParked(request.member_id, correlation))


def store_assignment(context: StepContext, correlation: int, request: p.SyncGroup) -> None:
    """The leader's assignment comes into force: parked syncs are answered, the rebalance is over."""
    park_sync(context, correlation, request)
    assignments = dict(request.assignments)
    context.record(r.AssignmentStored(tuple((m, assignments.get(m, ())) for m in context.group.members)))
    partition_ownership.assign(context, *context.group.members)
    rebalance.answer_syncs(context, ErrorCode.NONE)
    _end_rebalance(context)


def _end_rebalance(context: StepContext) -> None:
    group, phase = context.group, context.group.rebalance
    old_owned, new_owned = group.previous_assignment, partition_ownership.holdings(group)
    context.record(r.RebalanceEnded(tuple(new_owned.items())))
    context.actions.append(
        p.Rebalanced(
            group.generation,
            phase.reason if phase else NO_REASON,
            phase.started_ms if phase else context.now_ms,
            context.now_ms,
            group.protocol_name,
            tuple(group.members),
            old_owned,
            new_owned,
        )
    )


def classify_sync(group: Group, member_id: str) -> Input:
    """Whether a follower's sync is one that the next join phase has overtaken, with an assignment there to give.

    What is stored is this generation's: a phase that interrupts a generation before it was stable clears it.
    """
    overtaken = group.state is GroupState.PREPARING_REBALANCE and member_id not in group.joins
    return Input.SYNC_LATE if overtaken and member_id in group.assignments else Input.SYNC


def answer_sync(context: StepContext, correlation: int, request: p.SyncGroup) -> None:
    """A late follower gets its stored assignment."""
    context.record(r.SyncsAnswered((request.member_id,), context.now_ms))
    context.answer(correlation, rebalance.sync_reply(context.group, request.member_id))


def answer_late_sync(context: StepContext, correlation: int, request: p.SyncGroup) -> None:
    """A follower that the next join phase has overtaken gets its assignment, and one more push to rejoin."""
    answer_sync(context, correlation, request)
    reason = str(context.group.rebalance.reason) if context.group.rebalance else ""
    context.actions.append(p.PushRejoin(request.member_id, reason, context.group.generation))


def heartbeat(context: StepContext, correlation: int, request: p.Heartbeat, error: ErrorCode) -> None:
    """A sign of life; during the join phase the answer says to rejoin."""
    _renew_session(context, request.member_id)
    context.answer(correlation, p.HeartbeatReply(error))


def _renew_session(context: StepContext, member_id: str) -> None:
    if member_id not in context.group.joins and member_id not in context.group.syncs:  # parked is alive
        context.record(r.SessionRenewed(member_id, context.now_ms))


def leave(context: StepContext, correlation: int, request: p.LeaveGroup) -> None:
    """Take out each member named, then rebalance once (KIP-345)."""
    members_before = context.group.members
    outcome = tuple((leaving, _leave(context, request, leaving)) for leaving in request.members)
    context.answer(correlation, p.LeaveGroupReply(ErrorCode.NONE, outcome))
    if context.group.members is not members_before:
        left_ids = tuple(m for m in members_before if m not in context.group.members)
        rebalance.on_internal_event(context, Input.MEMBERS_GONE, Reason(Cause.MEMBERS_LEFT, left_ids))


def _leave(context: StepContext, request: p.LeaveGroup, leaving: p.LeavingMember) -> ErrorCode:
    member_id = leaving.member_id
    verdict = gate(context.group, leaving.group_instance_id, member_id, None)
    if verdict is not PASS:
        context.count_refusal(request, verdict.error, member_id=member_id)
        return verdict.error
    reason = leaving.reason[:REASON_LENGTH]
    rebalance.remove(context, member_id, f"it left: {reason}" if reason else "it left")
    return ErrorCode.NONE


def commit(context: StepContext, correlation: int, request: p.OffsetCommit) -> None:
    """Judge each partition; one that is accepted is a sign of life as well."""
    judged = offsets.judge(context.group, request)
    positions = offsets.accepted(request, judged, context.now_ms)
    if positions:
        context.record(r.OffsetsCommitted(positions))
        _renew_session(context, request.member_id)
    reply = p.OffsetCommitReply(tuple((tp, error) for tp, error, _reason in judged), offsets.explain(judged))
    context.answer(correlation, reply)
    refused = Counter(error for _tp, error, _reason in judged if error is not ErrorCode.NONE)
    for error, partitions in refused.items():
        context.count_refusal(request, error, partitions)


def fetch(context: StepContext, correlation: int, request: p.OffsetFetch) -> None:
    """Committed offsets, whatever the state."""
    committed = offsets.fetch(context.group.committed, request.partitions)
    context.answer(correlation, p.OffsetFetchReply(ErrorCode.NONE, committed))
