"""Protobuf, bytes in and columns out: a message of a descriptor set becomes a flat list of steps that reads a record.

``descriptor`` (a FileDescriptorSet, checked; ``wire`` is how it is written) -> ``columns`` (Spark's types for a message) ->
``compilation`` -> ``steps`` (what came out, packed).  native/values/protobuf.c runs the steps.  ``defaults`` reads
the texts of proto2's defaults.
"""
