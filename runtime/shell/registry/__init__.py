"""The schema registry: which schema a record was written with, and which one it is to be read as.

In come the options ``schema.registry.*`` and the ids in front of records; out come schemas' texts, with those that they
refer to.  ``settings`` reads the options, ``schema_registry`` asks by Confluent's own client (the extra ``registry``),
``writer_schemas`` keeps what was answered, one per process.  Any thread may call; a call that waits has an end.
A registry that is away never turns a record into a wrong one: what is known goes on, what isn't waits, then fails.
"""
