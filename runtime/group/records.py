"""What can happen to a group, as records: ``record.apply(group)`` is the group after it, and nothing else changes one.

A step decides and writes records, so a group is its records, and replaying them gives the same group (Kafka: the group
coordinator's shard and its log).  Unlike Kafka's log they carry a rebalance in flight as well.
``apply`` trusts its record: what may happen was decided before it was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from sparkcohort.runtime.group.state import EMPTY, Group, GroupConfig, JoinPhase, Position
from sparkcohort.runtime.group.table import LEGAL_PREVIOUS, GroupState
from sparkcohort.runtime.protocol.messages import Assignments, JoinGroup
from sparkcohort.runtime.protocol.partitions import TopicPartition

FORMER_MEMBERS = 64  # enough to tell a zombie why it is one, bounded whatever the churn

V = TypeVar("V")
Partitions: TypeAlias = tuple[tuple[TopicPartition, int], ...]  # (partition, assignment generation)


class IllegalTransitionError(Exception):
    """A record asks for a state change that Kafka's group does not make (Kafka: IllegalStateException)."""


class GroupRecord(Struct, frozen=True, array_like=True, tag=True):
    """One change of a group."""

    def apply(self, group: Group) -> Group:
        """The group after the record; IllegalTransitionError when the record does not fit the state."""
        return self._change(group)

    def _change(self, group: Group) -> Group:
        return group


# --- members --------------------------------------------------------------------------------------


class MemberAdded(GroupRecord, frozen=True):
    """A newcomer is a member now."""

    member: JoinGroup

    def _change(self, group: Group) -> Group:
        member = self.member
        return replace(
            group,
            members={**group.members, member.member_id: member},
            instances={**group.instances, member.group_instance_id: member.member_id},
            leader=group.leader or member.member_id,
            serial=group.serial + 1,
        )


class MemberUpdated(GroupRecord, frozen=True):
    """A member came back with other metadata or timeouts."""

    member: JoinGroup

    def _change(self, group: Group) -> Group:
        return replace(group, members={**group.members, self.member.member_id: self.member})


class MemberReplaced(GroupRecord, frozen=True):
    """A member came back under a new id and takes the slot of its predecessor (KIP-345)."""

    old_id: str
    member: JoinGroup

    def _change(self, group: Group) -> Group:
        old, member = self.old_id, self.member
        new = member.member_id
        return replace(
            group,
            members={**_rename_key(group.members, old, new), new: member},
            instances={**group.instances, member.group_instance_id: new},
            leader=new if group.leader == old else group.leader,
            joins=_drop_keys(group.joins, old),
            syncs=_drop_keys(group.syncs, old),
            unsynced=frozenset(new if m == old else m for m in group.unsynced),
            sessions=_drop_keys(group.sessions, old),
            assignments=_rename_key(group.assignments, old, new),
            owned=_drop_keys(group.owned, old),
            # It is the same place in the group: what stays has not moved.
            previous_assignment=_rename_key(group.previous_assignment, old, new),
            former_members=_former(group, old, f"replaced by {new}"),
            serial=group.serial + 1,
        )


class MemberRemoved(GroupRecord, frozen=True):
    """A member left or was removed; if it led, the first of the others leads."""

    member_id: str
    reason: str

    def _change(self, group: Group) -> Group:
        member_id, member = self.member_id, group.members[self.member_id]
        members = _drop_keys(group.members, member_id)
        removed = replace(
            group,
            members=members,
            instances=_drop_keys(group.instances, member.group_instance_id),
            leader=next(iter(members), "") if group.leader == member_id else group.leader,
            joins=_drop_keys(group.joins, member_id),
            syncs=_drop_keys(group.syncs, member_id),
            sessions=_drop_keys(group.sessions, member_id),
            assignments=_drop_keys(group.assignments, member_id),
            owned=_drop_keys(group.owned, member_id),
            former_members=_former(group, member_id, self.reason),
        )
        return _record_syncs(removed, member_id)


# --- parked requests and sessions -----------------------------------------------------------------


