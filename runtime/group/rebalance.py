"""A rebalance from its start to the new generation, and everything that ends a membership.

Most functions here are the effect of an input from inside the group (see ``table``), which goes through ``on_internal_event``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.group.state import JoinPhase
from sparkcohort.runtime.group.table import TABLE, Effect, GroupState, Input
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.reasons import NO_REASON, Cause, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sparkcohort.runtime.group.context import StepContext
    from sparkcohort.runtime.group.state import Group


def on_internal_event(context: StepContext, met: Input, reason: Reason = NO_REASON) -> None:
    """Something happened inside the group; the table says what follows."""
    _EFFECTS[TABLE[context.group.state][met].effect](context, reason)


def start(context: StepContext, reason: Reason) -> None:
    """Begin the join phase: answer parked syncs with an error, and tell every other member that isn't joining to rejoin."""
    answered_ids = set(context.group.syncs)
    answer_syncs(context, ErrorCode.REBALANCE_IN_PROGRESS)
    context.record(r.RebalanceStarted(_phase(context.group, reason, context.now_ms)))
    group, words = context.group, str(reason)
    context.actions += [
        p.PushRejoin(member_id, words, group.generation)
        for member_id in group.members
        if member_id not in group.joins and member_id not in answered_ids
    ]
    check_joined(context)


def _phase(group: Group, reason: Reason, now_ms: int) -> JoinPhase:
    under_way = group.rebalance  # a rebalance restarted before its end keeps its first reason and start
    reason, started_ms = (under_way.reason, under_way.started_ms) if under_way else (reason, now_ms)
    timeout_ms = 0 if group.state is GroupState.EMPTY else rebalance_timeout_ms(group)
    return JoinPhase(reason, started_ms, now_ms + timeout_ms)


def rebalance_timeout_ms(group: Group) -> int:
    """How long members may take to rejoin: the longest that any of them asks for."""
    return max((m.rebalance_timeout_ms for m in group.members.values()), default=0)


def check_joined(context: StepContext, _reason: Reason = NO_REASON) -> None:
    """End the join phase if its time is up, or every member waits in its join."""
    group, phase = context.group, context.group.rebalance
    if group.state is not GroupState.PREPARING_REBALANCE or phase is None:
        return
    if len(group.joins) < len(group.members) and context.now_ms < phase.deadline_ms:
        return
    if not group.members:
        on_internal_event(context, Input.NONE_LEFT)
    elif group.joins:  # KIP-345: an absent member keeps its slot until its session ends
        on_internal_event(context, Input.ALL_JOINED)


def _empty_out(context: StepContext, _reason: Reason) -> None:
    context.record(r.Emptied(_next_generation(context.group)))


def _complete_join(context: StepContext, _reason: Reason) -> None:
    """Elect a leader, choose the protocol, raise the generation, answer all joins; from now on each member owes a sync."""
    group = context.group
    leader = group.leader if group.leader in group.joins else next(m for m in group.members if m in group.joins)
    sync_deadline_ms = context.now_ms + rebalance_timeout_ms(group)
    context.record(r.GenerationStarted(_next_generation(group), choose_protocol(group), leader, sync_deadline_ms))
    parked = context.group.joins
    context.record(r.JoinsAnswered(tuple(parked), context.now_ms))
    for member_id, correlation in parked.items():
        context.answer(correlation, join_reply(context.group, member_id))


def _next_generation(group: Group) -> int:
    """Above every earlier generation, and above the block that an earlier run of the coordinator may have used."""
    return max(group.generation, group.config.first_generation) + 1


def resume(context: StepContext, first_generation: int, member_id_salt: str) -> None:
    """Take a journal's group over: owners stay owners, all members rejoin, requests parked at the old run are void."""
    group, reason = context.group, Reason(Cause.COORDINATOR_RESTARTED)
    config = replace(group.config, first_generation=first_generation, member_id_salt=member_id_salt)
    phase = JoinPhase(reason, context.now_ms, context.now_ms + rebalance_timeout_ms(group)) if group.members else None
    context.record(r.GroupResumed(config, context.now_ms, phase))
    context.actions += [p.PushRejoin(member_id, str(reason), group.generation) for member_id in group.members]


