"""Who owns which partition, since which generation: a fence of the group's own, beside Kafka's.

Kafka's coordinator doesn't look into assignments.  This one does, through the embedded protocol, and keeps one owner
per partition at any time: a partition that the leader gives to another member stays its owner's until the next join
of that member no longer claims it, or the member is gone.  Bytes that can't be read name no partitions, as in Kafka,
where an unparsable subscription is no error of the coordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkcohort.runtime.group import records as r

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sparkcohort.runtime.group.context import StepContext
    from sparkcohort.runtime.group.state import Group, GroupMember
    from sparkcohort.runtime.protocol.partitions import TopicPartition


def owners(group: Group) -> dict[TopicPartition, str]:
    """The owner of each owned partition."""
    return {tp: member_id for member_id, partitions in group.owned.items() for tp in partitions}


def holdings(group: Group) -> dict[str, tuple[TopicPartition, ...]]:
    """The partitions of each member, sorted; members without any included."""
    return {member_id: tuple(sorted(group.owned.get(member_id, ()))) for member_id in group.members}


def assigned(group: Group, member_id: str) -> frozenset[TopicPartition]:
    """What the stored assignment gives to a member."""
    assignment = group.assignments.get(member_id, b"")
    try:
        return group.embedded.assigned(assignment) if assignment else frozenset()
    except ValueError:
        return frozenset()


def assign(context: StepContext) -> None:
    """Apply the stored assignment: what is kept keeps its generation, what is free is assigned, the rest is pending."""
    group = context.group
    owner_by_partition = owners(group)
    now_assigned: dict[str, list[tuple[TopicPartition, int]]] = {}
    now_pending: dict[str, list[tuple[TopicPartition, int]]] = {}
    for member_id in group.members:
        for tp in sorted(assigned(group, member_id)):
            owner = owner_by_partition.setdefault(tp, member_id)
            if owner != member_id:  # two-step revocation (KIP-429): it waits until the owner has revoked
                generation = group.pending_assignments.get(member_id, {}).get(tp, group.generation)
                now_pending.setdefault(member_id, []).append((tp, generation))
            elif tp not in group.owned.get(member_id, ()):
                now_assigned.setdefault(member_id, []).append((tp, group.generation))
    if now_pending or group.pending_assignments:
        context.record(r.PartitionsPending(_as_tuples(now_pending)))
    if now_assigned:
        context.record(r.PartitionsAssigned(_as_tuples(now_assigned)))


def has_lost(group: Group, member_id: str) -> bool:
    """Whether a member that comes back with its old metadata misses something that it has been assigned since.

    It has yet to get what this generation assigned.  What an earlier one did, it has lost, or never got.
    """
    generations = group.owned.get(member_id, {})
    older = {tp for tp, generation in generations.items() if generation < group.generation}
    return bool(older) and not older <= _claims(group, group.members[member_id])


def revoke_unclaimed(context: StepContext, member: GroupMember) -> None:
    """A member that joins again owns no more than it claims; what it gave up goes to the member for which it is pending."""
    member_id = member.member_id
    owned = context.group.owned.get(member_id, {})
    pending = context.group.pending_assignments.get(member_id, {})
    if not owned and not pending:
        return
    claims = _claims(context.group, member)
    if not pending.keys() <= claims:  # it never got the assignment with these
        all_pending = {m: dict(p) for m, p in context.group.pending_assignments.items()}
        all_pending[member_id] = {tp: generation for tp, generation in pending.items() if tp in claims}
        context.record(r.PartitionsPending(_as_tuples({m: p.items() for m, p in all_pending.items() if p})))
    revoked = tuple(sorted(tp for tp in owned if tp not in claims))
    if revoked:
        context.record(r.PartitionsRevoked(member_id, revoked))
        assign_pending(context, revoked)


def assign_pending(context: StepContext, partitions: Iterable[TopicPartition]) -> None:
    """Assign partitions that no member owns any more to the members for which they are pending."""
    pending = context.group.pending_assignments
    if not pending:
        return
    now_assigned: dict[str, list[tuple[TopicPartition, int]]] = {}
    for tp in partitions:
        successor = next((m for m in context.group.members if tp in pending.get(m, ())), None)
        if successor is not None:
            now_assigned.setdefault(successor, []).append((tp, pending[successor][tp]))
    if now_assigned:
        context.record(r.PartitionsAssigned(_as_tuples(now_assigned)))


def inherit(context: StepContext, member_id: str, old_partitions: Iterable[TopicPartition]) -> None:
    """A static member that took its slot back in Stable owns its stored assignment, as of the current generation.

    What another member has yet to give up is pending again: the new process knows no generation but the current one.
    """
    group = context.group
    owner_by_partition = owners(group)
    assignment = [(tp, group.generation) for tp in sorted(assigned(group, member_id))]
    blocked = [(tp, generation) for tp, generation in assignment if tp in owner_by_partition]
    if blocked:
        pending = {name: tuple(partitions.items()) for name, partitions in group.pending_assignments.items()}
        context.record(r.PartitionsPending(_as_tuples({**pending, member_id: blocked})))
    granted = [(tp, generation) for tp, generation in assignment if tp not in owner_by_partition]
    if granted:
        context.record(r.PartitionsAssigned(((member_id, tuple(granted)),)))
    inherited = {tp for tp, _ in granted}
    assign_pending(context, [tp for tp in old_partitions if tp not in inherited])


def same_subscription(group: Group, old: GroupMember, new: GroupMember) -> bool:
    """Whether two members ask for the same under the group's protocol; bytes that can't be read are compared as such."""
    first, second = old.metadata(group.protocol_name), new.metadata(group.protocol_name)
    try:
        return first == second or group.embedded.subscription(first) == group.embedded.subscription(second)
    except ValueError:
        return False


def _claims(group: Group, member: GroupMember) -> set[TopicPartition]:
    """What a member says it still holds, under any of the protocols that it offers."""
    claims: set[TopicPartition] = set()
    for metadata in {protocol.metadata for protocol in member.protocols}:
        try:
            claims |= group.embedded.claimed(metadata)
        except ValueError:
            continue
    return claims


def _as_tuples(
    by_member: Mapping[str, Iterable[tuple[TopicPartition, int]]],
) -> tuple[tuple[str, r.Partitions], ...]:
    return tuple((member_id, tuple(partitions)) for member_id, partitions in by_member.items())
