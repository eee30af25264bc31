"""Avro, bytes in and columns out: a writer's schema and the reader's become a flat list of steps that reads a record.

``schema`` (the text, checked) -> ``columns`` (Spark's types for it) -> ``resolution`` (Avro's rules, with ``defaults``
and ``skipping``) -> ``steps`` (what came out, packed).  native/values/avro.c runs the steps.
"""
