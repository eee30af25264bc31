"""One step in the making: the group so far, the actions and the records of it.

The only mutable thing in the core; it lives from the first to the last line of one ``group.step``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition

if TYPE_CHECKING:
    from sparkcohort.runtime.group.records import GroupRecord
    from sparkcohort.runtime.group.state import Group

# Errors that tell a member what to do next; every other error is a refusal (see the essay in ``table``).
SIGNALS = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})


@dataclass(slots=True)
class StepContext:
    """The working state of one step at ``now_ms``."""

    group: Group
    now_ms: int
    actions: list[p.Action] = field(default_factory=list)
    records: list[GroupRecord] = field(default_factory=list)

    def record(self, record: GroupRecord) -> None:
        """Applies a record to the group and keeps it."""
        self.group = record.apply(self.group)
        self.records.append(record)

    def answer(self, correlation: int, reply: p.Reply) -> None:
        """Answer a request."""
        self.actions.append(p.Answer(correlation, reply))

    def answer_error(self, correlation: int, request: p.Request, error: ErrorCode, message: str = "") -> None:
        """Answer a request with an error, and count it if it is a refusal."""
        self.answer(correlation, error_reply(request, error, message))
        partitions = len(request.offsets) if isinstance(request, p.OffsetCommit) else 1
        if error not in SIGNALS and partitions:
            self.count_refusal(request, error, partitions)

    def count_refusal(self, request: p.Request, error: ErrorCode, count: int = 1, member_id: str | None = None) -> None:
        """Count a refusal of one or more partitions."""
        sender = getattr(request, "member_id", "") if member_id is None else member_id
        self.actions.append(p.Refused(type(request).__name__, error, sender, count))


def error_reply(request: p.Request, error: ErrorCode, message: str = "") -> p.Reply:
    """The reply to ``request`` that carries nothing but an error."""
    match request:
        case p.JoinGroup(member_id):
            return p.JoinGroupReply(error, member_id=member_id, message=message)
        case p.SyncGroup():
            return p.SyncGroupReply(error, message=message)
        case p.Heartbeat():
            return p.HeartbeatReply(error, message)
        case p.LeaveGroup(members):
            return p.LeaveGroupReply(error, tuple((member, error) for member in members), message)
        case p.OffsetCommit():
            partitions = tuple((TopicPartition(o.topic, o.partition), error) for o in request.offsets)
            return p.OffsetCommitReply(partitions, message)
    return p.OffsetFetchReply(error, message=message)
