"""roundrobin: all partitions of all topics are dealt like cards (Kafka: RoundRobinAssignor).

Law: members with equal subscriptions differ by one partition at most.  Topics and partitions are dealt in order, to
members in a circle, static ones first by instance id.  A member that doesn't subscribe to a topic is passed over.  The
next topic goes on where the last one ended.

Kafka's own example: consumers C0 and C1, topics t0 and t1 of three partitions each.

>>> both = MemberSubscription(("t0", "t1"))
>>> RoundRobinAssignor().assign({"t0": 3, "t1": 3}, {"C0": both, "C1": both})
{'C0': (('t0', 0), ('t0', 2), ('t1', 1)), 'C1': (('t0', 1), ('t1', 0), ('t1', 2))}

Its other one shows what unequal subscriptions cost; the sticky assignors give each member two of these six:

>>> unequal = {f"C{last}": MemberSubscription(("t0", "t1", "t2")[: last + 1]) for last in range(3)}
>>> RoundRobinAssignor().assign({"t0": 1, "t1": 2, "t2": 3}, unequal)
{'C0': (('t0', 0),), 'C1': (('t1', 0),), 'C2': (('t1', 1), ('t2', 0), ('t2', 1), ('t2', 2))}

Racks change nothing, as in Kafka.  The sticky assignors use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sparkcohort.assignors.api import NO_RACKS, Assignment, MemberSubscription, Racks
from sparkcohort.assignors.solver.order import static_first, subscribers_in_order
from sparkcohort.assignors.solver.ownership import resolve_ownership
from sparkcohort.assignors.solver.packed import Packed
from sparkcohort.assignors.solver.space import NO_MEMBER


@dataclass(frozen=True)
class RoundRobinAssignor:
    """Deals all partitions in turn.  Eager: it reads neither ``owned`` nor racks."""

    name: str = "roundrobin"
    cooperative: bool = False

    def assign(
        self,
        topics: Mapping[str, int],
        members: Mapping[str, MemberSubscription],
        racks: Racks = NO_RACKS,  # noqa: ARG002  Kafka's roundrobin knows nothing of racks
    ) -> Assignment:
        """Divide the partitions (see Assignor)."""
        ownership = resolve_ownership(topics, members)  # for the leader, which reads it from the answer
        space = ownership.space
        seat = np.argsort(static_first(space))  # of each member, in the circle
        member, turn = np.full(space.places, NO_MEMBER), 0
        for position, subscribers in enumerate(subscribers_in_order(space)):
            first, last = int(space.base[position]), int(space.base[position + 1])
            if len(subscribers) and first < last:
                begin = int(np.searchsorted(seat[subscribers], turn))
                member[first:last] = subscribers[(begin + np.arange(last - first)) % len(subscribers)]
                turn = (int(seat[member[last - 1]]) + 1) % len(seat)
        return Packed(space, member, ownership)
