"""Who has least takes directly from who has most: for small groups with many kinds of partitions, looked at one by one.

When a member has joined, mostly nothing else is to be done.  The tables of ``unequal`` would have a cell for each
member and kind of partition then, which are many more than partitions.

Law: the answer is as good as there is, or none.  If all are on a level and no more was taken from owners than among
members who all want everything (``equal``), nor older, then nothing is better.  Nor if all that was taken was taken by
one.  C1 comes and wants t1 only:

>>> C0 = MemberSubscription(("t0", "t1"), tuple((topic, number) for topic in ("t0", "t1") for number in range(3)))
>>> owned = resolve({"t0": 3, "t1": 3}, {"C0": C0, "C1": MemberSubscription(("t1",))})
>>> taken(owned, owned.member).tolist()
[0, 0, 0, 1, 1, 1]
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sparkcohort.assignors.base import MemberSubscription
from sparkcohort.assignors.equal import surplus
from sparkcohort.assignors.guessing import is_uneven
from sparkcohort.assignors.moving import first_to_go
from sparkcohort.assignors.ownership import Ownership, resolve
from sparkcohort.assignors.packed import Ints, Space, distinct

__all__ = ["MemberSubscription", "resolve", "taken"]

_MOST_ROUNDS: Final = 1 << 5


def taken(ownership: Ownership, guess: Ints) -> Ints | None:
    """The guess after all that who has least could take; None unless that is the best there is (racks don't matter)."""
    space = ownership.space
    target, eaters, places = guess.copy(), space.eaters, np.flatnonzero(guess >= 0)
    loads = np.bincount(target[places], minlength=len(space.ids))
    if not _is_enough(space, target, loads):
        return None
    places = first_to_go(ownership, guess, places)
    for _ in range(_MOST_ROUNDS):
        if not is_uneven(loads[eaters]):
            return target if _is_least(ownership, target) else None
        taker = int(eaters[loads[eaters].argmin()])
        mine = places[space.wants[space.kind[taker], space.topic[places]]]
        most = int(loads[target[mine]].max(initial=0))
        mine = mine[loads[target[mine]] == most]
        first = np.sort(np.unique(target[mine], return_index=True)[1])  # of each giver, the youngest before
        mine = mine[first[: max(0, most - 1 - int(loads[taker]))]]
        if not len(mine):
            return None
        loads[target[mine]] -= 1
        loads[taker] += len(mine)
        target[mine] = taker
    return None


def _is_enough(space: Space, target: Ints, loads: Ints) -> bool:
    """Whether those who have what the member with least wants have enough above the mean to bring it there."""
    taker = int(space.eaters[loads[space.eaters].argmin()])
    wanted = np.repeat(space.wants[space.kind[taker]], space.counts)
    givers = np.zeros(len(loads) + 1, np.bool_)  # the last one is nobody
    givers[target[wanted]] = True
    mean = int(loads.sum()) // len(space.eaters)
    return bool(np.maximum(loads[givers[:-1]] - mean, 0).sum() >= mean - loads[taker])


def _is_least(ownership: Ownership, target: Ints) -> bool:
    """Whether owners lose no more, nor older, than they have to."""
    lost, least, since = (ownership.member >= 0) & (ownership.member != target), surplus(ownership), ownership.since
    if np.count_nonzero(lost) > len(least):
        return False
    if since is None or since[lost].sum() >= since[least].sum():
        return True
    # With nothing free and one taker, everyone else only gives, and gave the youngest that the taker wants.
    nothing_free = bool(((ownership.member >= 0) == ownership.space.wanted).all())
    return nothing_free and len(distinct(target[lost])) == 1
