"""Kafka's settings: one table (``rows``) of all that is known of a ``kafka.*`` name, and what is made of it.

``translate`` turns the options that a user set into librdkafka's settings and warnings, or one error; ``check`` lets
librdkafka itself judge them.  A setting that is to be refused, renamed, hidden or given another default is one row, and
its use.
"""
