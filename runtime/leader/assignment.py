"""What the leader of a group does between JoinGroup and SyncGroup: run the assignor that the members voted for.

It makes one assignment for each member of their subscriptions (Kafka: ConsumerCoordinator.onLeaderElected).

Two safeguards hold whatever the assignor.  A partition that another member may still be reading is held back until
the follow-up round, so even ``range`` moves partitions without a stop of the world.  An answer that isn't
complete, exclusive and to subscribers only is refused with the assignor's name.

``delayed_rebalance`` decides whether the assignor is asked in a round.  While it waits for a replacement, no member gives up
a partition (``assign_free``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from sparkcohort.assignors import ASSIGNORS, Assignor, MemberSubscription, validate
from sparkcohort.assignors.api import Assignment, Partition, Racks, subscribers
from sparkcohort.assignors.solver import revocation
from sparkcohort.assignors.solver.ownership import Ownership, resolve_ownership
from sparkcohort.assignors.solver.packed import Packed, pack
from sparkcohort.assignors.solver.space import NO_MEMBER, give_to_least
from sparkcohort.runtime.leader.reachable_assignment import without_barred
from sparkcohort.runtime.protocol.messages import NO_GENERATION, Assignments, JoinedMember
from sparkcohort.runtime.protocol.partitions import TopicPartition

if TYPE_CHECKING:
    from sparkcohort.runtime.leader.delayed_rebalance import Round

Owned: TypeAlias = Mapping[str, Mapping[TopicPartition, int]]
Subscriptions: TypeAlias = Mapping[str, MemberSubscription]
Barred: TypeAlias = Mapping[str, Collection[Partition]]
MOST_WORDS: Final = 500


class InvalidAssignment(ValueError):
    """An assignor broke its contract."""


class GroupAssignment(NamedTuple):
    """What an assignor wants in this round, by member id, and whether it takes partitions from members that hold them."""

    assignments: Assignments
    revokes: bool


def subscriptions(members: Sequence[JoinedMember], owned: Owned) -> dict[str, MemberSubscription]:
    """What each member wants, by its subscription, and holds, by the coordinator's own knowledge (``owned``)."""
    return {joined.member_id: _subscription(joined, owned.get(joined.member_id, {})) for joined in members}


def plan(round_: Round, members: Subscriptions, assignors: Mapping[str, Assignor] = ASSIGNORS) -> GroupAssignment:
    """Run the assignor, one of ``assignors`` by name; members that get nothing are included.

    No member gets what it is barred from.  Raises InvalidAssignment naming the assignor.
    """
    name, subset = round_.protocol_name, _existing_part(round_)
    packed, ownership = run_assignor(assignors[name], name, *assignor_input(round_, members))
    reachable = without_barred(packed, ownership, _renumber_bars(round_.barred, subset))
    target, revokes = revocation.adjust_for_generation(reachable, ownership)
    del ownership, packed, reachable  # large, as what follows is
    return GroupAssignment(_assignments(target, subset), revokes)


def run_assignor(
    assignor: Assignor, name: str, topics: Mapping[str, int], members: Subscriptions, racks: Racks
) -> tuple[Packed, Ownership]:
    """What the assignor answers, and who owns what.  Raises InvalidAssignment naming it, or what it raises itself."""
    answer = _checked_answer(assignor, name, topics, members, racks)
    ownership = _ownership(answer, topics, members)
    packed = answer if isinstance(answer, Packed) and answer.space is ownership.space else pack(ownership.space, answer)
    # A cooperative assignor may leave out what its owner has to give up first (KIP-429), any other one nothing.
    if packed is None or not _is_sound(packed, ownership, cooperative=assignor.cooperative):
        left_out = ownership.claimants if assignor.cooperative else ()
        raise InvalidAssignment(f"assignor {name}: {_problem(answer, topics, members, left_out)}")
    return packed, ownership


