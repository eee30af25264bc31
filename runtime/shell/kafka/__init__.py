"""Kafka as our processes meet it: clients, their errors and log lines; below it ``consumer`` and ``fetch``.

``cluster_client`` asks a cluster for metadata, offsets, epochs and groups, for any thread, on one of its own.  A client of
librdkafka's is called by its owner only; librdkafka's own threads call nothing but the log.
"""