def choose_protocol(group: Group) -> str:
    """The protocol with most votes: each member votes for its first among those that all support.

    A tie goes to the one voted for first, in joining order.
    """
    first = next(iter(group.members.values()))
    candidates = {name for name in first.protocols if is_common(group, name)}
    votes = Counter(next(name for name in member.protocols if name in candidates) for member in group.members.values())
    return votes.most_common(1)[0][0]


def is_common(group: Group, protocol_name: str) -> bool:
    """Whether all members offer this protocol."""
    return all(protocol_name in member.protocols for member in group.members.values())


def join_reply(group: Group, member_id: str) -> p.JoinGroupReply:
    """The answer to a join: the current generation, with all members for the leader."""
    members = joined_members(group) if member_id == group.leader else ()
    return p.JoinGroupReply(ErrorCode.NONE, group.generation, group.protocol_name, group.leader, member_id, members)


def joined_members(group: Group) -> tuple[p.JoinedMember, ...]:
    """The members as their leader sees them."""
    return tuple(p.JoinedMember(m.member_id, m.group_instance_id, m.subscription) for m in group.members.values())


def answer_syncs(context: StepContext, error: ErrorCode) -> None:
    """Answer every parked sync: with its member's assignment, or with an error."""
    parked = context.group.syncs
    if not parked:
        return
    context.record(r.SyncsAnswered(tuple(parked), context.now_ms))
    for member_id, correlation in parked.items():
        reply = sync_reply(context.group, member_id) if error is ErrorCode.NONE else p.SyncGroupReply(error)
        context.answer(correlation, reply)


def sync_reply(group: Group, member_id: str) -> p.SyncGroupReply:
    """The answer to a sync: the member's stored assignment."""
    return p.SyncGroupReply(ErrorCode.NONE, group.assignments.get(member_id, ()))


def remove(context: StepContext, member_id: str, reason: str) -> None:
    """Remove a member: answer its parked requests, free its partitions."""
    group = context.group
    message = f"{member_id} was removed: {reason}"
    if (correlation := group.joins.get(member_id)) is not None:
        context.answer(correlation, p.JoinGroupReply(ErrorCode.UNKNOWN_MEMBER_ID, member_id=member_id, message=message))
    if (correlation := group.syncs.get(member_id)) is not None:
        context.answer(correlation, p.SyncGroupReply(ErrorCode.UNKNOWN_MEMBER_ID, message=message))
    context.record(r.MemberRemoved(member_id, reason))
    context.actions.append(p.Removed(member_id, reason))


def expire(context: StepContext) -> None:
    """Act on what is due: sessions, the join phase, syncs that are owed."""
    _expire_sessions(context)
    check_joined(context)
    _expire_syncs(context)


def _expire_sessions(context: StepContext) -> None:
    expired = [m for m, deadline_ms in context.group.sessions.items() if deadline_ms <= context.now_ms]
    for member_id in expired:
        reason = f"its session of {context.group.members[member_id].session_timeout_ms} ms expired"
        # Only a newcomer has a session while it joins (``JoinParked``).
        remove(context, member_id, "its first join took too long" if member_id in context.group.joins else reason)
    if expired:
        on_internal_event(context, Input.MEMBERS_GONE, Reason(Cause.SESSIONS_EXPIRED, tuple(expired)))


def _expire_syncs(context: StepContext) -> None:
    deadline_ms = context.group.sync_deadline_ms
    if deadline_ms is None or deadline_ms > context.now_ms:
        return
    late = [m for m in context.group.members if m in context.group.unsynced]
    for member_id in late:
        remove(context, member_id, "it did not sync within the rebalance timeout")
    on_internal_event(context, Input.MEMBERS_GONE, Reason(Cause.SYNCS_EXPIRED, tuple(late)))


def _ignore(_context: StepContext, _reason: Reason) -> None:
    """Nothing follows."""


_EFFECTS: Mapping[Effect, Callable[[StepContext, Reason], None]] = {
    Effect.IGNORE: _ignore,
    Effect.START: start,
    Effect.CHECK_JOINED: check_joined,
    Effect.COMPLETE_JOIN: _complete_join,
    Effect.EMPTY_OUT: _empty_out,
}
