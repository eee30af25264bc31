"""What can happen to a group, as records, and how each changes it.

A step decides, writes records, and every change to the group is the ``replay.apply`` of one of them: so a group is
its records, and replaying them gives the same group (Kafka: the group coordinator's shard and its log).
Unlike Kafka's log they carry a rebalance in flight as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from sparkcohort.runtime.group.state import EmbeddedProtocol, GroupConfig, GroupMember, JoinPhase, Position
from sparkcohort.runtime.protocol.partitions import TopicPartition

Partitions: TypeAlias = tuple[tuple[TopicPartition, int], ...]  # (partition, assignment generation)


@dataclass(frozen=True, slots=True)
class GroupCreated:
    """The first record: an empty group."""

    config: GroupConfig
    embedded: EmbeddedProtocol


@dataclass(frozen=True, slots=True)
class SerialTaken:
    """A number went into a member id."""

    serial: int


@dataclass(frozen=True, slots=True)
class IdIssued:
    """A newcomer was sent its id and has until ``expires_ms`` to join with it (KIP-394)."""

    member_id: str
    expires_ms: int


@dataclass(frozen=True, slots=True)
class IdDropped:
    """An issued id is no longer waited for."""

    member_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class MemberAdded:
    """A newcomer is a member now; the first one decides the group's protocol type."""

    member: GroupMember
    protocol_type: str


@dataclass(frozen=True, slots=True)
class MemberUpdated:
    """A member came back with other metadata or timeouts."""

    member: GroupMember


@dataclass(frozen=True, slots=True)
class MemberReplaced:
    """A static member came back under a new id and takes the slot of its predecessor (KIP-345)."""

    old_id: str
    member: GroupMember
    at_ms: int


@dataclass(frozen=True, slots=True)
class MemberRemoved:
    """A member left or was removed; if it led, the first of the others leads."""

    member_id: str
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class LeaderElected:
    """At the end of a join phase an absent leader is replaced."""

    member_id: str


@dataclass(frozen=True, slots=True)
class JoinParked:
    """A join waits for the phase to end; ``session_ms`` is a newcomer's limit for that."""

    member_id: str
    correlation: int
    session_ms: int | None = None


@dataclass(frozen=True, slots=True)
class JoinsAnswered:
    """These members know the generation; their sessions run again."""

    member_ids: tuple[str, ...]
    at_ms: int


@dataclass(frozen=True, slots=True)
class SyncParked:
    """A sync waits for the leader's."""

    member_id: str
    correlation: int


@dataclass(frozen=True, slots=True)
class SyncsAnswered:
    """These members know their assignment, or must rejoin; their sessions run again."""

    member_ids: tuple[str, ...]
    at_ms: int


@dataclass(frozen=True, slots=True)
class SessionRenewed:
    """A heartbeat or an accepted commit of a member: its session begins again."""

    member_id: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class SessionsChecked:
    """No session ends before ``due_ms``."""

    due_ms: int | None


@dataclass(frozen=True, slots=True)
class RebalanceStarted:
    """The join phase begins."""

    phase: JoinPhase


@dataclass(frozen=True, slots=True)
class JoinPhaseExtended:
    """The join phase goes on until ``deadline_ms``."""

    deadline_ms: int


@dataclass(frozen=True, slots=True)
class GenerationStarted:
    """The join phase ended with members; all are to sync before ``sync_deadline_ms``."""

    generation: int
    protocol_name: str
    sync_deadline_ms: int


@dataclass(frozen=True, slots=True)
class Emptied:
    """The join phase ended without members."""

    generation: int


@dataclass(frozen=True, slots=True)
class AssignmentStored:
    """The leader's assignment of this generation is in force."""

    assignments: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class PartitionsAssigned:
    """Members own these partitions from now on, under these assignment generations (KIP-848: assigned)."""

    assigned: tuple[tuple[str, Partitions], ...]


@dataclass(frozen=True, slots=True)
class PartitionsRevoked:
    """A member no longer owns these partitions: it revoked them, and said so with its join."""

    member_id: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class PartitionsPending:
    """All that is assigned while another member still owns it (KIP-848: pending); replaces what was pending before."""

    pending: tuple[tuple[str, Partitions], ...]


@dataclass(frozen=True, slots=True)
class RebalanceEnded:
    """Who owns what as the rebalance ends."""

    previous_assignment: tuple[tuple[str, tuple[TopicPartition, ...]], ...]


@dataclass(frozen=True, slots=True)
class OffsetsCommitted:
    """Positions were accepted."""

    positions: tuple[tuple[TopicPartition, Position], ...]


@dataclass(frozen=True, slots=True)
class GroupUnloaded:
    """The coordinator gave the group up."""

    reason: str


@dataclass(frozen=True, slots=True)
class GroupResumed:
    """A new coordinator run took over: requests parked at the old one are void, all members are to rejoin."""

    config: GroupConfig
    at_ms: int
    phase: JoinPhase | None


Record: TypeAlias = (
    GroupCreated
    | SerialTaken
    | IdIssued
    | IdDropped
    | MemberAdded
    | MemberUpdated
    | MemberReplaced
    | MemberRemoved
    | LeaderElected
    | JoinParked
    | JoinsAnswered
    | SyncParked
    | SyncsAnswered
    | SessionRenewed
    | SessionsChecked
    | RebalanceStarted
    | JoinPhaseExtended
    | GenerationStarted
    | Emptied
    | AssignmentStored
    | PartitionsAssigned
    | PartitionsRevoked
    | PartitionsPending
    | RebalanceEnded
    | OffsetsCommitted
    | GroupUnloaded
    | GroupResumed
)
