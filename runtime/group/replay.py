"""How each record changes a group: ``apply(group, record) -> group``, and nothing else ever does.

The functions below trust their record: what may happen was decided before it was written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.group.persistent_map import with_value
from sparkcohort.runtime.group.state import EMPTY, Group, GroupMember
from sparkcohort.runtime.group.table import LEGAL_PREVIOUS, GroupState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

FORMER_MEMBERS = 64  # enough to tell a zombie why it is one, bounded whatever the churn

V = TypeVar("V")


class IllegalTransitionError(Exception):
    """A record asks for a state change that Kafka's group does not make (Kafka: IllegalStateException)."""


def apply(group: Group, record: r.Record) -> Group:
    """The group after the record; IllegalTransitionError when the record does not fit the state."""
    return _APPLY[type(record)](group, record)


def created(record: r.GroupCreated) -> Group:
    """The group that its first record describes."""
    return Group(record.config, record.embedded, generation=record.config.first_generation)


def _drop_keys(mapping: Mapping[str, V], *keys: str) -> Mapping[str, V]:
    if not any(key in mapping for key in keys):
        return mapping
    return {key: value for key, value in mapping.items() if key not in keys}


def _rename_key(mapping: Mapping[str, V], old: str, new: str) -> Mapping[str, V]:
    if old not in mapping:
        return mapping
    return {new if key == old else key: value for key, value in mapping.items()}


def _next_state(group: Group, state: GroupState) -> GroupState:
    if group.state not in LEGAL_PREVIOUS[state]:
        raise IllegalTransitionError(f"group {group.config.group_id}: {group.state} can't become {state}")
    return state


def _supporters(group: Group, old: GroupMember | None, new: GroupMember | None) -> Mapping[str, int]:
    old_names = {p.name for p in old.protocols} if old else set()
    new_names = {p.name for p in new.protocols} if new else set()
    if old_names == new_names:
        return group.supporters
    counts = dict(group.supporters)
    for name in sorted(old_names | new_names):
        counts[name] = counts.get(name, 0) + (name in new_names) - (name in old_names)
    return {name: count for name, count in counts.items() if count}


def _serial_taken(group: Group, record: r.SerialTaken) -> Group:
    return replace(group, serial=record.serial)


def _id_issued(group: Group, record: r.IdIssued) -> Group:
    return replace(group, pending={**group.pending, record.member_id: record.expires_ms})


def _id_dropped(group: Group, record: r.IdDropped) -> Group:
    return replace(group, pending=_drop_keys(group.pending, record.member_id))


def _member_added(group: Group, record: r.MemberAdded) -> Group:
    member = record.member
    instance = member.group_instance_id
    return replace(
        group,
        members={**group.members, member.member_id: member},
        instances={**group.instances, instance: member.member_id} if instance is not None else group.instances,
        supporters=_supporters(group, None, member),
        pending=_drop_keys(group.pending, member.member_id),
        protocol_type=group.protocol_type if group.members else record.protocol_type,
        leader=group.leader or member.member_id,
    )


def _member_updated(group: Group, record: r.MemberUpdated) -> Group:
    member = record.member
    return replace(
        group,
        members={**group.members, member.member_id: member},
        supporters=_supporters(group, group.members[member.member_id], member),
    )


def _member_replaced(group: Group, record: r.MemberReplaced) -> Group:
    old, member = record.old_id, record.member
    new, instance = member.member_id, member.group_instance_id or ""
    return replace(
        group,
        members={**_rename_key(group.members, old, new), new: member},
        instances={**group.instances, instance: new},
        supporters=_supporters(group, group.members[old], member),
        leader=new if group.leader == old else group.leader,
        joins=_drop_keys(group.joins, old),
        syncs=_drop_keys(group.syncs, old),
        unsynced=frozenset(new if m == old else m for m in group.unsynced),
        sessions=_drop_keys(group.sessions, old),
        assignments=_rename_key(group.assignments, old, new),
        owned=_drop_keys(group.owned, old),
        pending_assignments=_drop_keys(group.pending_assignments, old),
        # It is the same place in the group: what stays has not moved.
        previous_assignment=_rename_key(group.previous_assignment, old, new),
        former_members=_former(group, old, f"replaced by {new}"),
    )


def _former(group: Group, member_id: str, reason: str) -> tuple[tuple[str, str], ...]:
    story = f"{reason}, in generation {group.generation}"
    return (*group.former_members, (member_id, story))[-FORMER_MEMBERS:]


