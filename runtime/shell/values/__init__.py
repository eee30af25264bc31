"""Columns of bytes become columns of values: Arrow in, Arrow out, and what was wrong with which row.

In comes the column of a batch and the steps compiled from its schemas; out come as many rows, null where a row was null or
bad, and the bad ones with their reasons.  No row costs another one.  A decoder is for one thread at a time.

The same turned round for writes: ``records_by_format`` takes a column of structs and gives records; a row that the schema can't hold fails all.

Schemas from a registry are kept by id (``schema_registry``, ``writer_schemas``); ``registry_requests`` is the one place with a network.
"""