def failure_message(name: str, error: BaseException) -> str:
    """An assignor's failure in words that name it."""
    if isinstance(error, InvalidAssignment):
        message = str(error)
        return message if message.startswith("assignor ") else f"assignor {name}: {message}"
    return f"assignor {name} raised {describe_error(error)}"


def describe_error(error: BaseException) -> str:
    """The error in words; a user's exception may be unable to say what it is."""
    try:
        return f"{type(error).__name__}: {error}"[:MOST_WORDS]
    except Exception:  # noqa: BLE001  its own mistake
        return type(error).__name__


def _renumber_bars(barred: Barred, subset: Mapping[str, Sequence[int]]) -> Barred:
    """What members are barred from in the assignor's numbers."""
    if not barred or not subset:
        return barred
    places = {(topic, number): place for topic, numbers in subset.items() for place, number in enumerate(numbers)}
    return {
        member: [TopicPartition(tp[0], places.get((tp[0], tp[1]), tp[1])) for tp in partitions]
        for member, partitions in barred.items()
    }


def _ownership(answer: Assignment, topics: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Ownership:
    """Who owns what; the answer of the sticky family has it already."""
    ownership = answer.ownership if isinstance(answer, Packed) else None
    if ownership is not None and ownership.space.is_made_from(topics, members):
        return ownership
    return resolve_ownership(topics, members)


def _is_sound(packed: Packed, ownership: Ownership, *, cooperative: bool) -> bool:
    """Whether all goes to subscribers, and all is given that has to be."""
    space, places = packed.space, np.flatnonzero(packed.member >= 0)
    if not space.wanting(places, packed.member[places]).all():
        return False
    due = revocation.unclaimed(ownership) if cooperative else space.has_subscriber
    return not ((packed.member < 0) & due).any()


class AssignorInput(NamedTuple):
    """A group as assignors see it: partitions of topics that are read in part are counted as 0, 1, 2 …"""

    topics: Mapping[str, int]
    members: Subscriptions
    racks: Racks


def assignor_input(round_: Round, members: Subscriptions) -> AssignorInput:
    """The arguments of an assignor."""
    topics, subset = round_.topics, _existing_part(round_)
    racks = {t: _replica_racks(replicas, subset.get(t)) for t, replicas in round_.racks.items() if t in topics}
    if subset:
        topics = {**topics, **{topic: len(numbers) for topic, numbers in subset.items()}}
        places = {(topic, number): (topic, i) for topic, numbers in subset.items() for i, number in enumerate(numbers)}
        members = {member: _renumbered(wish, places, subset) for member, wish in members.items()}
    return AssignorInput(topics, members, racks)


def _replica_racks(racks: Sequence[Collection[str]], numbers: Sequence[int] | None) -> Sequence[Collection[str]]:
    return racks if numbers is None else [racks[number] for number in numbers]


def _checked_answer(
    assignor: Assignor,
    name: str,
    topics: Mapping[str, int],
    members: Mapping[str, MemberSubscription],
    racks: Racks,
) -> Assignment:
    """The assignor's answer; that of a user's assignor is checked, and it gets copies of its arguments."""
    if type(assignor) is type(ASSIGNORS.get(name)):  # also one that is set up for this round
        return assignor.assign(topics, members, racks)
    try:
        return validate.read_answer(assignor.assign(dict(topics), dict(members), racks))
    except validate.BadAnswer as problem:
        raise InvalidAssignment(f"assignor {name}: {problem}") from None


def assign_free(round_: Round, members: Subscriptions, *, withheld: Collection[Partition] = ()) -> Assignments:
    """The assignments in which no member gives anything up; what is free goes to the one with least, but for ``withheld``.

    No member gets what it is barred from.
    """
    ownership, subset = resolve_ownership(round_.topics, members), _existing_part(round_)
    space, member = ownership.space, ownership.member.copy()
    read = np.ones(space.places, np.bool_)
    for topic, numbers in subset.items():
        places = space.span(topic)
        read[places] = False
        read[places[numbers]] = True
    member[~read] = NO_MEMBER
    loads = np.bincount(member[member >= 0], minlength=len(space.ids))
    withheld_places = space.place(withheld)
    read[withheld_places[withheld_places >= 0]] = False  # a topic may have been deleted since
    free = read & revocation.unclaimed(ownership)
    for position, first in enumerate(space.base[:-1].tolist()):
        places = first + np.flatnonzero(free[first : space.base[position + 1]])
        if len(places):
            member[places] = give_to_least(len(places), np.flatnonzero(space.wanted_by[:, position]), loads)
    new_bars = {
        name: set(partitions) - set(members[name].owned)
        for name, partitions in round_.barred.items()
        if name in members
    }
    return _assignments(without_barred(Packed(space, member), ownership, new_bars), {})


def _existing_part(round_: Round) -> dict[str, list[int]]:
    """The part of ``subset`` that exists: a topic may be deleted while its query runs."""
    topics = round_.topics
    return {
        topic: [n for n in numbers if n < topics[topic]] for topic, numbers in round_.subset.items() if topic in topics
    }


def keep_owned(members: Sequence[JoinedMember], owned: Owned) -> Assignments:
    """The assignments in which nothing moves, for when ``plan`` raised."""
    return tuple((joined.member_id, tuple(sorted(owned.get(joined.member_id, ())))) for joined in members)


def _renumbered(
    wish: MemberSubscription, places: Mapping[Partition, Partition], subset: Mapping[str, Sequence[int]]
) -> MemberSubscription:
    """A subscription in the assignor's numbers; claims of partitions that are not read are dropped."""

    def inward(partition: Partition) -> Partition | None:
        return places.get(partition) if partition[0] in subset else partition

    owned = [place for partition in wish.owned if (place := inward(partition)) is not None]
    generations = {place: g for partition, g in wish.since.items() if (place := inward(partition)) is not None}
    loads = {place: load for partition, load in wish.loads.items() if (place := inward(partition)) is not None}
    return replace(wish, owned=tuple(owned), since=generations, loads=loads)


def _subscription(joined: JoinedMember, generations: Mapping[TopicPartition, int]) -> MemberSubscription:
    owned = tuple(sorted(generations))
    # In the order of ``owned``, so that the two can be read side by side.
    acquisitions: dict[Partition, int] = {tp: generations[tp] for tp in owned}
    return MemberSubscription(
        topics=joined.subscription.topics,
        owned=owned,
        generation=max(generations.values(), default=NO_GENERATION),
        instance_id=joined.group_instance_id,
        rack=joined.subscription.rack or None,
        since=acquisitions,
    )


def _problem(
    answer: Assignment,
    topics: Mapping[str, int],
    members: Mapping[str, MemberSubscription],
    left_out: Collection[Partition],
) -> str:
    """What is wrong with an assignor's answer, in words; ``left_out`` are partitions that it need not give."""
    wanted_by = subscribers(topics, members)
    owner: dict[Partition, str] = {}
    for member, partitions in sorted(answer.items()):
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
            if (topic, partition) not in owner and (topic, partition) not in left_out:
                return f"{topic}-{partition} is given to nobody, though {wanted_by[topic][0]} subscribes to {topic}"
    return ""


def _assignments(packed: Packed, subset: Mapping[str, Sequence[int]]) -> Assignments:
    """Each member's partitions, by their numbers in Kafka."""
    space, (places, starts) = packed.space, packed.sorted
    number = space.number
    for topic, numbers in subset.items():
        number[space.span(topic)] = numbers
    topics = map(space.topics.__getitem__, space.topic[places].tolist())
    partitions = tuple(map(TopicPartition._make, zip(topics, number[places].tolist(), strict=True)))
    bounds = zip(space.ids, pairwise(starts.tolist()), strict=True)
    return tuple((name, partitions[first:end]) for name, (first, end) in bounds)
