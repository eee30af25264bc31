"""The one gate that every member's request passes before anything else looks at it.

Instance id with its member id, then generation, in this order: so a replaced member learns that it is fenced, not that
it is unknown.  Every member has an instance id (Kafka: ``GroupCoordinator.validateCurrentMember``; librdkafka's mock: ``check_state``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sparkcohort.runtime.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from sparkcohort.runtime.group.state import Group


class Verdict(NamedTuple):
    """NONE lets the request pass; any other error has its reason in ``message``."""

    error: ErrorCode
    message: str = ""


PASS = Verdict(ErrorCode.NONE)


def gate(group: Group, instance_id: str, member_id: str, generation: int | None) -> Verdict:
    """Check a request's sender; a generation of None is not checked (joins, leaves, and commits: see ``partition_ownership``)."""
    holder = group.instances.get(instance_id)
    if holder is None:
        past = _past(group, member_id)
        return Verdict(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has instance id {instance_id}{past}")
    if holder != member_id:
        return Verdict(ErrorCode.FENCED_INSTANCE_ID, f"instance id {instance_id} belongs to {holder} now")
    if generation is not None and generation != group.generation:
        return Verdict(ErrorCode.ILLEGAL_GENERATION, f"the group is in generation {group.generation}, not {generation}")
    return PASS


def _past(group: Group, member_id: str) -> str:
    """What became of a member that is gone, as far as remembered."""
    return next((f": {story}" for former_id, story in reversed(group.former_members) if former_id == member_id), "")
