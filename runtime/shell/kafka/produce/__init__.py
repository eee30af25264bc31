"""The way of rows into Kafka: ``row_producer`` has the interface, Arrow record batches in, a report of what was acknowledged out.

``wire_sender`` is our own client: rows are encoded in C (``row_encoding``); ``batch_delivery`` sends them to the leaders over the
connections of ``fetch``, and does after an answer as ``runtime.kafka.produce_progress`` decides.  It has no thread: the thread that
writes or flushes moves it on; only the cluster's client has one.  ``librdkafka_sender`` is the same over confluent-kafka, for logins
that only librdkafka has.  ``dead_letter_writer`` writes what a source could not decode.

``sink_committer`` is the driver's side of an exactly-once sink, in ``commit_process`` where the JVM commits a stream.
"""
