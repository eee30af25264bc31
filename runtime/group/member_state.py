"""A member's values: its states, its configuration, itself, what happens to it and what it wants done."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from sparkcohort.runtime.group.state import EMPTY
from sparkcohort.runtime.protocol import messages as p

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sparkcohort.runtime.protocol.error_codes import ErrorCode
    from sparkcohort.runtime.protocol.messages import JoinedMember
    from sparkcohort.runtime.protocol.partitions import TopicPartition


PARKED_MARGIN_MS = 5_000  # Kafka: AbstractCoordinator.JOIN_GROUP_TIMEOUT_LAPSE
LEAST_TIMEOUT_MS = 500


class MemberState(StrEnum):
    """A member's states."""

    UNJOINED = "Unjoined"
    JOINING = "Joining"
    COMPUTING = "Computing"  # leader only: the assignor runs
    SYNCING = "Syncing"
    STABLE = "Stable"
    REVOKING = "Revoking"  # assigned, and still giving up what it no longer has
    STOPPING = "Stopping"  # giving up everything
    LEFT = "Left"
    FAILED = "Failed"


class MemberConfig(Struct, frozen=True):
    """What a member is set up with; times in ms, with Kafka's meanings."""

    client_id: str
    client_host: str
    group_instance_id: str
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    topics: tuple[str, ...]
    assignors: tuple[str, ...]
    rack: str = ""
    process: p.ProcessInfo = p.ProcessInfo()
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000


class Member(Struct, frozen=True):
    """A member; beside each field its invariant."""

    config: MemberConfig
    state: MemberState = MemberState.UNJOINED
    member_id: str = p.UNKNOWN_MEMBER  # the group's, by the answer to a join
    generation: int = p.NO_GENERATION  # of the last join that was answered; none once it was unknown or fell behind
    protocol_name: str = ""
    leads: bool = False  # in this generation; without one it never does
    # What it may read, each with its assignment generation; empty as soon as the group doesn't know it.
    owned: Mapping[TopicPartition, int] = EMPTY
    revoking: frozenset[TopicPartition] = frozenset()  # owned until it is done: their commits are still accepted
    outstanding: p.JoinGroup | p.SyncGroup | None = None  # one at a time: a reply to any other is void
    joins: int = 0  # sent so far; each has a higher number than the one before
    revoke_reason: str = ""  # why it revokes: the reason of the join or the leave that follows
    rejoin_after: int | None = None  # a push for this generation came while a request was outstanding
    heartbeat_sent: tuple[str, int] | None = None  # the id and generation of the one that is unanswered
    heartbeat_due_ms: int | None = None  # None exactly where none is sent: before a join is answered, and at the end
    retry_due_ms: int | None = None  # when what is outstanding is sent again
    attempts: int = 0  # in a row without an answer; the back-off grows with it
    unreachable_since_ms: int | None = None  # the first failure after the last answer, not the last answer


# --- events -------------------------------------------------------------------------------------


class Start(Struct, frozen=True):
    """Join the group."""


class Replied(Struct, frozen=True):
    """The coordinator answered; by its ``request`` a reply that comes too late is dropped (``is_overtaken``)."""

    reply: p.Reply
    request: p.Request | None = None


class Unreachable(Struct, frozen=True):
    """A request (its class name) got no answer."""

    request: str


class Pushed(Struct, frozen=True):
    """The coordinator pushed "rejoin"; ``generation`` is that of ``PushRejoin``, -1 if the shell doesn't know it."""

    reason: str
    generation: int = p.NO_GENERATION


class AssignmentComputed(Struct, frozen=True):
    """The leader's assignor is done; ``generation`` is that of ``ComputeAssignment``, or -1: not kept."""

    assignments: p.Assignments
    generation: int = p.NO_GENERATION


class RevocationDone(Struct, frozen=True):
    """The shell has finished giving up what ``Revoke`` named."""


class Resubscribe(Struct, frozen=True):
    """The topics changed (a pattern matched more)."""

    topics: tuple[str, ...]


class Stop(Struct, frozen=True):
    """Give everything up and leave."""

    reason: str


MemberEvent: TypeAlias = (
    Start | Replied | Unreachable | Pushed | AssignmentComputed | RevocationDone | Resubscribe | Stop | p.Tick
)

# --- actions ------------------------------------------------------------------------------------


class Send(Struct, frozen=True):
    """Send a request; its reply comes back as ``Replied``, its failure as ``Unreachable``."""

    request: p.Request


class ComputeAssignment(Struct, frozen=True):
    """Run the assignor of this name over the members, then say ``AssignmentComputed``; for leaders only."""

    protocol_name: str
    members: tuple[JoinedMember, ...]
    generation: int


class Assigned(Struct, frozen=True):
    """These partitions are the member's from now on, under these assignment generations."""

    added: Mapping[TopicPartition, int]


class Revoke(Struct, frozen=True):
    """Finish with these partitions (commits of them are still accepted), then say ``RevocationDone``."""

    partitions: frozenset[TopicPartition]


class PartitionsLost(Struct, frozen=True):
    """These partitions are not the member's any more; a commit of them would be refused."""

    partitions: frozenset[TopicPartition]


class Failed(Struct, frozen=True):
    """The member has ended for good."""

    error: ErrorCode
    message: str


MemberAction: TypeAlias = Send | ComputeAssignment | Assigned | Revoke | PartitionsLost | Failed


def timeout_ms(config: MemberConfig, request: p.Request) -> int:
    """How long a member waits for a reply: joins and syncs are parked until all members are there (KIP-62)."""
    if isinstance(request, p.JoinGroup | p.SyncGroup):
        return config.rebalance_timeout_ms + PARKED_MARGIN_MS
    return max(config.session_timeout_ms // 3, LEAST_TIMEOUT_MS)


def commit(member: Member, positions: Mapping[TopicPartition, int]) -> p.OffsetCommit | None:
    """A commit of those positions that are the member's to commit; None if there are none."""
    offsets = tuple(
        p.CommittedPosition(tp.topic, tp.partition, offset, member.owned[tp])
        for tp, offset in sorted(positions.items())
        if tp in member.owned
    )
    config = member.config
    return p.OffsetCommit(member.member_id, config.group_instance_id, member.generation, offsets) if offsets else None


def is_overtaken(member: Member, request: p.Request | None) -> bool:
    """Whether a reply is to a request whose place another has taken (Kafka: ``generationUnchanged``)."""
    match request:
        case p.JoinGroup() | p.SyncGroup():
            return request != member.outstanding
        case p.Heartbeat(member_id, _, generation):
            return (member_id, generation) != member.heartbeat_sent
    return False
