"""The fault campaign: a query on a real cluster, hurt on purpose for minutes or hours, and judged.

``schedule`` (pure) draws from a seed what happens when; ``judge`` (pure) says in Jepsen's words what became of the records;
``cluster`` has three brokers that any one of can be lost, ``firewall`` cuts sides off from each other, ``clock`` has clocks that
can be wrong, ``query`` is the application under test and whoever starts it again, ``faults`` carries a fault out and takes it
back, ``watch`` measures, and ``campaign`` ties them together.  ``python -m tests.chaos --help``, or ``make chaos MINUTES=10``.
"""
