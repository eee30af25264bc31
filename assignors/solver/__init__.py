"""How the sticky family finds the fewest moves to an even assignment.

::

    equal subscriptions:    equal
    unequal subscriptions:  initial (greedy, keeps what may be kept) -> cycles (cycle cancelling over levels) -> rounding

``packed`` and ``ownership`` are the problem as arrays, ``racks`` and ``order`` break ties as Kafka does.
"""
