"""JoinGroup: which joins are admitted, what kind of join each is, and what each kind does.

(Kafka: ``GroupCoordinator.handleJoinGroup``.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from sparkcohort.runtime.group import partition_ownership, rebalance
from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.group.fencing import PASS, Verdict, gate
from sparkcohort.runtime.group.table import GroupState, Input
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.protocol.reasons import REASON_LENGTH, Cause, Reason

if TYPE_CHECKING:
    from sparkcohort.runtime.group.context import StepContext
    from sparkcohort.runtime.group.state import Group


def admit(group: Group, request: p.JoinGroup) -> Verdict:
    """Whether a join gets as far as the table: session timeout, size, protocols, then the gate, in Kafka's order."""
    config = group.config
    low, high = config.min_session_timeout_ms, config.max_session_timeout_ms
    if not low <= request.session_timeout_ms <= high:
        message = f"session timeout {request.session_timeout_ms} ms is outside {low} to {high} ms"
        return Verdict(ErrorCode.INVALID_SESSION_TIMEOUT, message)
    if not _has_room(group, request):
        return Verdict(ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group has its {config.max_size} members")
    if (verdict := _check_protocols(group, request)) is not PASS:
        return verdict
    if request.member_id == p.UNKNOWN_MEMBER:
        return PASS
    return gate(group, request.group_instance_id, request.member_id, None)


def _has_room(group: Group, request: p.JoinGroup) -> bool:
    if group.state is GroupState.PREPARING_REBALANCE:
        slot = request.member_id or group.instances.get(request.group_instance_id, "")
        return slot in group.joins or len(group.joins) < group.config.max_size
    is_member = request.member_id in group.members or request.group_instance_id in group.instances
    return is_member or not group.members or len(group.members) < group.config.max_size


def _check_protocols(group: Group, request: p.JoinGroup) -> Verdict:
    """A protocol and, with members present, one that all of them support."""
    if not request.protocols:
        return Verdict(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "a join names at least one protocol")
    if group.members and not any(rebalance.is_common(group, name) for name in request.protocols):
        message = f"no member could use any of {', '.join(request.protocols)} with the others"
        return Verdict(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
    return PASS


def classify_join(group: Group, request: p.JoinGroup) -> Input:
    """What an admitted join asks of this group."""
    if request.member_id == p.UNKNOWN_MEMBER:
        old_id = group.instances.get(request.group_instance_id)
        return Input.JOIN_NEW if old_id is None else _classify_takeover(group, old_id, request)
    member = group.members[request.member_id]
    # Overtaken by a later join of the member: its list of owned partitions is older than the group's.
    if 0 < request.attempt <= member.attempt:
        return Input.JOIN_LATE
    unchanged = (member.protocols, member.subscription) == (request.protocols, request.subscription)
    if not unchanged or partition_ownership.has_lost(group, request.member_id):
        return Input.JOIN_CHANGED
    return Input.JOIN_LEADER if request.member_id == group.leader else Input.JOIN_SAME


def _classify_takeover(group: Group, old_id: str, request: p.JoinGroup) -> Input:
    returned = _member(request, old_id)
    updated = r.MemberUpdated(returned).apply(group)
    is_same = rebalance.choose_protocol(updated) == group.protocol_name
    is_same = is_same and _wants_same(group.members[old_id], returned)
    return Input.TAKEOVER if is_same else Input.TAKEOVER_CHANGED


def _wants_same(old: p.JoinGroup, new: p.JoinGroup) -> bool:
    return set(old.subscription.topics) == set(new.subscription.topics)


def refuse_join(context: StepContext, correlation: int, request: p.JoinGroup, verdict: Verdict) -> None:
    """Answer with the reason; in a full group the member is removed (Kafka: ``acceptJoiningMember``)."""
    context.answer_error(correlation, request, verdict.error, verdict.message)
    is_full = verdict.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    if is_full and gate(context.group, request.group_instance_id, request.member_id, None) is PASS:
        rebalance.remove(context, request.member_id, "the group has reached its maximum size")
        rebalance.on_internal_event(context, Input.MEMBERS_GONE, Reason(Cause.GROUP_FULL, (request.member_id,)))


def add(context: StepContext, correlation: int, request: p.JoinGroup) -> None:
    """Let a newcomer in and park its join."""
    _add(context, correlation, request)
    rebalance.check_joined(context)


def add_and_start(context: StepContext, correlation: int, request: p.JoinGroup) -> None:
    """Let a newcomer in, which starts a rebalance."""
    member_id = _add(context, correlation, request)
    rebalance.start(context, Reason(Cause.MEMBER_JOINED, (member_id,), said=_member_reason(request)))


def park(context: StepContext, correlation: int, request: p.JoinGroup) -> None:
    """A member rejoins in the join phase."""
    _park(context, correlation, request)
    rebalance.check_joined(context)


def update_and_start(context: StepContext, correlation: int, request: p.JoinGroup) -> None:
    """A member rejoins, which starts a rebalance: its metadata changed, or it leads."""
    old_group, member_id = context.group, request.member_id
    _park(context, correlation, request)
    cause = _cause(old_group, context.group, member_id, request)
    rebalance.start(context, Reason(cause, (member_id,), said=_member_reason(request)))


def _cause(old_group: Group, new_group: Group, member_id: str, request: p.JoinGroup) -> Cause:
    """Why a member rejoins: by what its join changed, not by the reason that it states."""
    old, new = old_group.members[member_id], new_group.members[member_id]
    if not request.reason:
        unchanged = (old.protocols, old.subscription) == (new.protocols, new.subscription)
        return Cause.LEADER_REJOINED if unchanged else Cause.METADATA_CHANGED
    released = old_group.owned.get(member_id, {}).keys() - new_group.owned.get(member_id, {}).keys()
    if released - partition_ownership.assigned(old_group, member_id):
        return Cause.FOLLOW_UP  # KIP-429: what it was no longer assigned is revoked, and can be given on
    if not _wants_same(old, new):
        return Cause.SUBSCRIPTION_CHANGED
    return Cause.MEMBER_REJOINED


def answer_join(context: StepContext, correlation: int, request: p.JoinGroup) -> None:
    """A member that missed the answer to its join gets it again; nothing changes for the others."""
    if request.attempt:
        context.record(r.MemberUpdated(replace(context.group.members[request.member_id], attempt=request.attempt)))
    if request.member_id not in context.group.syncs:
        context.record(r.SessionRenewed(request.member_id, context.now_ms))
    context.answer(correlation, rebalance.join_reply(context.group, request.member_id))


def take_over(context: StepContext, correlation: int, request: p.JoinGroup) -> None:
    """A member is back: it gets its predecessor's assignment, without a rebalance (KIP-345)."""
    member_id, old_partitions = _replace(context, request)
    partition_ownership.assign(context, member_id)
    context.record(r.JoinsAnswered((member_id,), context.now_ms))
    context.answer(correlation, rebalance.join_reply(context.group, member_id))
    # Partitions that its predecessor was about to give up: no member owns them now.
    if count := len(set(old_partitions).difference(partition_ownership.owners(context.group))):
        reason = Reason(Cause.MEMBER_REPLACED_WHILE_REVOKING, (member_id,), request.group_instance_id, count)
        rebalance.on_internal_event(context, Input.TRIGGER, reason)


def take_over_and_park(context: StepContext, correlation: int, request: p.JoinGroup) -> None:
    """A member is back during the join phase."""
    member_id, _ = _replace(context, request)
    context.record(r.JoinParked(member_id, correlation))
    rebalance.check_joined(context)


def take_over_and_start(context: StepContext, correlation: int, request: p.JoinGroup) -> None:
    """A member is back while an assignment is awaited, or so changed that another protocol would be chosen."""
    member_id, _ = _replace(context, request)
    context.record(r.JoinParked(member_id, correlation))
    reason = Reason(Cause.MEMBER_REPLACED, (member_id,), request.group_instance_id, said=_member_reason(request))
    rebalance.start(context, reason)


def _add(context: StepContext, correlation: int, request: p.JoinGroup) -> str:
    member_id = _new_id(context, request)
    context.record(r.MemberAdded(_member(request, member_id)))
    limit_ms = context.now_ms + context.group.config.new_member_join_timeout_ms
    context.record(r.JoinParked(member_id, correlation, limit_ms))
    return member_id


def _park(context: StepContext, correlation: int, request: p.JoinGroup) -> None:
    """Park a member's join: an earlier one of it is void, and it owns no more than it claims."""
    member_id = request.member_id
    if (earlier := context.group.joins.get(member_id)) is not None:
        reply = p.JoinGroupReply(ErrorCode.REBALANCE_IN_PROGRESS, member_id=member_id, message="it joined again")
        context.answer(earlier, reply)
    member = _member(request, member_id)
    context.record(r.MemberUpdated(member))
    context.record(r.JoinParked(member_id, correlation))
    partition_ownership.revoke_unclaimed(context, member)


def _replace(context: StepContext, request: p.JoinGroup) -> tuple[str, tuple[TopicPartition, ...]]:
    """Put a new member in the slot of its instance id: the new id, and what the old one owned."""
    group = context.group
    old_id = group.instances[request.group_instance_id]
    new_id = _new_id(context, request)
    message = f"instance id {request.group_instance_id} belongs to {new_id} now"
    if (correlation := group.joins.get(old_id)) is not None:
        fenced = p.JoinGroupReply(ErrorCode.FENCED_INSTANCE_ID, member_id=old_id, message=message)
        context.answer(correlation, fenced)
    if (correlation := group.syncs.get(old_id)) is not None:
        context.answer(correlation, p.SyncGroupReply(ErrorCode.FENCED_INSTANCE_ID, message=message))
    old_partitions = tuple(group.owned.get(old_id, ()))
    context.record(r.MemberReplaced(old_id, _member(request, new_id)))
    context.actions.append(p.Removed(old_id, message))
    return new_id, old_partitions


def _member(request: p.JoinGroup, member_id: str) -> p.JoinGroup:
    # A join without a rebalance timeout has the session's (Kafka: version 0).
    timeout_ms = request.rebalance_timeout_ms if request.rebalance_timeout_ms > 0 else request.session_timeout_ms
    return replace(request, member_id=member_id, rebalance_timeout_ms=timeout_ms, reason="")


def _new_id(context: StepContext, request: p.JoinGroup) -> str:
    """An id that no other member of any run has: the salt differs by run, the number by member."""
    name, serial = request.group_instance_id, context.group.serial + 1
    salt = context.group.config.member_id_salt
    return f"{name}-{salt}-{serial}" if salt else f"{name}-{serial}"


def _member_reason(request: p.JoinGroup) -> str:
    return request.reason[:REASON_LENGTH]
