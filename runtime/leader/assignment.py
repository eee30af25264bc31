"""What the leader of a group does between JoinGroup and SyncGroup: run the assignor that the members voted for.

The coordinator never reads what members say; the leader does, here: subscriptions in, one assignment each out,
both as the bytes that JoinGroup and SyncGroup carry (Kafka: ConsumerCoordinator.onLeaderElected).

Two safeguards hold whatever the assignor: a partition that somebody else may still be reading is held back until
the follow-up round (so even ``range`` moves partitions without a stop of the world), and a plan that isn't
complete, exclusive and to subscribers only is refused with the assignor's name.

Whether the assignor rules in a round at all is decided in ``delayed_rebalance``: while somebody is waited for, nobody gives
anything up (``stay``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from sparkcohort.assignors import ASSIGNORS, Assignor, MemberSubscription, find_assignor, validate
from sparkcohort.assignors.api import NO_RACKS, Partition, Racks, subscribers
from sparkcohort.assignors.api import Assignment as Given
from sparkcohort.assignors.solver import revocation
from sparkcohort.assignors.solver.ownership import Ownership, resolve_ownership
from sparkcohort.assignors.solver.packed import Packed, pack
from sparkcohort.assignors.solver.space import NO_MEMBER, Ints, distinct, give_to_least
from sparkcohort.runtime.leader.reachable_assignment import moved_off
from sparkcohort.runtime.protocol.consumer_protocol import (
    AssignmentWriter,
    MalformedConsumerProtocol,
    Subscription,
    decode_subscription,
)
from sparkcohort.runtime.protocol.messages import JoinedMember
from sparkcohort.runtime.protocol.partitions import TopicPartition

__all__ = ["GroupAssignment", "InvalidAssignment", "JoinedMember", "assign", "keep", "plan", "stay", "subscriptions"]

Since: TypeAlias = Mapping[str, Mapping[TopicPartition, int]]
Assignments: TypeAlias = tuple[tuple[str, bytes], ...]
Subscriptions: TypeAlias = Mapping[str, MemberSubscription]
Barred: TypeAlias = Mapping[str, Collection[Partition]]
NOBODY_BARRED: Barred = MappingProxyType({})
NOTHING_KNOWN: Since = MappingProxyType({})
_BLOCK: Final = 1 << 14
MOST_WORDS: Final = 500
WHOLE: Final[Mapping[str, Sequence[int]]] = MappingProxyType({})


class InvalidAssignment(ValueError):
    """An assignor broke its contract."""


def assign(
    protocol_name: str,
    members: Sequence[JoinedMember],
    topics: Mapping[str, int],
    since: Since,
    *,
    only: Mapping[str, Sequence[int]] | None = None,
    racks: Racks = NO_RACKS,
) -> Assignments:
    """Compute the assignments of one generation, by member id, members that get nothing included.

    ``topics`` has the number of partitions of each; ``since`` is what the coordinator knows of each member's
    partitions, with the generation of acquiring.  It counts as claimed too: a static member that hasn't rejoined
    holds what its old metadata doesn't name.  ``only`` lists the partitions of topics that are read in part (Spark's
    ``assign``): assignors count partitions from 0, so they are shown those as 0, 1, 2 ….  ``racks`` are those of
    each partition's replicas, by its number in Kafka.
    Raises UnknownAssignor, and InvalidAssignment naming the assignor.
    """
    return plan(protocol_name, subscriptions(members, since), topics, only=only, racks=racks).assignments


class GroupAssignment(NamedTuple):
    """What an assignor wants in this round, and whether it takes partitions from members that hold them."""

    assignments: Assignments
    revokes: bool


def subscriptions(members: Sequence[JoinedMember], since: Since) -> dict[str, MemberSubscription]:
    """What each member wants and holds: one that can't be read wants nothing, and holds what it is known to have."""
    return {joined.member_id: _subscription(joined, since.get(joined.member_id, {})) for joined in members}


