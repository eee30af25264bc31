"""``cohort simulate``: what an assignor would do to a group if members or partitions changed.

``case`` parses a group, ``changes`` applies a change, ``owned_partitions`` decides the owners before, ``outcome`` computes the assignments.
These four are pure.  ``live_case`` makes a case of a running query or a group in Kafka, ``command`` reads the options, ``views`` prints.
"""
