"""cooperative-sticky: balanced, with as few moves as balance needs, and no partition with two owners on the way.

Law: no member is assigned a partition that another may still read.  After one more round the answer is that of ``sticky``.

Kafka's own example, and then C2 joins.  The first round takes one partition from C0 and one from C1.  These two have no
owner until C0 and C1 have revoked them and joined again (KIP-429).  All others flow on.

>>> both, assignor = MemberSubscription(("t0", "t1")), CooperativeStickyAssignor()
>>> first = assignor.assign({"t0": 3, "t1": 3}, {"C0": both, "C1": both})
>>> first
{'C0': (('t0', 0), ('t0', 2), ('t1', 1)), 'C1': (('t0', 1), ('t1', 0), ('t1', 2))}
>>> def again(owned):
...     return {m: MemberSubscription(("t0", "t1"), partitions, 1) for m, partitions in owned.items()}
>>> second = assignor.assign({"t0": 3, "t1": 3}, {**again(first), "C2": both})
>>> second
{'C0': (('t0', 0), ('t1', 1)), 'C1': (('t0', 1), ('t1', 0)), 'C2': ()}
>>> assignor.assign({"t0": 3, "t1": 3}, again(second))
{'C0': (('t0', 0), ('t1', 1)), 'C1': (('t0', 1), ('t1', 0)), 'C2': (('t0', 2), ('t1', 2))}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkcohort.assignors.api import NO_RACKS, Assignment, MemberSubscription, Racks
from sparkcohort.assignors.solver.ownership import resolve_ownership
from sparkcohort.assignors.solver.revocation import adjust_assignment
from sparkcohort.assignors.sticky import balance_partitions


@dataclass(frozen=True)
class CooperativeStickyAssignor:
    """The target of ``sticky``, without what a member has to revoke first (Kafka: CooperativeStickyAssignor)."""

    name: str = "cooperative-sticky"
    cooperative: bool = True

    def assign(
        self,
        topics: Mapping[str, int],
        members: Mapping[str, MemberSubscription],
        racks: Racks = NO_RACKS,
    ) -> Assignment:
        """Divide the partitions (see Assignor).  A follow-up round is due if an owner loses any."""
        ownership = resolve_ownership(topics, members)
        return adjust_assignment(balance_partitions(topics, members, ownership, racks), ownership)
