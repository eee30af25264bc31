"""The owner of each partition, decided from what members claim.

A member states what it owns when it joins.  The claim may be wrong: the partitions were assigned to others while the
member was away, or the topic was recreated with fewer partitions.  So every claim is validated.

Law: a partition has at most one owner: the member that claims it with the highest generation and still wants it.  C0
and C1 both claim t0-1, C1 in an older generation.  t1 has one partition only:

>>> members = {
...     "C0": MemberSubscription(("t0",), (("t0", 0), ("t0", 1)), 5),
...     "C1": MemberSubscription(("t0", "t1"), (("t0", 1), ("t1", 7)), 4),
... }
>>> ownership = resolve_ownership({"t0": 3, "t1": 1}, members)
>>> ownership.owner
{('t0', 0): 'C0', ('t0', 1): 'C0'}
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import chain, repeat

import numpy as np

from sparkcohort.assignors.api import MemberSubscription, Partition
from sparkcohort.assignors.solver.space import NO_MEMBER, Ints, Space, distinct

SEVERAL = -2


class Ownership:
    """By place: ``member``, the one valid owner, which still wants it; ``claimed``, the member that claims it.

    Both are members' numbers, -1 for none; ``claimed`` is -2 if several members claim it.
    """

    def __init__(self, space: Space, places: Ints, sizes: Ints) -> None:
        """``places`` are the claims, member by member, ``sizes`` of each; -1: there is no such partition."""
        self.space = space
        self._places, self._sizes = places, sizes
        self.claimed = np.full(space.places, NO_MEMBER)
        self._rivals = self._record_claims() if len(places) else (places, places)
        self.member = self.claimed  # nearly always equal, so one array
        if len(self._rivals[0]):
            self.member = self.claimed.copy()
            self._decide_contested(*self._rivals)
        if not space.uniform:
            owned = np.flatnonzero(self.member >= 0)
            unwanted = owned[~space.wanting(owned, self.member[owned])]
            if len(unwanted):
                self.member = self.member.copy()
                self.member[unwanted] = NO_MEMBER

    def _record_claims(self) -> tuple[Ints, Ints]:
        """Fill ``claimed``; returns the contested claims: places and members."""
        places, members = self._places, np.repeat(np.arange(len(self._sizes)), self._sizes)
        existing = places >= 0
        if not existing.all():
            places, members = places[existing], members[existing]
        self.claimed[places] = members
        uncontested = np.count_nonzero(self.claimed >= 0) == len(places)
        return (_no_places(), _no_places()) if uncontested else _contested(places, members, self.space)

    def _decide_contested(self, places: Ints, members: Ints) -> None:
        """Fill ``member`` for contested places: the newest claim wins unless another is as new (KIP-792).

        A claim of a member that no longer wants the place only holds the place back: it never wins.  Kafka's sticky
        assignors, too, read the claims of a topic's own consumers only.
        """
        self.claimed[places] = SEVERAL
        self.member[places] = NO_MEMBER
        valid = self.space.wanting(places, members)
        places, members = places[valid], members[valid]
        if not len(places):
            return
        generation = np.array([subscription.generation for subscription in self.space.subscriptions])[members]
        order = np.lexsort((-generation, places))
        places, members, generation = places[order], members[order], generation[order]
        first = np.append(True, places[1:] != places[:-1])
        tied = np.append(~first[1:] & (generation[1:] == generation[:-1]), False)
        self.member[places[first]] = np.where(tied[first], NO_MEMBER, members[first])

    @cached_property
    def acquisitions(self) -> Ints | None:
        """By place, the generation in which its owner acquired it (-1: unknown, as for the oldest).

        None if all are equally old, as far as is known.
        """
        generations, places, sizes = _acquisitions(self.space, self._sizes), self._places, self._sizes
        del self._places, self._sizes  # nothing else needs them
        if generations is None:
            return None
        members = np.repeat(np.arange(len(sizes)), sizes)
        valid = (places >= 0) & (self.member[places] == members)
        ages = np.full(self.space.places, -1)
        ages[places[valid]] = generations[valid]
        return ages

    @cached_property
    def owner(self) -> dict[Partition, str]:
        """The valid owner of each partition that has one."""
        places = np.flatnonzero(self.member >= 0)
        names = map(self.space.ids.__getitem__, self.member[places].tolist())
        return dict(zip(self.space.partitions(places), names, strict=True))

    @cached_property
    def claimants(self) -> dict[Partition, tuple[str, ...]]:
        """By partition, all members that claim it, sorted.

        A claimant may be reading the partition, also with an invalid claim.  No other member may start before it has
        revoked the partition and joined again (KIP-429).
        """
        rivals: dict[int, list[int]] = {}
        for place, member in zip(*(column.tolist() for column in self._rivals), strict=True):
            rivals.setdefault(place, []).append(member)
        places = np.flatnonzero(self.claimed != NO_MEMBER)
        claimants = [rivals.get(p, [m]) for p, m in zip(places.tolist(), self.claimed[places].tolist(), strict=True)]
        names = [tuple(self.space.ids[member] for member in sorted(members)) for members in claimants]
        return dict(zip(self.space.partitions(places), names, strict=True))


def resolve_ownership(topics: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Ownership:
    """Decide every claim (KIP-792): the highest generation wins, two claims of that generation are both invalid.

    Partitions that don't exist are dropped; a claim of a topic that its member no longer wants holds the
    partition back from others, but makes no owner.
    """
    space = Space(topics, members)
    owned = [subscription.owned for subscription in space.subscriptions]
    sizes = np.fromiter(map(len, owned), np.int64, len(owned))
    return Ownership(space, space.place(list(chain.from_iterable(owned))), sizes)


def _acquisitions(space: Space, sizes: Ints) -> Ints | None:
    """The generation of each claim, member by member, ``sizes`` of each; None if all are equally old."""
    by_member = [claim.since for claim in space.subscriptions]
    values = list(chain.from_iterable(each.values() for each in by_member))
    if not values:
        return None
    if (np.fromiter(map(len, by_member), np.int64, len(by_member)) == sizes).all():
        if values.count(values[0]) == len(values):
            return None
        if all(tuple(each) == claim.owned for each, claim in zip(by_member, space.subscriptions, strict=True)):
            return np.array(values, np.int64)
    values = list(chain.from_iterable(map(claim.since.get, claim.owned, repeat(-1)) for claim in space.subscriptions))
    return np.array(values, np.int64)


def _contested(places: Ints, members: Ints, space: Space) -> tuple[Ints, Ints]:
    """The claims of places that several members claim, each once, sorted by place and member."""
    often = np.bincount(places, minlength=1) > 1
    if not often.any():
        return _no_places(), _no_places()
    contested = often[places]
    claims = distinct(places[contested] * len(space.ids) + members[contested])
    places, members = np.divmod(claims, len(space.ids))
    several = (np.bincount(places) > 1)[places]
    return places[several], members[several]


def _no_places() -> Ints:
    """No places or members.  An empty slice of an array would keep the whole array in memory."""
    return np.zeros(0, np.int64)