class JoinParked(GroupRecord, frozen=True):
    """A join waits for the phase to end; ``session_ms`` is a newcomer's limit for that."""

    member_id: str
    correlation: int
    session_ms: int | None = None

    def _change(self, group: Group) -> Group:
        joins = {**group.joins, self.member_id: self.correlation}
        if self.session_ms is not None:
            return replace(group, joins=joins, sessions={**group.sessions, self.member_id: self.session_ms})
        if self.member_id in group.joins:  # a repeated join: a newcomer keeps its limit
            return replace(group, joins=joins)
        return replace(group, joins=joins, sessions=_drop_keys(group.sessions, self.member_id))


class JoinsAnswered(GroupRecord, frozen=True):
    """These members know the generation; their sessions run again."""

    member_ids: tuple[str, ...]
    at_ms: int

    def _change(self, group: Group) -> Group:
        without_joins = replace(group, joins=_drop_keys(group.joins, *self.member_ids))
        return _arm_sessions(without_joins, self.member_ids, self.at_ms)


class SyncParked(GroupRecord, frozen=True):
    """A sync waits for the leader's."""

    member_id: str
    correlation: int

    def _change(self, group: Group) -> Group:
        syncs = {**group.syncs, self.member_id: self.correlation}
        parked = replace(group, syncs=syncs, sessions=_drop_keys(group.sessions, self.member_id))
        return _record_syncs(parked, self.member_id)


class SyncsAnswered(GroupRecord, frozen=True):
    """These members know their assignment, or must rejoin; their sessions run again."""

    member_ids: tuple[str, ...]
    at_ms: int

    def _change(self, group: Group) -> Group:
        synced = _record_syncs(replace(group, syncs=_drop_keys(group.syncs, *self.member_ids)), *self.member_ids)
        awake = [m for m in self.member_ids if m not in group.joins]  # a parked join needs no session
        return _arm_sessions(synced, awake, self.at_ms)


class SessionRenewed(GroupRecord, frozen=True):
    """A heartbeat or an accepted commit of a member: its session begins again."""

    member_id: str
    at_ms: int

    def _change(self, group: Group) -> Group:
        return _arm_sessions(group, (self.member_id,), self.at_ms)


# --- a rebalance ----------------------------------------------------------------------------------


class RebalanceStarted(GroupRecord, frozen=True):
    """The join phase begins."""

    phase: JoinPhase

    def _change(self, group: Group) -> Group:
        # Kafka clears the assignments of a generation that never became stable, lest they be taken for its own.
        completing = group.state is GroupState.COMPLETING_REBALANCE
        return replace(
            group,
            state=_next_state(group, GroupState.PREPARING_REBALANCE),
            rebalance=self.phase,
            assignments=EMPTY if completing else group.assignments,
            unsynced=frozenset(),
            sync_deadline_ms=None,
        )


class GenerationStarted(GroupRecord, frozen=True):
    """The join phase ended with members; ``leader`` has joined, and all are to sync before ``sync_deadline_ms``."""

    generation: int
    protocol_name: str
    leader: str
    sync_deadline_ms: int

    def _change(self, group: Group) -> Group:
        return replace(
            group,
            state=_next_state(group, GroupState.COMPLETING_REBALANCE),
            generation=self.generation,
            protocol_name=self.protocol_name,
            leader=self.leader,
            unsynced=frozenset(group.members),
            sync_deadline_ms=self.sync_deadline_ms,
        )


class Emptied(GroupRecord, frozen=True):
    """The join phase ended without members."""

    generation: int

    def _change(self, group: Group) -> Group:
        return replace(
            group,
            state=_next_state(group, GroupState.EMPTY),
            generation=self.generation,
            protocol_name="",
            leader="",
            assignments=EMPTY,
            rebalance=None,
            previous_assignment=EMPTY,
        )


class AssignmentStored(GroupRecord, frozen=True):
    """The leader's assignment of this generation is in force."""

    assignments: Assignments

    def _change(self, group: Group) -> Group:
        return replace(group, state=_next_state(group, GroupState.STABLE), assignments=dict(self.assignments))


class PartitionsAssigned(GroupRecord, frozen=True):
    """Members own these partitions from now on, under these assignment generations (KIP-848: assigned)."""

    assigned: tuple[tuple[str, Partitions], ...]

    def _change(self, group: Group) -> Group:
        added = {member_id: {**group.owned.get(member_id, {}), **dict(new)} for member_id, new in self.assigned}
        return replace(group, owned={**group.owned, **added})


