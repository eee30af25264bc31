"""JSON objects, read as Spark's ``from_json`` reads them: what is asked for, field by field, and what can be wrong."""