def _member_removed(group: Group, record: r.MemberRemoved) -> Group:
    member_id = record.member_id
    member = group.members[member_id]
    members = _drop_keys(group.members, member_id)
    instance = member.group_instance_id
    return _record_syncs(
        replace(
            group,
            members=members,
            instances=_drop_keys(group.instances, instance) if instance is not None else group.instances,
            supporters=_supporters(group, member, None),
            leader=next(iter(members), "") if group.leader == member_id else group.leader,
            joins=_drop_keys(group.joins, member_id),
            syncs=_drop_keys(group.syncs, member_id),
            sessions=_drop_keys(group.sessions, member_id),
            assignments=_drop_keys(group.assignments, member_id),
            owned=_drop_keys(group.owned, member_id),
            pending_assignments=_drop_keys(group.pending_assignments, member_id),
            former_members=_former(group, member_id, record.reason),
        ),
        member_id,
    )


def _record_syncs(group: Group, *member_ids: str) -> Group:
    """The group in which these owe no sync any more; the last one ends the deadline."""
    if group.unsynced.isdisjoint(member_ids):
        return group
    unsynced = group.unsynced.difference(member_ids)
    return replace(group, unsynced=unsynced, sync_deadline_ms=group.sync_deadline_ms if unsynced else None)


def _leader_elected(group: Group, record: r.LeaderElected) -> Group:
    return replace(group, leader=record.member_id)


def _arm_sessions(group: Group, member_ids: Iterable[str], at_ms: int) -> Group:
    """The group with the sessions of these running from ``at_ms``."""
    deadlines = {m: at_ms + group.members[m].session_timeout_ms for m in member_ids}
    if not deadlines:
        return group
    due = min(deadlines.values())
    if group.sessions_due_ms is not None:
        due = min(due, group.sessions_due_ms)
    return replace(group, sessions={**group.sessions, **deadlines}, sessions_due_ms=due)


def _join_parked(group: Group, record: r.JoinParked) -> Group:
    joins = {**group.joins, record.member_id: record.correlation}
    if record.session_ms is not None:
        due = record.session_ms if group.sessions_due_ms is None else min(record.session_ms, group.sessions_due_ms)
        sessions = {**group.sessions, record.member_id: record.session_ms}
        return replace(group, joins=joins, sessions=sessions, sessions_due_ms=due)
    if record.member_id in group.joins:  # a repeated join: a newcomer keeps its limit
        return replace(group, joins=joins)
    return replace(group, joins=joins, sessions=_drop_keys(group.sessions, record.member_id))


def _joins_answered(group: Group, record: r.JoinsAnswered) -> Group:
    member_ids = set(record.member_ids)
    joins = {m: c for m, c in group.joins.items() if m not in member_ids}
    return _arm_sessions(replace(group, joins=joins), record.member_ids, record.at_ms)


def _sync_parked(group: Group, record: r.SyncParked) -> Group:
    parked = replace(
        group,
        syncs={**group.syncs, record.member_id: record.correlation},
        sessions=_drop_keys(group.sessions, record.member_id),
    )
    return _record_syncs(parked, record.member_id)


def _syncs_answered(group: Group, record: r.SyncsAnswered) -> Group:
    member_ids = set(record.member_ids)
    syncs = {m: c for m, c in group.syncs.items() if m not in member_ids}
    synced = _record_syncs(replace(group, syncs=syncs), *record.member_ids)
    awake = [m for m in record.member_ids if m not in group.joins]  # a parked join needs no session
    return _arm_sessions(synced, awake, record.at_ms)


def _session_renewed(group: Group, record: r.SessionRenewed) -> Group:
    deadline = record.at_ms + group.members[record.member_id].session_timeout_ms
    due = deadline if group.sessions_due_ms is None else min(deadline, group.sessions_due_ms)
    return replace(group, sessions=with_value(group.sessions, record.member_id, deadline), sessions_due_ms=due)


def _sessions_checked(group: Group, record: r.SessionsChecked) -> Group:
    return replace(group, sessions_due_ms=record.due_ms)


def _rebalance_started(group: Group, record: r.RebalanceStarted) -> Group:
    # Kafka clears the assignments of a generation that never became stable, lest they be taken for its own.
    completing = group.state is GroupState.COMPLETING_REBALANCE
    return replace(
        group,
        state=_next_state(group, GroupState.PREPARING_REBALANCE),
        rebalance=record.phase,
        assignments=EMPTY if completing else group.assignments,
        unsynced=frozenset(),
        sync_deadline_ms=None,
    )


def _join_phase_extended(group: Group, record: r.JoinPhaseExtended) -> Group:
    if group.rebalance is None:
        raise IllegalTransitionError(f"group {group.config.group_id}: no join phase to extend in {group.state}")
    phase = replace(group.rebalance, deadline_ms=record.deadline_ms)
    return replace(group, rebalance=phase)


