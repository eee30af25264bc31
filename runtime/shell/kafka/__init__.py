"""Kafka as our processes meet it: clients, their errors and log lines; below it ``consumer`` and ``fetch``.

Whoever makes a client owns it and is the only one to call it; librdkafka's own threads call nothing but the log.
"""
