"""What of a record is delivered, and as what: the columns of a query, the formats of values, their schemas and types.

``avro_schema`` (the text, checked) -> ``avro_columns`` (Spark's types for it) -> ``avro_resolution`` (Avro's rules, with
``avro_defaults`` and ``avro_skipping``) -> ``avro_steps``.  ``protobuf_descriptor`` (a FileDescriptorSet, checked) ->
``protobuf_columns`` -> ``protobuf_compilation`` -> ``protobuf_steps``.  Both end in ``steps``, which native/values runs.
"""
