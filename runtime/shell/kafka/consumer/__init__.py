"""Ranges of offsets in, Arrow record batches out.

``record_source`` is the seam: partitions and positions in, events with records out.  ``new_source`` chooses who does it:
our own client (``fetch``), or confluent-kafka's consumer (``consumer_source``) for what only librdkafka has.
``range_reader`` reads one range to its end with Spark's rules for loss.  A source belongs to the thread that polls it.
"""
