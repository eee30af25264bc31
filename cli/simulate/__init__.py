"""``cohort simulate``: what an assignor would do to a group if members or partitions changed.

``case`` is a group, ``changes`` applies a change, ``outcome`` computes the assignments.  These three are pure.
``live_case`` makes a case of a running query, ``command`` reads the options, ``views`` prints.
"""
