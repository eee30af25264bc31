"""Partitions that an assignor gave to members who can't fetch them go to others, the rest stays as it was given.

Assignors know nothing of networks: what they give to a member that is *barred* from it (see ``reachability``) stays with who
has it, or goes to who has least.  Nor is it taken from who has it for somebody unknown, as cooperative assignors do: that
would be for the barred, and it would come back.  What nobody can fetch stays as it was given: then the fault is not the
member's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from sparkcohort.assignors.api import Partition
from sparkcohort.assignors.solver.ownership import Ownership
from sparkcohort.assignors.solver.packed import Packed
from sparkcohort.assignors.solver.space import NO_MEMBER


def moved_off(given: Packed, ownership: Ownership, barred: Mapping[str, Collection[Partition]]) -> Packed:
    """The assignment without what members are barred from, as far as others want it."""
    space = given.space
    kept_from: dict[int, set[int]] = {}
    for number, name in enumerate(space.ids):
        partitions = barred.get(name, ())
        for place in space.place(partitions, len(partitions)).tolist():
            if place >= 0:
                kept_from.setdefault(place, set()).add(number)
    holders, member = ownership.member, given.member.copy()
    loads = np.bincount(member[member >= 0], minlength=len(space.ids))
    for place, barred_here in sorted(kept_from.items()):
        was, holder = int(member[place]), int(holders[place])
        if was in barred_here or (was == NO_MEMBER and holder != NO_MEMBER):
            topic = int(np.searchsorted(space.base, place, side="right")) - 1
            able = [each for each in np.flatnonzero(space.wanted_by[:, topic]).tolist() if each not in barred_here]
            if holder in able:
                member[place] = holder
            elif able and was != NO_MEMBER:
                member[place] = min(able, key=lambda each: (int(loads[each]), each))
            loads[int(member[place])] += int(member[place]) != was
            loads[was] -= int(member[place]) != was and was != NO_MEMBER
    return Packed(space, member, given.ownership)
