"""``cohort simulate``: what an assignor would do to a group if members or partitions changed.

``case`` parses a group, ``changes`` applies a change, ``outcome`` computes the assignments, ``owned_partitions`` is who owns what before.
These four are pure.  ``live_case`` takes the case from a running query, ``command`` reads the options, ``views`` prints.
"""
