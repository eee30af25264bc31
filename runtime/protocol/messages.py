"""Requests, replies, events and actions of the group, as frozen values in Kafka's words.

Everything that enters or leaves the pure core is one of these values.  Times are integers in
milliseconds, offsets and partitions plain integers, member metadata and assignments opaque bytes
(Kafka: ``JoinGroupRequest`` v9, ``SyncGroupRequest`` v5, ``HeartbeatRequest`` v4, ``LeaveGroupRequest`` v5,
``OffsetCommitRequest`` v9, ``OffsetFetchRequest`` v8, ``DescribeGroupsRequest`` v6, ``ListGroupsRequest`` v5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition

UNKNOWN_MEMBER = ""  # a joiner without an id (Kafka: JoinGroupRequest.UNKNOWN_MEMBER_ID)
NO_GENERATION = -1


class Protocol(NamedTuple):
    """One protocol a member offers: its name and the member's opaque metadata for it."""

    name: str
    metadata: bytes


# --- requests -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """Enter the group, or re-enter it for a rebalance; parked until the join phase completes.

    ``attempt`` counts the member's joins, so that one which was overtaken on its way is told from a new one; 0 is not
    counted (Kafka has no such field: it doesn't take a join for what its member owns).
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    reason: str = ""
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class SyncGroup:
    """Hand in (leader) or ask for (everyone) the assignment of one generation; parked until the leader's call."""

    member_id: str
    group_instance_id: str | None
    generation: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()  # (member id, assignment), the leader's only


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Tell that a member lives."""

    member_id: str
    group_instance_id: str | None
    generation: int


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """One member of a batch leave; an empty id with an instance id is a removal by an operator (KIP-345)."""

    member_id: str
    group_instance_id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Take members out of the group."""

    members: tuple[LeavingMember, ...]


class CommittedPosition(NamedTuple):
    """One partition of an OffsetCommit: the position, and the assignment generation under which it is owned."""

    topic: str
    partition: int
    offset: int
    assignment_generation: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """Commit positions; fenced per partition (see ``group``)."""

    member_id: str
    group_instance_id: str | None
    generation: int
    offsets: tuple[CommittedPosition, ...]


@dataclass(frozen=True, slots=True)
class OffsetFetch:
    """Ask for committed positions; an empty tuple asks for all."""

    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeGroup:
    """Ask for the state of the group and its members."""


@dataclass(frozen=True, slots=True)
class ListGroups:
    """Ask which groups there are, in these states and of these types, whatever the case; empty: any (KIP-518)."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


Request: TypeAlias = (
    JoinGroup | SyncGroup | Heartbeat | LeaveGroup | OffsetCommit | OffsetFetch | DescribeGroup | ListGroups
)

# --- replies ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as its leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinGroupReply:
    """The outcome of a join; ``members`` is filled for the leader only."""

    error: ErrorCode
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    member_id: str = UNKNOWN_MEMBER
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False
    message: str = ""


@dataclass(frozen=True, slots=True)
class SyncGroupReply:
    """The member's assignment of this generation."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""
    message: str = ""


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """The answer to a heartbeat."""

    error: ErrorCode
    message: str = ""


@dataclass(frozen=True, slots=True)
class LeaveGroupReply:
    """The answer to a leave: one error per member, in the order asked."""

    error: ErrorCode
    members: tuple[tuple[LeavingMember, ErrorCode], ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class OffsetCommitReply:
    """One error per partition, in the order asked."""

    partitions: tuple[tuple[TopicPartition, ErrorCode], ...]
    message: str = ""


@dataclass(frozen=True, slots=True)
class OffsetFetchReply:
    """Committed offsets; -1 where there is none (Kafka: OffsetFetchResponse.INVALID_OFFSET)."""

    error: ErrorCode
    offsets: tuple[tuple[TopicPartition, int], ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One member as DescribeGroup shows it; ``owned`` maps a partition to its assignment generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes
    owned: tuple[tuple[TopicPartition, int], ...]
    target: tuple[TopicPartition, ...]
    heartbeat_age_ms: int


@dataclass(frozen=True, slots=True)
class DescribeGroupReply:
    """The group as a value: state, generation, protocol, members, ids that were issued but not used yet."""

    error: ErrorCode
    state: str
    generation: int = 0
    protocol_type: str = ""
    protocol_name: str = ""
    leader: str = ""
    members: tuple[MemberDescription, ...] = ()
    pending_members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group in a list; ``group_type`` is always "classic" (Kafka: Group.GroupType)."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = "classic"


@dataclass(frozen=True, slots=True)
class ListGroupsReply:
    """The groups that the filter lets through: a coordinator has one, or none any more."""

    error: ErrorCode
    groups: tuple[ListedGroup, ...] = ()
    message: str = ""


Reply: TypeAlias = (
    JoinGroupReply
    | SyncGroupReply
    | HeartbeatReply
    | LeaveGroupReply
    | OffsetCommitReply
    | OffsetFetchReply
    | DescribeGroupReply
    | ListGroupsReply
)

# --- events into, and actions out of, group.step --------------------------------------------------


@dataclass(frozen=True, slots=True)
class Received:
    """A request arrived; ``correlation`` names it in the reply."""

    correlation: int
    request: Request


@dataclass(frozen=True, slots=True)
class Tick:
    """Only time has passed; deadlines at or before ``now`` are acted upon."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """The leader's shell asks for a rebalance (topics changed, an operator asked: KIP-568)."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unload:
    """The coordinator gives the group up (fenced by a newer driver, or shutting down): whoever waits is told so."""

    reason: str


@dataclass(frozen=True, slots=True)
class Resume:
    """A new coordinator run goes on with the group of its predecessor's journal; it is the run's first event.

    Generations begin above ``first_generation`` and above all that the journal knows; ``member_id_salt`` is the run's.
    """

    first_generation: int
    member_id_salt: str = ""


Event: TypeAlias = Received | Tick | Trigger | Unload | Resume


@dataclass(frozen=True, slots=True)
class Answer:
    """Send ``reply`` to the request with this correlation."""

    correlation: int
    reply: Reply


@dataclass(frozen=True, slots=True)
class PushRejoin:
    """Tell a member, over its open stream, to rejoin now; ``generation`` is the one that it is to leave behind."""

    member_id: str
    reason: str
    generation: int = NO_GENERATION


@dataclass(frozen=True, slots=True)
class Refused:
    """A request was refused; counted by request kind and error name."""

    request: str
    error: ErrorCode
    member_id: str
    partitions: int = 1  # how many partitions of a commit were refused; 1 for other requests


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """A rebalance ended (the leader's assignment was stored): what a log line and the history need."""

    generation: int
    reason: str
    started_ms: int
    ended_ms: int
    protocol_name: str
    members: tuple[str, ...]
    before: Mapping[str, tuple[TopicPartition, ...]] = field(default_factory=dict)
    after: Mapping[str, tuple[TopicPartition, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Removed:
    """A member left the group or was put out of it."""

    member_id: str
    reason: str


Action: TypeAlias = Answer | PushRejoin | Refused | Rebalanced | Removed
