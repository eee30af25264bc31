"""What happened, in words."""

from __future__ import annotations

from collections.abc import Iterable

from sparkcohort.runtime.group import member_state as ms
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.partitions import TopicPartition
from tests.kit.group_laws import errors_of


def words(about: object) -> str:
    """An event, a request, a reply, in a line."""
    match about:
        case p.Received(_, request):
            return words(request)
        case ms.Replied(reply):
            return f"hears {words(reply)}"
        case p.JoinGroup(member_id, instance):
            owned = _names(about.subscription.owned)
            return f"JoinGroup of {member_id or instance or 'a newcomer'}, holding {owned}"
        case p.SyncGroup(member_id, _, generation, assignments):
            return f"SyncGroup of {member_id}, generation {generation}{', with the plan' if assignments else ''}"
        case p.Heartbeat(member_id, _, generation):
            return f"Heartbeat of {member_id}, generation {generation}"
        case p.OffsetCommit(member_id, _, _, offsets):
            commits = " ".join(f"{o.topic}-{o.partition}@{o.assignment_generation}={o.offset}" for o in offsets)
            return f"OffsetCommit of {member_id}: {commits}"
        case p.JoinGroupReply(error, generation, protocol, leader, member_id):
            return f"JoinGroup {error.name}: {member_id}, generation {generation}, {protocol}, led by {leader}"
        case p.SyncGroupReply(error):
            return f"SyncGroup {error.name}: {_names(about.assignment)}"
        case p.OffsetCommitReply() | p.HeartbeatReply() | p.LeaveGroupReply():
            return f"{type(about).__name__[:-5]} {', '.join(sorted(error.name for error in errors_of(about)))}"
    return str(about)


def _names(partitions: Iterable[TopicPartition]) -> str:
    return " ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(partitions)) or "nothing"
