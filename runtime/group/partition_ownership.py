"""Who owns which partition, since which generation: the group's own fence, apart from Kafka's.

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

    from sparkcohort.runtime.group.context import Turn
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


def assign(turn: Turn) -> None:
    """Let the stored assignment rule: what is kept keeps its generation, what is free is granted, the rest promised."""
    group = turn.group
    taken = owners(group)
    grants: dict[str, list[tuple[TopicPartition, int]]] = {}
    promises: dict[str, list[tuple[TopicPartition, int]]] = {}
    for member_id in group.members:
        for tp in sorted(assigned(group, member_id)):
            owner = taken.setdefault(tp, member_id)
            if owner != member_id:
                since = group.promised.get(member_id, {}).get(tp, group.generation)
                promises.setdefault(member_id, []).append((tp, since))
            elif tp not in group.owned.get(member_id, ()):
                grants.setdefault(member_id, []).append((tp, group.generation))
    if promises or group.promised:
        turn.record(r.Promised(_frozen(promises)))
    if grants:
        turn.record(r.Granted(_frozen(grants)))


def has_lost(group: Group, member_id: str) -> bool:
    """Whether a member that comes back with its old metadata misses something that it has been granted since.

    What this generation granted it has yet to hear of; what an earlier one did, it has heard of and lost, or never will.
    """
    mine = group.owned.get(member_id, {})
    older = {tp for tp, since in mine.items() if since < group.generation}
    return bool(older) and not older <= _claims(group, group.members[member_id])


def honour_claims(turn: Turn, member: GroupMember) -> None:
    """A member that joins again owns no more than it claims; what it gave up goes to whom it is promised."""
    member_id = member.member_id
    mine = turn.group.owned.get(member_id, {})
    promised = turn.group.promised.get(member_id, {})
    if not mine and not promised:
        return
    claims = _claims(turn.group, member)
    if not promised.keys() <= claims:  # it never heard of these
        heard = {m: dict(p) for m, p in turn.group.promised.items()}
        heard[member_id] = {tp: since for tp, since in promised.items() if tp in claims}
        turn.record(r.Promised(_frozen({m: p.items() for m, p in heard.items() if p})))
    gone = tuple(sorted(tp for tp in mine if tp not in claims))
    if gone:
        turn.record(r.Released(member_id, gone))
        keep_promises(turn, gone)


def keep_promises(turn: Turn, freed: Iterable[TopicPartition]) -> None:
    """Grant partitions that nobody owns any more to the members that they are promised to."""
    promised = turn.group.promised
    if not promised:
        return
    grants: dict[str, list[tuple[TopicPartition, int]]] = {}
    for tp in freed:
        heir = next((m for m in turn.group.members if tp in promised.get(m, ())), None)
        if heir is not None:
            grants.setdefault(heir, []).append((tp, promised[heir][tp]))
    if grants:
        turn.record(r.Granted(_frozen(grants)))


def inherit(turn: Turn, member_id: str, freed: Iterable[TopicPartition]) -> None:
    """A static member that took its slot back in Stable owns its stored assignment, as of the current generation.

    What another member has yet to give up is promised anew: the new process knows no generation but the current one.
    """
    group = turn.group
    taken = owners(group)
    given = [(tp, group.generation) for tp in sorted(assigned(group, member_id))]
    later = [(tp, since) for tp, since in given if tp in taken]
    if later:
        promised = {name: tuple(kept.items()) for name, kept in group.promised.items()}
        turn.record(r.Promised(_frozen({**promised, member_id: later})))
    mine = [(tp, since) for tp, since in given if tp not in taken]
    if mine:
        turn.record(r.Granted(((member_id, tuple(mine)),)))
    inherited = {tp for tp, _ in mine}
    keep_promises(turn, [tp for tp in freed if tp not in inherited])


def wants_the_same(group: Group, one: GroupMember, other: GroupMember) -> bool:
    """Whether two members ask for the same under the group's protocol; bytes that can't be read are compared as such."""
    before, after = one.metadata(group.protocol_name), other.metadata(group.protocol_name)
    try:
        return before == after or group.embedded.wanted(before) == group.embedded.wanted(after)
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


def _frozen(
    by_member: Mapping[str, Iterable[tuple[TopicPartition, int]]],
) -> tuple[tuple[str, r.Partitions], ...]:
    return tuple((member_id, tuple(partitions)) for member_id, partitions in by_member.items())
