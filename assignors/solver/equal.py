"""Balance among members with equal subscriptions: arithmetic, for any number of partitions.

With P partitions and N members each gets ⌊P/N⌋, and P mod N of them one more (Kafka's constrained case).  Owners of
more than ⌊P/N⌋ come first for the one more, among them those whose next partition beyond ⌊P/N⌋ is the oldest.  Owners
of too many lose their youngest.  Then free partitions are dealt by topic and number: round-robin by id to members with
fewer than ⌊P/N⌋, then one each to members with just ⌊P/N⌋.

Law: no member has two more than another.  No such assignment takes fewer partitions from their owners, or younger ones.

>>> both = MemberSubscription(("t0", "t1"))
>>> share_equally(resolve_ownership({"t0": 3, "t1": 3}, {"C0": both, "C1": both})).tolist()
[0, 1, 0, 1, 0, 1]
"""

from __future__ import annotations

import numpy as np

from sparkcohort.assignors.api import MemberSubscription
from sparkcohort.assignors.solver.ownership import Ownership, resolve_ownership
from sparkcohort.assignors.solver.space import NO_MEMBER, Bools, Ints, by_key

__all__ = ["MemberSubscription", "oldest_first", "resolve_ownership", "share_equally"]


def share_equally(ownership: Ownership) -> Ints:
    """By place its member: balance with the fewest moves.  All subscribers have to have equal subscriptions."""
    space = ownership.space
    target = ownership.member.copy()
    subscribers = space.subscribers
    if len(subscribers):
        owned_counts, fewest, one_more = _counts(ownership)
        quota, too_many = _quotas(ownership, owned_counts, fewest, one_more)
        target[too_many] = NO_MEMBER
        free = np.flatnonzero((target < 0) & space.has_subscriber)
        target[free] = _deal(len(free), subscribers, np.minimum(owned_counts, quota)[subscribers], fewest)
    return target


def _counts(ownership: Ownership) -> tuple[Ints, int, int]:
    """How many each member owns; the fewest that each gets, and how many members get one more."""
    space, owned = ownership.space, ownership.member
    owned_counts = np.bincount(owned[owned >= 0], minlength=len(space.ids))
    return owned_counts, *divmod(int(np.count_nonzero(space.has_subscriber)), len(space.subscribers))


def _quotas(ownership: Ownership, owned_counts: Ints, fewest: int, one_more: int) -> tuple[Ints, Ints]:
    """How many each member may keep; and the places that owners lose for that."""
    quota, rich = np.full(len(owned_counts), fewest), np.flatnonzero(owned_counts > fewest)
    if len(rich) > one_more and ownership.acquisitions is not None:
        places, starts = oldest_first(ownership, owned_counts > fewest)
        rich = rich[np.argsort(ownership.acquisitions[places[starts[rich] + fewest]], kind="stable")]
    quota[rich[:one_more]] += 1
    if not (owned_counts > quota).any():
        return quota, rich[:0]
    places, starts = oldest_first(ownership, owned_counts > quota)
    members = ownership.member[places]
    return quota, places[np.arange(len(places)) - starts[members] >= quota[members]]


def oldest_first(ownership: Ownership, mask: Bools) -> tuple[Ints, Ints]:
    """The places that the members of ``mask`` own, by member, the oldest first; and where each member's begin.

    Within one generation by number before topic, as in Kafka: so the lost ones are spread over the topics.
    """
    acquisitions, places = ownership.acquisitions, ownership.space.by_number
    places = places[np.append(mask, False)[ownership.member[places]]]
    if acquisitions is not None and len(places):
        ages = acquisitions[places]
        ages -= ages.min()
        if most := int(ages.max()):
            places = places[by_key(ages, most + 1)]
    members = ownership.member[places]
    sizes = np.bincount(members, minlength=len(mask))
    return places[by_key(members, len(mask))], np.cumsum(sizes) - sizes


def _deal(count: int, subscribers: Ints, counts: Ints, fewest: int) -> Ints:
    """The member of each of ``count`` partitions, in order."""
    lacks = np.maximum(fewest - counts, 0)
    # Round by round: the first to each member that lacks one, the second to each that lacks two …
    if (lacks == lacks[0]).all():
        dealt = np.tile(subscribers, int(lacks[0]))
    else:
        rounds = np.arange(lacks.sum()) - np.repeat(np.cumsum(lacks) - lacks, lacks)
        dealt = np.repeat(subscribers, lacks)[by_key(rounds, fewest + 1)]
    # One more goes first to members that had just ⌊P/N⌋, then to the others in the order in which they reached it.
    exact = subscribers[counts <= fewest][np.argsort(lacks[counts <= fewest], kind="stable")]
    owners: Ints = np.concatenate((dealt, exact))[:count]
    return owners
