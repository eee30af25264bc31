"""range: each topic for itself, in contiguous runs (Kafka: RangeAssignor).

Law: a topic's subscribers differ by one partition at most, and those in front have the one more.  Static members come
first, by instance id.  Equal partitions of topics with equal subscribers meet on one member.

Kafka's own example: consumers C0 and C1, topics t0 and t1 of three partitions each.

>>> both = MemberSubscription(("t0", "t1"))
>>> RangeAssignor().assign({"t0": 3, "t1": 3}, {"C0": both, "C1": both})
{'C0': (('t0', 0), ('t0', 1), ('t1', 0), ('t1', 1)), 'C1': (('t0', 2), ('t1', 2))}

Racks change nothing, unlike in Kafka since KIP-881: the sticky assignors use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sparkcohort.assignors.api import NO_RACKS, Assignment, MemberSubscription, Racks
from sparkcohort.assignors.solver.order import subscribers_in_order
from sparkcohort.assignors.solver.ownership import resolve_ownership
from sparkcohort.assignors.solver.packed import Packed
from sparkcohort.assignors.solver.space import NO_MEMBER


@dataclass(frozen=True)
class RangeAssignor:
    """Per topic, subscribers in order take runs, the first (partitions mod members) one more.

    Eager: it does not read ``owned``.
    """

    name: str = "range"
    cooperative: bool = False

    def assign(
        self,
        topics: Mapping[str, int],
        members: Mapping[str, MemberSubscription],
        racks: Racks = NO_RACKS,  # noqa: ARG002  see the module's text
    ) -> Assignment:
        """Divide the partitions (see Assignor)."""
        ownership = resolve_ownership(topics, members)  # for the leader, which reads it from the answer
        space = ownership.space
        member = np.full(space.places, NO_MEMBER)
        for position, subscribers in enumerate(subscribers_in_order(space)):
            if len(subscribers):
                fewest, one_more = divmod(int(space.counts[position]), len(subscribers))
                runs = np.repeat(subscribers, fewest + (np.arange(len(subscribers)) < one_more))
                member[space.base[position] : space.base[position + 1]] = runs
        return Packed(space, member, ownership)