def plan(
    protocol_name: str,
    said: Subscriptions,
    topics: Mapping[str, int],
    *,
    only: Mapping[str, Sequence[int]] | None = None,
    racks: Racks = NO_RACKS,
    assignors: Mapping[str, Assignor] = ASSIGNORS,
    barred: Barred = NOBODY_BARRED,
) -> GroupAssignment:
    """Run the assignor, one of ``assignors`` by name (see ``assign``); nobody gets what it is ``barred`` from."""
    assignor = find_assignor(protocol_name, assignors)
    only = _existing(topics, only)
    barred = _inward(barred, only)
    packed, ownership = run_assignor(assignor, protocol_name, *assignor_input(said, topics, only=only, racks=racks))
    target, revokes = revocation.adjust_for_generation(moved_off(packed, ownership, barred), ownership)
    layout = _layout(target)
    del ownership, packed, target  # large, and writing takes as much again
    return GroupAssignment(_encode(layout, only), revokes)


def run_assignor(
    assignor: Assignor, name: str, topics: Mapping[str, int], members: Subscriptions, racks: Racks
) -> tuple[Packed, Ownership]:
    """What the assignor answers, and who owns what.  Raises InvalidAssignment naming it, or what it raises itself."""
    given = _checked_answer(assignor, name, topics, members, racks)
    ownership = _ownership(given, topics, members)
    packed = given if isinstance(given, Packed) and given.space is ownership.space else pack(ownership.space, given)
    if packed is None or not _is_sound(packed, ownership):
        raise InvalidAssignment(f"assignor {name}: {_problem(given, topics, members, ownership)}")
    return packed, ownership


def blamed(name: str, error: BaseException) -> str:
    """What an assignor did, in words that name it."""
    if isinstance(error, InvalidAssignment):
        said = str(error)
        return said if said.startswith("assignor ") else f"assignor {name}: {said}"
    return f"assignor {name} raised {words(error)}"


def words(error: BaseException) -> str:
    """The error in words; a user's exception may be unable to say what it is."""
    try:
        return f"{type(error).__name__}: {error}"[:MOST_WORDS]
    except Exception:  # noqa: BLE001  its own mistake
        return type(error).__name__


def _inward(barred: Barred, only: Mapping[str, Sequence[int]]) -> Barred:
    """What members are barred from in the assignor's numbers."""
    if not barred or not only:
        return barred
    places = {(topic, number): at for topic, numbers in only.items() for at, number in enumerate(numbers)}
    return {
        member: [TopicPartition(tp[0], places.get((tp[0], tp[1]), tp[1])) for tp in partitions]
        for member, partitions in barred.items()
    }


