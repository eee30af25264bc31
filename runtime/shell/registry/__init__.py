"""The schema registry: the writer's schema of a record, and the reader's schema of a query.

In come the options ``schema.registry.*`` and the ids in front of records.  Out come the texts of schemas and of their
references.  ``settings`` reads the options, ``requests`` makes one HTTP request (extra ``registry``), ``schema_registry``
repeats it until its limit, ``writer_schemas`` caches the answers, once per process.  Any thread may call; every wait has a
limit.  While the registry is away, records with a cached schema are read; others wait, then fail.  None is read wrongly.
"""
