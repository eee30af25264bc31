"""Balance among members that all want the same: arithmetic, however many partitions there are.

With P partitions and N members everyone gets ⌊P/N⌋, and P mod N of them one more (Kafka's constrained case).  Who owns
more than ⌊P/N⌋ is in front for the one more, and among those, whose holding beyond ⌊P/N⌋ is oldest.  What came last
goes first.  All that is free then is dealt, by topic and number, round-robin to those who have fewer than ⌊P/N⌋, by
id, and what is left one each to those who have just that many.

Law: nobody has two more than another, and no such assignment takes fewer from their owners, or older ones.

>>> both = MemberSubscription(("t0", "t1"))
>>> share_equally(resolve_ownership({"t0": 3, "t1": 3}, {"C0": both, "C1": both}))
{'C0': (('t0', 0), ('t0', 2), ('t1', 1)), 'C1': (('t0', 1), ('t1', 0), ('t1', 2))}
"""

from __future__ import annotations

import numpy as np

from sparkcohort.assignors.api import MemberSubscription
from sparkcohort.assignors.solver.ownership import Ownership, resolve_ownership
from sparkcohort.assignors.solver.packed import Packed
from sparkcohort.assignors.solver.space import NO_MEMBER, Bools, Ints, by_key

__all__ = ["MemberSubscription", "oldest_first", "resolve_ownership", "share_equally"]


def share_equally(ownership: Ownership) -> Packed:
    """Balance, moving as little as that takes.  All members that want anything have to want the same."""
    space = ownership.space
    target = ownership.member.copy()
    subscribers = space.subscribers
    if len(subscribers):
        owned_counts, fewest, one_more = _counts(ownership)
        quota, too_many = _quotas(ownership, owned_counts, fewest, one_more)
        target[too_many] = NO_MEMBER
        free = np.flatnonzero((target < 0) & space.has_subscriber)
        target[free] = _deal(len(free), subscribers, np.minimum(owned_counts, quota)[subscribers], fewest)
    return Packed(space, target, ownership)


def _counts(ownership: Ownership) -> tuple[Ints, int, int]:
    """How many each member owns; how many each is to have at the least, and how many of them have one more."""
    space, owned = ownership.space, ownership.member
    owned_counts = np.bincount(owned[owned >= 0], minlength=len(space.ids))
    return owned_counts, *divmod(int(np.count_nonzero(space.has_subscriber)), len(space.subscribers))


def _quotas(ownership: Ownership, owned_counts: Ints, fewest: int, one_more: int) -> tuple[Ints, Ints]:
    """How many each member may keep; and the places that have to be given up for that."""
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
    """What those members own, by member, the oldest first; and where each member's begins.

    Within one generation by number before topic (as Kafka does): what goes is then spread over the topics.
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
    """Who gets each of ``count`` partitions, in their order."""
    lacks = np.maximum(fewest - counts, 0)
    # Round by round: the first to everybody who lacks any, the second to everybody who lacks two …
    if (lacks == lacks[0]).all():
        dealt = np.tile(subscribers, int(lacks[0]))
    else:
        rounds = np.arange(lacks.sum()) - np.repeat(np.cumsum(lacks) - lacks, lacks)
        dealt = np.repeat(subscribers, lacks)[by_key(rounds, fewest + 1)]
    # Whoever had just ⌊P/N⌋ stands in front for one more, then the others as they reached it.
    exact = subscribers[counts <= fewest][np.argsort(lacks[counts <= fewest], kind="stable")]
    owners: Ints = np.concatenate((dealt, exact))[:count]
    return owners
