"""How the sticky family finds the fewest moves to an even assignment.

::

    equal subscriptions:    equal
    unequal subscriptions:  initial (greedy, keeps what may be kept) -> cycles (cycle cancelling over levels) -> rounding

``revocation`` is what of it comes into force in this generation (KIP-429).  ``space``, ``ownership`` and ``packed`` are the problem as arrays, ``racks`` and ``order`` break ties as Kafka does.
"""
