"""Requests, replies, events and actions of the group, as frozen values in Kafka's words.

Everything that enters or leaves the pure core is one of these values.  Times are integers in
milliseconds, offsets and partitions plain integers (Kafka: ``JoinGroupRequest`` v9, ``SyncGroupRequest`` v5,
``HeartbeatRequest`` v4, ``LeaveGroupRequest`` v5, ``OffsetCommitRequest`` v9, ``OffsetFetchRequest`` v8; the
metadata and assignments that they carry as bytes are ``Subscription`` and partitions here).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple, TypeAlias, get_args

from msgspec import Meta, Struct, field

from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.protocol.reasons import Reason
from sparkcohort.runtime.protocol.wire_types import Int64, Natural, String

UNKNOWN_MEMBER = ""  # a joiner without an id (Kafka: JoinGroupRequest.UNKNOWN_MEMBER_ID)
NO_GENERATION = -1
MAX_NAME: Final = 255
MAX_CORES: Final = 1_024
"""Tasks that one executor runs at once: for each a batch may get a slot."""

Name: TypeAlias = Annotated[str, Meta(max_length=MAX_NAME)]


class Message(Struct, frozen=True, forbid_unknown_fields=True):
    """A value that goes over the wire, or into and out of the core; two with equal fields are equal."""


class ProcessInfo(Message, frozen=True):
    """What an agent states of its process when it joins."""

    executor: Name = "?"
    host: Name = ""
    cores: Annotated[int, Meta(ge=1, le=MAX_CORES)] = 1
    pid: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    address: Name = ""


class Subscription(Message, frozen=True):
    """A member's topics, and what it still holds; ``owned`` were assigned in or before ``generation``.

    (Kafka: ``ConsumerProtocolSubscription``, with KIP-429's owned partitions, KIP-792's generation and KIP-881's rack.)
    """

    topics: tuple[String, ...] = ()
    owned: tuple[TopicPartition, ...] = ()
    generation: Int64 = NO_GENERATION
    rack: Name = ""
    process: ProcessInfo = ProcessInfo()


Assignments: TypeAlias = tuple[tuple[String, tuple[TopicPartition, ...]], ...]
"""Partitions by member id."""


# --- requests -----------------------------------------------------------------------------------


class JoinGroup(Message, frozen=True):
    """Enter the group, or re-enter it for a rebalance; parked until the join phase completes.

    ``protocols`` are the names of the assignors that the member offers, best first; it states the same for each.
    ``attempt`` counts the member's joins: a join that arrives after a later one is recognized by it; 0: not counted.  Kafka has
    no such field: its coordinator does not take a member's partitions from a join.
    """

    member_id: String
    group_instance_id: String
    client_id: String
    client_host: String
    session_timeout_ms: Int64
    rebalance_timeout_ms: Int64
    protocols: tuple[String, ...]
    subscription: Subscription = Subscription()
    reason: String = ""
    attempt: Int64 = 0


class SyncGroup(Message, frozen=True):
    """Bring (leader) or ask for (each member) the assignment of one generation; parked until the leader's SyncGroup."""

    member_id: String
    group_instance_id: String
    generation: Int64
    assignments: Assignments = ()  # the leader's only


class Heartbeat(Message, frozen=True):
    """Show that a member lives."""

    member_id: String
    group_instance_id: String
    generation: Int64


class LeavingMember(Message, frozen=True):
    """One member of a batch leave (KIP-345)."""

    member_id: String
    group_instance_id: String
    reason: String = ""


class LeaveGroup(Message, frozen=True):
    """Take members out of the group."""

    members: tuple[LeavingMember, ...]


class CommittedPosition(NamedTuple):
    """One partition of an OffsetCommit: the position, and the assignment generation under which it is owned."""

    topic: String
    partition: Natural
    offset: Natural
    assignment_generation: Int64


class OffsetCommit(Message, frozen=True):
    """Commit positions; fenced per partition (see ``group``)."""

    member_id: String
    group_instance_id: String
    generation: Int64
    offsets: tuple[CommittedPosition, ...]


class OffsetFetch(Message, frozen=True):
    """Ask for committed positions; an empty tuple asks for all."""

    partitions: tuple[TopicPartition, ...] = ()


Request: TypeAlias = JoinGroup | SyncGroup | Heartbeat | LeaveGroup | OffsetCommit | OffsetFetch

# --- replies ------------------------------------------------------------------------------------


class JoinedMember(Message, frozen=True):
    """A member as its leader sees it."""

    member_id: String
    group_instance_id: String
    subscription: Subscription


class JoinGroupReply(Message, frozen=True):
    """The outcome of a join; ``members`` is filled for the leader only."""

    error: ErrorCode
    generation: Int64 = NO_GENERATION
    protocol_name: String = ""
    leader: String = ""
    member_id: String = UNKNOWN_MEMBER
    members: tuple[JoinedMember, ...] = ()
    message: String = ""


class SyncGroupReply(Message, frozen=True):
    """The member's assignment of this generation."""

    error: ErrorCode
    assignment: tuple[TopicPartition, ...] = ()
    message: String = ""


class HeartbeatReply(Message, frozen=True):
    """The answer to a heartbeat."""

    error: ErrorCode
    message: String = ""


class LeaveGroupReply(Message, frozen=True):
    """The answer to a leave: one error per member, in the order asked."""

    error: ErrorCode
    members: tuple[tuple[LeavingMember, ErrorCode], ...] = ()
    message: String = ""


class OffsetCommitReply(Message, frozen=True):
    """One error per partition, in the order asked."""

    partitions: tuple[tuple[TopicPartition, ErrorCode], ...]
    message: String = ""


class OffsetFetchReply(Message, frozen=True):
    """Committed offsets; -1 where there is none (Kafka: OffsetFetchResponse.INVALID_OFFSET)."""

    error: ErrorCode
    offsets: tuple[tuple[TopicPartition, Int64], ...] = ()
    message: String = ""


Reply: TypeAlias = (
    JoinGroupReply | SyncGroupReply | HeartbeatReply | LeaveGroupReply | OffsetCommitReply | OffsetFetchReply
)

REPLIES: Final[Mapping[type[Request], type[Reply]]] = dict(zip(get_args(Request), get_args(Reply), strict=True))

# --- events into, and actions out of, group.step --------------------------------------------------


class Received(Message, frozen=True):
    """A request arrived; ``correlation`` names it in the reply."""

    correlation: int
    request: Request


class Tick(Message, frozen=True):
    """Only time has passed; deadlines at or before ``now`` are acted upon."""


class Trigger(Message, frozen=True):
    """The leader's shell asks for a rebalance (topics changed, an operator asked: KIP-568)."""

    reason: Reason


class Unload(Message, frozen=True):
    """The coordinator gives the group up (fenced by a newer driver, or shutting down): parked requests get an error."""

    reason: str


class Resume(Message, frozen=True):
    """A new coordinator run goes on with the group of its predecessor's journal; it is the run's first event.

    Generations begin above ``first_generation`` and above those in the journal; ``member_id_salt`` is the run's.
    """

    first_generation: int
    member_id_salt: str = ""


Event: TypeAlias = Received | Tick | Trigger | Unload | Resume


class Answer(Message, frozen=True):
    """Send ``reply`` to the request with this correlation."""

    correlation: int
    reply: Reply


class PushRejoin(Message, frozen=True):
    """Push to a member, over its open stream, that it is to rejoin; ``generation`` is the one that ends."""

    member_id: str
    reason: str
    generation: int = NO_GENERATION


class Refused(Message, frozen=True):
    """A request was refused; counted by request kind and error name."""

    request: str
    error: ErrorCode
    member_id: str
    partitions: int = 1  # how many partitions of a commit were refused; 1 for other requests


class Rebalanced(Message, frozen=True):
    """A rebalance ended: the leader's assignment was stored.  For the log line and the history."""

    generation: int
    reason: Reason
    started_ms: int
    ended_ms: int
    protocol_name: str
    members: tuple[str, ...]
    previous_assignment: Mapping[str, tuple[TopicPartition, ...]] = field(default_factory=dict)
    assignment: Mapping[str, tuple[TopicPartition, ...]] = field(default_factory=dict)


class Removed(Message, frozen=True):
    """A member left the group or was removed from it."""

    member_id: str
    reason: str


Action: TypeAlias = Answer | PushRejoin | Refused | Rebalanced | Removed
