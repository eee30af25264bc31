"""The way of rows into Kafka: ``row_producer`` has the interface, Arrow record batches in, a report of what was acknowledged out.

``wire_sender`` is our own client: rows are encoded in C (``row_encoding``), sent to the leaders over the connections of ``fetch``, and
what to do after an answer is ``runtime.kafka.produce_progress``'s decision.  It has no thread: whoever writes or flushes moves it
on; only the cluster's client has one.  ``librdkafka_sender`` is the same over confluent-kafka, for logins that only librdkafka has.
"""