def _generation_started(group: Group, record: r.GenerationStarted) -> Group:
    return replace(
        group,
        state=_next_state(group, GroupState.COMPLETING_REBALANCE),
        generation=record.generation,
        protocol_name=record.protocol_name,
        unsynced=frozenset(group.members),
        sync_deadline_ms=record.sync_deadline_ms,
    )


def _emptied(group: Group, record: r.Emptied) -> Group:
    return replace(
        group,
        state=_next_state(group, GroupState.EMPTY),
        generation=record.generation,
        protocol_name="",
        leader="",
        assignments=EMPTY,
        rebalance=None,
        previous_assignment=EMPTY,
    )


def _assignment_stored(group: Group, record: r.AssignmentStored) -> Group:
    return replace(group, state=_next_state(group, GroupState.STABLE), assignments=dict(record.assignments))


def _partitions_assigned(group: Group, record: r.PartitionsAssigned) -> Group:
    owned, pending = dict(group.owned), dict(group.pending_assignments)
    for member_id, partitions in record.assigned:
        owned[member_id] = {**owned.get(member_id, {}), **dict(partitions)}
        if member_id in pending:
            pending[member_id] = {tp: g for tp, g in pending[member_id].items() if tp not in owned[member_id]}
    return replace(group, owned=owned, pending_assignments={m: p for m, p in pending.items() if p})


def _partitions_revoked(group: Group, record: r.PartitionsRevoked) -> Group:
    revoked = set(record.partitions)
    remaining = {tp: g for tp, g in group.owned[record.member_id].items() if tp not in revoked}
    owned = {**group.owned, record.member_id: remaining}
    return replace(group, owned=owned if remaining else _drop_keys(owned, record.member_id))


def _partitions_pending(group: Group, record: r.PartitionsPending) -> Group:
    return replace(group, pending_assignments={m: dict(partitions) for m, partitions in record.pending})


def _rebalance_ended(group: Group, record: r.RebalanceEnded) -> Group:
    return replace(group, rebalance=None, previous_assignment=dict(record.previous_assignment))


def _offsets_committed(group: Group, record: r.OffsetsCommitted) -> Group:
    return replace(group, committed={**group.committed, **dict(record.positions)})


def _group_unloaded(group: Group, _record: r.GroupUnloaded) -> Group:
    return replace(
        Group(group.config, group.embedded, _next_state(group, GroupState.DEAD), group.generation),
        committed=group.committed,
        former_members=group.former_members,
        serial=group.serial,
    )


def _group_resumed(group: Group, record: r.GroupResumed) -> Group:
    # Not a transition but a beginning, from whatever state the journal ended in.  What is owned stays owned; an
    # assignment is not given any more, for the journal may end between it and the ownership that follows from it.
    resumed = replace(
        group,
        config=record.config,
        state=GroupState.PREPARING_REBALANCE if record.phase else GroupState.EMPTY,
        pending=EMPTY,
        joins=EMPTY,
        syncs=EMPTY,
        unsynced=frozenset(),
        sync_deadline_ms=None,
        sessions=EMPTY,
        sessions_due_ms=None,
        rebalance=record.phase,
        assignments=EMPTY,
    )
    return _arm_sessions(resumed, group.members, record.at_ms)


_APPLY: Mapping[type, Callable[[Group, Any], Group]] = {
    r.GroupCreated: lambda _group, record: created(record),
    r.SerialTaken: _serial_taken,
    r.IdIssued: _id_issued,
    r.IdDropped: _id_dropped,
    r.MemberAdded: _member_added,
    r.MemberUpdated: _member_updated,
    r.MemberReplaced: _member_replaced,
    r.MemberRemoved: _member_removed,
    r.LeaderElected: _leader_elected,
    r.JoinParked: _join_parked,
    r.JoinsAnswered: _joins_answered,
    r.SyncParked: _sync_parked,
    r.SyncsAnswered: _syncs_answered,
    r.SessionRenewed: _session_renewed,
    r.SessionsChecked: _sessions_checked,
    r.RebalanceStarted: _rebalance_started,
    r.JoinPhaseExtended: _join_phase_extended,
    r.GenerationStarted: _generation_started,
    r.Emptied: _emptied,
    r.AssignmentStored: _assignment_stored,
    r.PartitionsAssigned: _partitions_assigned,
    r.PartitionsRevoked: _partitions_revoked,
    r.PartitionsPending: _partitions_pending,
    r.RebalanceEnded: _rebalance_ended,
    r.OffsetsCommitted: _offsets_committed,
    r.GroupUnloaded: _group_unloaded,
    r.GroupResumed: _group_resumed,
}
