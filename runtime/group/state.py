"""The group as a frozen value: its configuration, its members, and what it remembers about each.

Every mapping in here is replaced, never changed in place, so an old ``Group`` stays what it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import Struct

from sparkcohort.runtime.group.table import GroupState
from sparkcohort.runtime.protocol.messages import JoinGroup
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.protocol.reasons import Reason

EMPTY: Mapping[Any, Any] = MappingProxyType({})


class GroupConfig(Struct, frozen=True):
    """What a group is set up with; times in ms (Kafka: ``group.*`` broker settings)."""

    group_id: str
    min_session_timeout_ms: int = 1
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    first_generation: int = 0
    member_id_salt: str = ""
    new_member_join_timeout_ms: int = 300_000


class JoinPhase(Struct, frozen=True):
    """A rebalance in its join phase, or waiting for the leader's assignment.

    ``deadline_ms`` ends the join phase; the first one of an empty group is over as soon as it began.
    """

    reason: Reason
    started_ms: int
    deadline_ms: int


class Position(NamedTuple):
    """A committed offset: by whom and when (ms)."""

    offset: int
    member_id: str
    at_ms: int


class Group(Struct, frozen=True):
    """One consumer group (Kafka: ``ClassicGroup``); beside each field what always holds of it."""

    config: GroupConfig
    state: GroupState = GroupState.EMPTY  # changes as ``LEGAL_PREVIOUS`` says, but for a new coordinator
    generation: int = 0  # never falls; rises by one when a join phase ends
    protocol_name: str = ""  # one that all members of this generation support; "" before the first, and when empty
    leader: str = ""  # a member, if there is any: the first in joining order unless another was elected
    members: Mapping[str, JoinGroup] = EMPTY  # by id, in joining order: each one's last join, without its reason
    # Instance id to the one member that has it (KIP-345):
    instances: Mapping[str, str] = EMPTY  # every member has one
    joins: Mapping[str, int] = EMPTY  # of members: the correlation of each parked JoinGroup
    syncs: Mapping[str, int] = EMPTY  # likewise SyncGroup; only while Completing
    unsynced: frozenset[str] = frozenset()  # members that owe this generation a sync; empty without a deadline
    sync_deadline_ms: int | None = None  # None exactly if no member owes a sync
    # Of each member that isn't parked; a newcomer has both:
    sessions: Mapping[str, int] = EMPTY
    rebalance: JoinPhase | None = None  # from the first join or loss until the leader's assignment is stored
    assignments: Mapping[str, tuple[TopicPartition, ...]] = EMPTY  # the leader's; none if it gave none
    # By member, since which generation; no partition has two owners:
    owned: Mapping[str, Mapping[TopicPartition, int]] = EMPTY
    # As a rebalance ended:
    previous_assignment: Mapping[str, tuple[TopicPartition, ...]] = EMPTY
    # Outlives members, and the group's end:
    committed: Mapping[TopicPartition, Position] = EMPTY
    former_members: tuple[tuple[str, str], ...] = ()  # (id, what became of it) of the last few, for a zombie's error
    serial: int = 0  # never falls: no two members have the same id
