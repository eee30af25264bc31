"""A member's history in lines, from the records of all steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.group.summary import MOST_NAMED, ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sparkcohort.runtime.group.records import GroupRecord, Partitions
    from sparkcohort.runtime.protocol.partitions import TopicPartition


def placed_lines(records: Iterable[GroupRecord], member_id: str) -> Iterator[tuple[int, str]]:
    """What happened to a member, a line for each record about it, with the record's place, from 0; heartbeats are left out.

    The records may begin in mid-life.
    """
    records = tuple(records)
    present = _was_member(records, member_id)
    for place, record in enumerate(records):
        text = line(record, member_id)
        if isinstance(record, r.MemberAdded | r.MemberReplaced | r.MemberRemoved) and text:
            present = not text.startswith(_ENDS)
        if present and not text:
            text = _group_line(record)
        if text:
            yield place, text


def line(record: GroupRecord, member_id: str) -> str:
    """What one record says of a member itself; empty when it says nothing."""
    return _membership_line(record, member_id) or _partitions_line(record, member_id)


def member_ids(record: GroupRecord) -> tuple[str, ...]:
    """The ids of the members that a record is about; none where it concerns the group as a whole."""
    match record:
        case r.MemberAdded(member):
            return (member.member_id,)
        case r.MemberReplaced(old_id, member):
            return (old_id, member.member_id)
        case r.PartitionsAssigned(shares):
            return tuple(member_id for member_id, _ in shares)
        case r.OffsetsCommitted(positions):
            return tuple(dict.fromkeys(position.member_id for _, position in positions))
        case (
            r.MemberRemoved(member_id)
            | r.JoinParked(member_id)
            | r.SyncParked(member_id)
            | r.PartitionsRevoked(member_id)
        ):
            return (member_id,)
    return ()


def _was_member(records: Iterable[GroupRecord], member_id: str) -> bool:
    """Whether a member was in the group before these records, by the first that names it."""
    first = next((record for record in records if member_id in member_ids(record)), None)
    match first:
        case None | r.MemberAdded():
            return False
        case r.MemberReplaced(old_id):
            return old_id == member_id
    return True


_ENDS = ("was removed", "was replaced")


def _group_line(record: GroupRecord) -> str:
    """The line of a record that concerns every member."""
    match record:
        case r.RebalanceStarted(phase):
            return f"a rebalance began: {phase.reason}"
        case r.GroupResumed():
            return "was to rejoin: the coordinator was restarted"
        case r.GroupUnloaded(reason):
            return f"the group was given up: {reason}"
        case r.GenerationStarted(generation, protocol_name):
            return f"generation {generation} began, protocol {protocol_name}"
    return ""


def _membership_line(record: GroupRecord, member_id: str) -> str:
    match record:
        case r.MemberAdded(member) if member.member_id == member_id:
            return f"became a member, from {member.client_host}"
        case r.MemberReplaced(old_id, member) if old_id == member_id:
            return f"was replaced by {member.member_id}"
        case r.MemberReplaced(old_id, member) if member.member_id == member_id:
            return f"took the place of {old_id}"
        case r.MemberRemoved(removed, reason) if removed == member_id:
            return f"was removed: {reason}"
        case r.JoinParked(joined) if joined == member_id:
            return "joined"
        case r.SyncParked(synced) if synced == member_id:
            return "synced"
    return ""


def _partitions_line(record: GroupRecord, member_id: str) -> str:
    match record:
        case r.PartitionsAssigned(grants):
            return _since_generation("owns", dict(grants).get(member_id, ()))
        case r.PartitionsRevoked(released, partitions) if released == member_id:
            return f"gave up {_names(partitions)}"
        case r.OffsetsCommitted(positions):
            offsets = [f"{tp.topic}-{tp.partition}={p.offset}" for tp, p in positions if p.member_id == member_id]
            return f"committed {' '.join(offsets)}" if offsets else ""
    return ""


def _since_generation(verb: str, partitions: Partitions) -> str:
    if not partitions:
        return ""
    return f"{verb} {_names(tp for tp, _ in partitions)} since generation {', '.join(_generations(partitions))}"


def _generations(partitions: Partitions) -> list[str]:
    return [str(generation) for generation in sorted({generation for _, generation in partitions})]


def _names(partitions: Iterable[TopicPartition]) -> str:
    tps = tuple(partitions)
    return " ".join(f"{tp.topic}-{tp.partition}" for tp in tps) if len(tps) <= MOST_NAMED else ranges(tps) or ""
