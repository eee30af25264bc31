"""How the sticky assignors find the fewest moves to a balanced assignment.

::

    equal subscriptions:    equal
    unequal ones, or racks: a guess -> cycles (a table of members and kinds of partitions; cycle cancelling) -> unequal

``revocation`` takes out what another member has to revoke first (KIP-429).  ``space``, ``ownership`` and ``packed`` are
the problem as arrays.  ``racks`` and ``order`` break ties as Kafka does.
"""
