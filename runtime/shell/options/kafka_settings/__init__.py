"""Kafka's settings: one table (``rows``) with a row for each ``kafka.*`` name, and its uses.

``translate`` turns a user's options into librdkafka's settings and warnings, or one error.  ``check`` has librdkafka itself check
them.  To refuse, rename or hide a setting, or to change its default, takes one row.
"""
