"""Members in Kafka's order, and each topic's subscribers: for range and roundrobin.

Law: the order is that of instance ids, then member ids; the order of the input doesn't matter.  C1 is static:

>>> from sparkcohort.assignors.api import MemberSubscription
>>> C1 = MemberSubscription(("t0", "t1"), instance_id="i")
>>> space = Space({"t0": 3, "t1": 3}, {"C0": MemberSubscription(("t0",)), "C1": C1})
>>> [space.ids[number] for number in static_first(space)]
['C1', 'C0']
>>> [[space.ids[number] for number in who] for who in subscribers_in_order(space)]
[['C1', 'C0'], ['C1']]
"""

from __future__ import annotations

import numpy as np

from sparkcohort.assignors.solver.space import Ints, Space


def static_first(space: Space) -> Ints:
    """The members' numbers in Kafka's order: static ones by instance id, then dynamic ones by member id.

    Instance ids outlive restarts and member ids don't: static members in front keep what they had (KAFKA-7149).
    """
    static = [number for number, subscription in enumerate(space.subscriptions) if subscription.instance_id is not None]
    static.sort(key=lambda number: space.subscriptions[number].instance_id or "")
    dynamic = np.ones(len(space.ids), np.bool_)
    dynamic[static] = False
    return np.concatenate((np.array(static, np.int64), np.flatnonzero(dynamic)))


def subscribers_in_order(space: Space) -> list[Ints]:
    """By topic's position, the numbers of the members that want it, in Kafka's order."""
    order = static_first(space)
    kind = space.kind[order]
    class_of, first = space.partition_classes
    classes = [order[kinds[kind]] for kinds in space.wants.T[first]]
    return [classes[number] for number in class_of.tolist()]
