"""Partitions that an assignor gave to members that can't fetch them go to others; the rest stays as it was given.

Assignors know nothing of networks.  A partition that they give to a member that is *barred* from it (see ``reachability``)
stays with its owner, or goes to the member with the least.  Nor is it taken from its owner and left unassigned, as cooperative assignors do: that
would be for the barred, and it would come back.  What no member can fetch stays as it was given: the fault is not a member's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from sparkcohort.assignors.api import Partition
from sparkcohort.assignors.solver.ownership import Ownership
from sparkcohort.assignors.solver.packed import Packed
from sparkcohort.assignors.solver.space import NO_MEMBER


def without_barred(packed: Packed, ownership: Ownership, barred: Mapping[str, Collection[Partition]]) -> Packed:
    """The assignment without what members are barred from, as far as others want it."""
    space = packed.space
    kept_from: dict[int, set[int]] = {}
    for number, name in enumerate(space.ids):
        partitions = barred.get(name, ())
        for place in space.place(partitions).tolist():
            if place >= 0:
                kept_from.setdefault(place, set()).add(number)
    holders, member = ownership.member, packed.member.copy()
    loads = np.bincount(member[member >= 0], minlength=len(space.ids))
    for place, barred_here in sorted(kept_from.items()):
        owner, holder = int(member[place]), int(holders[place])
        # Left unassigned for its next owner (KIP-429), which is barred from it: its owner keeps it.
        if owner in barred_here or (owner == NO_MEMBER and holder != NO_MEMBER):
            topic = int(np.searchsorted(space.base, place, side="right")) - 1
            able = [m for m in np.flatnonzero(space.wanted_by[:, topic]).tolist() if m not in barred_here]
            if holder in able:
                member[place] = holder
            elif able and owner != NO_MEMBER:
                member[place] = min(able, key=lambda m: (int(loads[m]), m))
            loads[int(member[place])] += int(member[place]) != owner
            loads[owner] -= int(member[place]) != owner and owner != NO_MEMBER
    return Packed(space, member, packed.ownership)