class PartitionsRevoked(GroupRecord, frozen=True):
    """A member no longer owns these partitions: it revoked them, and said so with its join."""

    member_id: str
    partitions: tuple[TopicPartition, ...]

    def _change(self, group: Group) -> Group:
        revoked = set(self.partitions)
        remaining = {tp: g for tp, g in group.owned[self.member_id].items() if tp not in revoked}
        owned = {**group.owned, self.member_id: remaining}
        return replace(group, owned=owned if remaining else _drop_keys(owned, self.member_id))


class RebalanceEnded(GroupRecord, frozen=True):
    """Who owns what as the rebalance ends."""

    previous_assignment: tuple[tuple[str, tuple[TopicPartition, ...]], ...]

    def _change(self, group: Group) -> Group:
        return replace(group, rebalance=None, previous_assignment=dict(self.previous_assignment))


# --- offsets, and the coordinator's end and beginning ----------------------------------------------


class OffsetsCommitted(GroupRecord, frozen=True):
    """Positions were accepted."""

    positions: tuple[tuple[TopicPartition, Position], ...]

    def _change(self, group: Group) -> Group:
        return replace(group, committed={**group.committed, **dict(self.positions)})


class GroupUnloaded(GroupRecord, frozen=True):
    """The coordinator gave the group up."""

    reason: str

    def _change(self, group: Group) -> Group:
        return replace(
            Group(group.config, _next_state(group, GroupState.DEAD), group.generation),
            committed=group.committed,
            former_members=group.former_members,
            serial=group.serial,
        )


class GroupResumed(GroupRecord, frozen=True):
    """A new coordinator run took over: requests parked at the old one are void, all members are to rejoin."""

    config: GroupConfig
    at_ms: int
    phase: JoinPhase | None

    def _change(self, group: Group) -> Group:
        # Not a transition but a beginning, from whatever state the journal ended in.  What is owned stays owned; an
        # assignment is not given any more, for the journal may end between it and the ownership that follows from it.
        resumed = replace(
            group,
            config=self.config,
            state=GroupState.PREPARING_REBALANCE if self.phase else GroupState.EMPTY,
            joins=EMPTY,
            syncs=EMPTY,
            unsynced=frozenset(),
            sync_deadline_ms=None,
            sessions=EMPTY,
            rebalance=self.phase,
            assignments=EMPTY,
        )
        return _arm_sessions(resumed, group.members, self.at_ms)


# --- what several of them do ------------------------------------------------------------------------


def _drop_keys(mapping: Mapping[str, V], *keys: str) -> Mapping[str, V]:
    if not any(key in mapping for key in keys):
        return mapping
    dropped_keys = set(keys)
    return {key: value for key, value in mapping.items() if key not in dropped_keys}


def _rename_key(mapping: Mapping[str, V], old: str, new: str) -> Mapping[str, V]:
    if old not in mapping:
        return mapping
    return {new if key == old else key: value for key, value in mapping.items()}


def _next_state(group: Group, state: GroupState) -> GroupState:
    if group.state not in LEGAL_PREVIOUS[state]:
        raise IllegalTransitionError(f"group {group.config.group_id}: {group.state} can't become {state}")
    return state


def _former(group: Group, member_id: str, reason: str) -> tuple[tuple[str, str], ...]:
    story = f"{reason}, in generation {group.generation}"
    return (*group.former_members, (member_id, story))[-FORMER_MEMBERS:]


def _record_syncs(group: Group, *member_ids: str) -> Group:
    """The group in which these owe no sync any more; the last one ends the deadline."""
    if group.unsynced.isdisjoint(member_ids):
        return group
    unsynced = group.unsynced.difference(member_ids)
    return replace(group, unsynced=unsynced, sync_deadline_ms=group.sync_deadline_ms if unsynced else None)


def _arm_sessions(group: Group, member_ids: Iterable[str], at_ms: int) -> Group:
    """The group with the sessions of these running from ``at_ms``."""
    deadlines = {m: at_ms + group.members[m].session_timeout_ms for m in member_ids}
    return replace(group, sessions={**group.sessions, **deadlines}) if deadlines else group