def _ownership(given: Given, topics: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Ownership:
    """Who owns what; the sticky family has made that out already."""
    known = given.ownership if isinstance(given, Packed) else None
    return (
        known if known is not None and known.space.is_made_from(topics, members) else resolve_ownership(topics, members)
    )


def _is_sound(packed: Packed, ownership: Ownership) -> bool:
    """Whether everything goes to subscribers and nothing is forgotten, but for what somebody has to give up first."""
    space, given = packed.space, np.flatnonzero(packed.member >= 0)
    if not space.wanting(given, packed.member[given]).all():
        return False
    return not ((packed.member < 0) & revocation.unclaimed(ownership)).any()


class AssignorInput(NamedTuple):
    """A group as assignors see it: partitions of topics that are read in part are counted as 0, 1, 2 …"""

    topics: Mapping[str, int]
    members: Subscriptions
    racks: Racks


def assignor_input(
    said: Subscriptions,
    topics: Mapping[str, int],
    *,
    only: Mapping[str, Sequence[int]] | None = None,
    racks: Racks = NO_RACKS,
) -> AssignorInput:
    """What an assignor is shown (see ``assign``)."""
    only = _existing(topics, only)
    if only:
        topics = {**topics, **{topic: len(numbers) for topic, numbers in only.items()}}
    places = {(topic, number): (topic, at) for topic, numbers in only.items() for at, number in enumerate(numbers)}
    members = {member: _renumbered(wish, places, only) for member, wish in said.items()} if only else said
    seen = {topic: _replica_racks(where, only.get(topic)) for topic, where in racks.items() if topic in topics}
    return AssignorInput(topics, members, seen)


def _replica_racks(where: Sequence[Collection[str]], numbers: Sequence[int] | None) -> Sequence[Collection[str]]:
    return where if numbers is None else [where[number] for number in numbers]


def _checked_answer(
    assignor: Assignor,
    name: str,
    topics: Mapping[str, int],
    members: Mapping[str, MemberSubscription],
    racks: Racks,
) -> Given:
    """The assignor's answer; a user's own is believed only after a look, and what it does to its arguments is its own."""
    if type(assignor) is type(ASSIGNORS.get(name)):  # also one that is set up for this round
        return assignor.assign(topics, members, racks)
    try:
        given = validate.read_answer(assignor.assign(dict(topics), dict(members), racks))
        if not assignor.cooperative:
            validate.check_complete(given, topics, members)
    except validate.BadAnswer as problem:
        raise InvalidAssignment(f"assignor {name}: {problem}") from None
    return given


def stay(
    said: Subscriptions,
    topics: Mapping[str, int],
    *,
    only: Mapping[str, Sequence[int]] | None = None,
    withheld: Collection[Partition] = (),
    barred: Barred = NOBODY_BARRED,
) -> Assignments:
    """The assignments in which nobody gives anything up; what is free goes to who has least, but for ``withheld``.

    Nobody gets what it is ``barred`` from.
    """
    ownership, only = resolve_ownership(topics, said), _existing(topics, only)
    space, given = ownership.space, ownership.member.copy()
    read = np.ones(space.places, np.bool_)
    for topic, numbers in only.items():
        places = space.span(topic)
        read[places] = False
        read[places[numbers]] = True
    given[~read] = NO_MEMBER
    loads = np.bincount(given[given >= 0], minlength=len(space.ids))
    lost = space.place(withheld, len(withheld))
    read[lost[lost >= 0]] = False  # a topic may have been deleted since
    free = read & revocation.unclaimed(ownership)
    for position, first in enumerate(space.base[:-1].tolist()):
        places = first + np.flatnonzero(free[first : space.base[position + 1]])
        if len(places):
            given[places] = give_to_least(len(places), np.flatnonzero(space.wanted_by[:, position]), loads)
    kept = {
        member: set(partitions) - set(said[member].owned) for member, partitions in barred.items() if member in said
    }
    return _encode(_layout(moved_off(Packed(space, given), ownership, kept)))


def _existing(topics: Mapping[str, int], only: Mapping[str, Sequence[int]] | None) -> dict[str, list[int]]:
    """What of ``only`` there is: a topic may be deleted while its query runs."""
    return {
        topic: [number for number in numbers if number < topics[topic]]
        for topic, numbers in (only or {}).items()
        if topic in topics
    }


def keep(members: Sequence[JoinedMember], since: Since = NOTHING_KNOWN) -> Assignments:
    """The assignments in which nothing moves: everybody keeps what it validly claims, or is known to have (``since``).

    For when ``assign`` raised.
    """
    said = subscriptions(members, since)
    claimed: dict[str, set[int]] = {}
    for topic, number in (partition for member in said.values() for partition in member.owned):
        claimed.setdefault(topic, set()).add(number)
    # No more than is claimed is counted, whatever number a claim makes up: how large the topics are isn't known here.
    only = {topic: sorted(number for number in numbers if number >= 0) for topic, numbers in claimed.items()}
    topics = {topic: max(numbers, default=-1) + 1 for topic, numbers in only.items()}
    ownership = resolve_ownership(*assignor_input(said, topics, only=only)[:2])
    return _encode(_layout(Packed(ownership.space, ownership.member)), only)


def _renumbered(
    said: MemberSubscription, places: Mapping[Partition, Partition], only: Mapping[str, Sequence[int]]
) -> MemberSubscription:
    """A subscription in the assignor's numbers; claims of partitions that are not read are dropped."""

    def inward(partition: Partition) -> Partition | None:
        return places.get(partition) if partition[0] in only else partition

    owned = [place for partition in said.owned if (place := inward(partition)) is not None]
    since = {place: at for partition, at in said.since.items() if (place := inward(partition)) is not None}
    loads = {place: load for partition, load in said.loads.items() if (place := inward(partition)) is not None}
    return replace(said, owned=tuple(owned), since=since, loads=loads)


def _subscription(joined: JoinedMember, known: Mapping[TopicPartition, int]) -> MemberSubscription:
    try:
        said = decode_subscription(joined.metadata)
    except MalformedConsumerProtocol:
        said = Subscription()
    owned = tuple(sorted({*said.owned, *known}))
    # In the order of ``owned``, so that the two can be read side by side.
    since: dict[Partition, int] = {partition: known[partition] for partition in owned if partition in known}
    return MemberSubscription(
        topics=said.topics,
        owned=owned,
        generation=max([said.generation, *known.values()]),
        instance_id=joined.group_instance_id,
        rack=said.rack,
        since=since,
    )


def _problem(
    given: Given, topics: Mapping[str, int], members: Mapping[str, MemberSubscription], ownership: Ownership
) -> str:
    """What is wrong with an assignor's answer, in words; empty when nothing is."""
    wanted_by = subscribers(topics, members)
    owner: dict[Partition, str] = {}
    for member, partitions in sorted(given.items()):
        for topic, partition in partitions:
            name = f"{topic}-{partition}"
            if member not in members:
                return f"{name} is given to {member}, who is not in the group"
            if not 0 <= partition < topics.get(topic, 0):
                return f"{name} is given to {member}, but doesn't exist"
            if member not in wanted_by.get(topic, ()):
                return f"{name} is given to {member}, who doesn't subscribe to {topic}"
            if (topic, partition) in owner:
                return f"{name} is given to both {owner[topic, partition]} and {member}"
            owner[topic, partition] = member
    for topic in wanted_by:
        for partition in range(topics[topic]):
            if (topic, partition) not in owner and (topic, partition) not in ownership.claimants:
                return f"{topic}-{partition} is given to nobody, though {wanted_by[topic][0]} subscribes to {topic}"
    return ""


class _SortedAssignment(NamedTuple):
    """An assignment in order: the places of all members one after the other, and where each one's begin.

    Of the space only what writing needs: the rest is given back before.
    """

    ids: Sequence[str]
    topics: Sequence[str]
    base: Ints
    topic: Ints
    places: Ints
    starts: Ints


def _layout(given: Packed) -> _SortedAssignment:
    space = given.space
    return _SortedAssignment(space.ids, space.topics, space.base, space.topic, *given.sorted)


def _encode(given: _SortedAssignment, only: Mapping[str, Sequence[int]] = WHOLE) -> Assignments:
    """Each member's bytes; in blocks, which stay in the processor's cache."""
    places, starts = given.places, given.starts
    number = _numbers(given, only) if only else None
    writer = AssignmentWriter(given.topics)
    found: list[bytes] = []
    cuts = np.searchsorted(starts, np.arange(0, len(places), _BLOCK))
    for first, end in pairwise(distinct(np.concatenate(([0], cuts, [len(starts) - 1]))).tolist()):
        mine = places[starts[first] : starts[end]]
        topic = given.topic[mine]
        numbers = mine - given.base[topic] if number is None else number[mine]
        found += writer.write(topic, numbers, starts[first : end + 1] - starts[first])
    return tuple(zip(given.ids, found, strict=True))


def _numbers(given: _SortedAssignment, only: Mapping[str, Sequence[int]]) -> Ints:
    """The number in Kafka of each place."""
    number = np.arange(len(given.topic)) - given.base[given.topic]
    for position, topic in enumerate(given.topics):
        if topic in only:
            number[given.base[position] : given.base[position + 1]] = only[topic]
    return number
