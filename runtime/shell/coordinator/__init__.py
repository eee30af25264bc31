"""The group on the driver: its machine, its leader, its port, and what it remembers.

Requests come in by ``service``; ``coordinator`` steps the machine under one lock, in the thread that brought the request;
time-outs and the leader's work run in its loop.  ``assignor_runner`` runs a user's assignor in a thread; ``plan_registry``
has who may claim which slot; ``history`` and ``totals`` what people are told.  Nothing here talks to Kafka.
"""
