"""Who gets which partition: pure values in, pure values out.

Law: an answer depends on the input alone, and not on its order.  Kafka's own example:

>>> from sparkcohort.assignors import ASSIGNORS, MemberSubscription
>>> both = MemberSubscription(("t0", "t1"))
>>> ASSIGNORS["range"].assign({"t0": 3, "t1": 3}, {"C0": both, "C1": both})
{'C0': (('t0', 0), ('t0', 1), ('t1', 0), ('t1', 1)), 'C1': (('t0', 2), ('t1', 2))}
"""

from __future__ import annotations

from sparkcohort.assignors.api import Assignor, Load, MemberSubscription, Partition, Racks
from sparkcohort.assignors.cooperative_sticky import CooperativeStickyAssignor
from sparkcohort.assignors.load_balanced import LoadBalancedAssignor
from sparkcohort.assignors.range import RangeAssignor
from sparkcohort.assignors.round_robin import RoundRobinAssignor
from sparkcohort.assignors.sticky import StickyAssignor

__all__ = [
    "ASSIGNORS",
    "Assignor",
    "Load",
    "MemberSubscription",
    "Partition",
    "Racks",
]

ASSIGNORS: dict[str, Assignor] = {
    assignor.name: assignor
    for assignor in (
        RangeAssignor(),
        RoundRobinAssignor(),
        StickyAssignor(),
        CooperativeStickyAssignor(),
        LoadBalancedAssignor(),
    )
}
