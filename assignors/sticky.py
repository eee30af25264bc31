"""sticky: balanced, with as few moves as balance needs; a member revokes all that it owns before it joins (eager).

Law: balanced, near, sticky, in this order.
*Balanced*: the sum of the squares of the members' loads is the least that the subscriptions allow.  Among equal
subscribers that is max − min ≤ 1; in general no partition can move, not even through a chain of members, from a
member to one with two fewer, which is Kafka's definition and a little more.  *Near*: no other balanced target has
fewer partitions whose replicas are all in other racks than their member (KIP-881).  *Sticky*: none of those takes
fewer partitions from their owners, and of the partitions of an owner those acquired last are taken first.

Where all members are alike, arithmetic is enough (``equal``).  Otherwise ``cycles`` improves a guess until it is exact;
only groups beyond ``unequal.MOST_WORK`` are left nearly so.  Kafka's own example; and then C0 leaves:

>>> both, assignor = MemberSubscription(("t0", "t1")), StickyAssignor()
>>> assignor.assign({"t0": 3, "t1": 3}, {"C0": both, "C1": both})
{'C0': (('t0', 0), ('t0', 2), ('t1', 1)), 'C1': (('t0', 1), ('t1', 0), ('t1', 2))}
>>> owned = {"C1": (("t0", 1), ("t1", 0)), "C2": (("t1", 2),)}
>>> assignor.assign({"t0": 3, "t1": 3}, {m: MemberSubscription(("t0", "t1"), mine, 1) for m, mine in owned.items()})
{'C1': (('t0', 0), ('t0', 1), ('t1', 0)), 'C2': (('t0', 2), ('t1', 1), ('t1', 2))}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sparkcohort.assignors.api import NO_RACKS, Assignment, MemberSubscription, Racks
from sparkcohort.assignors.solver.equal import share_equally
from sparkcohort.assignors.solver.ownership import Ownership, resolve_ownership
from sparkcohort.assignors.solver.packed import Packed
from sparkcohort.assignors.solver.racks import nearness
from sparkcohort.assignors.solver.unequal import exchange_partitions, share_unequally


@dataclass(frozen=True)
class StickyAssignor:
    """The target itself (Kafka: StickyAssignor, whose owned partitions and generation are in its user data).

    An eager member owns nothing when a round is planned, so its partitions can go to any member at once.  ``owned`` is
    what it had until it joined.
    """

    name: str = "sticky"
    cooperative: bool = False

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription], racks: Racks = NO_RACKS
    ) -> Assignment:
        """Divide the partitions (see Assignor)."""
        return balance_partitions(topics, members, resolve_ownership(topics, members), racks)


def balance_partitions(
    topics: Mapping[str, int],
    members: Mapping[str, MemberSubscription],
    ownership: Ownership | None = None,
    racks: Racks = NO_RACKS,
) -> Packed:
    """Compute the target, without regard to members that still hold its partitions."""
    ownership = ownership or resolve_ownership(topics, members)
    near = nearness(ownership.space, racks)
    alike = np.count_nonzero(ownership.space.wants.any(axis=1)) <= 1
    target = share_equally(ownership) if alike else share_unequally(ownership)
    if near.matters or not alike:
        target = exchange_partitions(ownership, near, target)
    return Packed(ownership.space, target, ownership)
