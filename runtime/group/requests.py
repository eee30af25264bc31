"""SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetFetch, DescribeGroup, ListGroups: a function for each effect."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sparkcohort.runtime.group import offsets, partition_ownership, rebalance
from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.group.fencing import PASS, Verdict, gate
from sparkcohort.runtime.group.table import GroupState, Input
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.reasons import NO_REASON, REASON_LENGTH, Cause, Reason

if TYPE_CHECKING:
    from sparkcohort.runtime.group.context import Turn
    from sparkcohort.runtime.group.state import Group, GroupMember


def admit_sync(group: Group, request: p.SyncGroup) -> Verdict:
    """The gate, and that the member means the protocol that was chosen (KIP-559)."""
    verdict = gate(group, request.group_instance_id, request.member_id, request.generation)
    if verdict is not PASS:
        return verdict
    for asked, actual in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    ):
        if asked is not None and actual and asked != actual:  # before the first generation none is chosen
            return Verdict(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group uses {actual}, not {asked}")
    return PASS


def park_sync(turn: Turn, correlation: int, request: p.SyncGroup) -> None:
    """A follower waits for the leader's assignment; an earlier sync of it is void."""
    if (earlier := turn.group.syncs.get(request.member_id)) is not None:
        turn.answer(earlier, p.SyncGroupReply(ErrorCode.REBALANCE_IN_PROGRESS, message="it synced again"))
    turn.record(r.SyncParked(request.member_id, correlation))


def store_assignment(turn: Turn, correlation: int, request: p.SyncGroup) -> None:
    """The leader's assignment comes into force: everyone who waits is answered, the rebalance is over."""
    park_sync(turn, correlation, request)
    given = dict(request.assignments)
    turn.record(r.AssignmentStored(tuple((m, given.get(m, b"")) for m in turn.group.members)))
    partition_ownership.assign(turn)
    rebalance.answer_syncs(turn, ErrorCode.NONE)
    _end_rebalance(turn)


def _end_rebalance(turn: Turn) -> None:
    group, phase = turn.group, turn.group.rebalance
    before, after = group.settled, partition_ownership.holdings(group)
    turn.record(r.RebalanceEnded(tuple(after.items())))
    turn.actions.append(
        p.Rebalanced(
            group.generation,
            phase.reason if phase else NO_REASON,
            phase.started_ms if phase else turn.now_ms,
            turn.now_ms,
            group.protocol_name,
            tuple(group.members),
            before,
            after,
        )
    )


def sort_sync(group: Group, member_id: str) -> Input:
    """Whether a follower's sync is one that the next join phase has overtaken, with an assignment there to give.

    What is stored is this generation's: a phase that interrupts a generation before it was stable clears it.
    """
    overtaken = group.state is GroupState.PREPARING_REBALANCE and member_id not in group.joins
    return Input.SYNC_LATE if overtaken and member_id in group.assignments else Input.SYNC


def answer_sync(turn: Turn, correlation: int, request: p.SyncGroup) -> None:
    """A late follower gets its stored assignment."""
    turn.record(r.SyncsAnswered((request.member_id,), turn.now_ms))
    turn.answer(correlation, rebalance.synced(turn.group, request.member_id))


def answer_late_sync(turn: Turn, correlation: int, request: p.SyncGroup) -> None:
    """A follower that the next join phase has overtaken gets its assignment, and is told once more that it has to rejoin."""
    answer_sync(turn, correlation, request)
    reason = str(turn.group.rebalance.reason) if turn.group.rebalance else ""
    turn.actions.append(p.PushRejoin(request.member_id, reason, turn.group.generation))


def hear(turn: Turn, correlation: int, request: p.Heartbeat, error: ErrorCode) -> None:
    """A sign of life; during the join phase the answer says to rejoin."""
    _heard(turn, request.member_id)
    turn.answer(correlation, p.HeartbeatReply(error))


def _heard(turn: Turn, member_id: str) -> None:
    if member_id not in turn.group.joins and member_id not in turn.group.syncs:  # parked is alive
        turn.record(r.Heard(member_id, turn.now_ms))


def leave(turn: Turn, correlation: int, request: p.LeaveGroup) -> None:
    """Take out each member named, then rebalance once (KIP-345)."""
    members_before, ids_before = turn.group.members, turn.group.pending
    outcome = tuple((leaving, _leave(turn, request, leaving)) for leaving in request.members)
    turn.answer(correlation, p.LeaveGroupReply(ErrorCode.NONE, outcome))
    if turn.group.members is not members_before:
        gone = tuple(m for m in members_before if m not in turn.group.members)
        rebalance.happen(turn, Input.MEMBERS_GONE, Reason(Cause.MEMBERS_LEFT, gone))
    elif turn.group.pending is not ids_before:
        rebalance.check_joined(turn)


