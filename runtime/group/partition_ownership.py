"""Who owns which partition, since which generation: a fence of the group's own, beside Kafka's.

Kafka's coordinator doesn't look into assignments.  This one does, and keeps one owner
per partition at any time: what the leader gives to another member is not granted while its owner has it, that is until
the next join of the owner no longer claims it, or the owner is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkcohort.runtime.group import records as r

if TYPE_CHECKING:
    from sparkcohort.runtime.group.context import StepContext
    from sparkcohort.runtime.group.state import Group
    from sparkcohort.runtime.protocol.messages import JoinGroup
    from sparkcohort.runtime.protocol.partitions import TopicPartition


def owners(group: Group) -> dict[TopicPartition, str]:
    """The owner of each owned partition."""
    return {tp: member_id for member_id, partitions in group.owned.items() for tp in partitions}


def holdings(group: Group) -> dict[str, tuple[TopicPartition, ...]]:
    """The partitions of each member, sorted; members without any included."""
    return {member_id: tuple(sorted(group.owned.get(member_id, ()))) for member_id in group.members}


def assigned(group: Group, member_id: str) -> frozenset[TopicPartition]:
    """What the stored assignment gives to a member."""
    return frozenset(group.assignments.get(member_id, ()))


def assign(context: StepContext, *member_ids: str) -> None:
    """Apply the stored assignment to these members: what is kept keeps its generation, what no member owns is granted.

    The driver's leader gives nothing that another member owns (two-step revocation, KIP-429).
    """
    group = context.group
    owner_by_partition = owners(group)
    granted = []
    for member_id in member_ids:
        new = [tp for tp in sorted(assigned(group, member_id)) if tp not in owner_by_partition]
        owner_by_partition.update(dict.fromkeys(new, member_id))
        if new:
            granted.append((member_id, tuple((tp, group.generation) for tp in new)))
    if granted:
        context.record(r.PartitionsAssigned(tuple(granted)))


def has_lost(group: Group, member_id: str) -> bool:
    """Whether a member that comes back with its old metadata misses something that it has been assigned since.

    It has yet to get what this generation assigned.  What an earlier one did, it has lost, or never got.
    """
    generations = group.owned.get(member_id, {})
    older = {tp for tp, generation in generations.items() if generation < group.generation}
    return not older <= set(group.members[member_id].subscription.owned)


def revoke_unclaimed(context: StepContext, member: JoinGroup) -> None:
    """A member that joins again owns no more than it claims."""
    owned = context.group.owned.get(member.member_id, {})
    if revoked := tuple(sorted(owned.keys() - set(member.subscription.owned))):
        context.record(r.PartitionsRevoked(member.member_id, revoked))