def _leave(turn: Turn, request: p.LeaveGroup, leaving: p.LeavingMember) -> ErrorCode:
    group, member_id, instance_id = turn.group, leaving.member_id, leaving.group_instance_id
    if member_id in group.pending:
        turn.record(r.IdDropped(member_id, "it left before it joined"))
        return ErrorCode.NONE
    if member_id == p.UNKNOWN_MEMBER and instance_id is not None:  # an operator removes whoever has the instance id
        member_id = group.instances.get(instance_id, p.UNKNOWN_MEMBER)
    verdict = gate(group, instance_id, member_id, None)
    if verdict is not PASS:
        turn.refused(request, verdict.error, member_id=member_id)
        return verdict.error
    reason = leaving.reason[:REASON_LENGTH]
    rebalance.remove(turn, member_id, f"it left: {reason}" if reason else "it left")
    return ErrorCode.NONE


def commit(turn: Turn, correlation: int, request: p.OffsetCommit) -> None:
    """Judge each partition; one that is accepted is a sign of life as well."""
    judged = offsets.judge(turn.group, request)
    _commit(turn, correlation, request, judged)
    if any(error is ErrorCode.NONE for _tp, error, _why in judged):
        _heard(turn, request.member_id)


def commit_simple(turn: Turn, correlation: int, request: p.OffsetCommit) -> None:
    """A commit without member, which only an empty group takes."""
    _commit(turn, correlation, request, offsets.judge_simple(turn.group, request))


def _commit(turn: Turn, correlation: int, request: p.OffsetCommit, judged: tuple[offsets.Judged, ...]) -> None:
    positions = offsets.accepted(request, judged, turn.now_ms)
    if positions:
        turn.record(r.OffsetsCommitted(positions))
    reply = p.OffsetCommitReply(tuple((tp, error) for tp, error, _why in judged), offsets.explain(judged))
    turn.answer(correlation, reply)
    refused = Counter(error for _tp, error, _why in judged if error is not ErrorCode.NONE)
    for error, partitions in refused.items():
        turn.refused(request, error, partitions)


def fetch(turn: Turn, correlation: int, request: p.OffsetFetch) -> None:
    """Committed offsets, whatever the state."""
    found = offsets.fetch(turn.group.committed, request.partitions)
    turn.answer(correlation, p.OffsetFetchReply(ErrorCode.NONE, found))


def describe(turn: Turn, correlation: int, _request: p.DescribeGroup) -> None:
    """The group as it is; protocol, metadata and assignment only when they are settled, as Kafka does."""
    group = turn.group
    stable = group.state is GroupState.STABLE
    turn.answer(
        correlation,
        p.DescribeGroupReply(
            ErrorCode.NONE,
            group.state.value,
            group.generation,
            group.protocol_type,
            group.protocol_name if stable else "",
            group.leader,
            tuple(_describe(group, member, turn.now_ms, stable=stable) for member in group.members.values()),
            tuple(group.pending),
        ),
    )


def _describe(group: Group, member: GroupMember, now_ms: int, *, stable: bool) -> p.MemberDescription:
    member_id = member.member_id
    parked = member_id in group.joins or member_id in group.syncs
    deadline_ms = group.sessions.get(member_id, now_ms)
    age_ms = 0 if parked else max(now_ms - (deadline_ms - member.session_timeout_ms), 0)
    return p.MemberDescription(
        member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.metadata(group.protocol_name) if stable else b"",
        group.assignments.get(member_id, b"") if stable else b"",
        tuple(sorted(group.owned.get(member_id, {}).items())),
        tuple(sorted(partition_ownership.assigned(group, member_id))),
        age_ms,
    )


def list_groups(turn: Turn, correlation: int, request: p.ListGroups) -> None:
    """This coordinator's one group, if the filter lets it through; none once it is given up (KIP-518)."""
    group = turn.group
    listed = p.ListedGroup(group.config.group_id, group.protocol_type, group.state.value)
    fits = _fits(request.states, listed.state) and _fits(request.types, listed.group_type)
    here = fits and group.state is not GroupState.DEAD
    turn.answer(correlation, p.ListGroupsReply(ErrorCode.NONE, (listed,) if here else ()))


def _fits(asked: tuple[str, ...], actual: str) -> bool:
    return not asked or actual.casefold() in {name.casefold() for name in asked}
