"""The group on the driver: its machine, its leader, its port, and its history.

Requests come in by ``service``.  ``coordinator`` steps the machine under one lock, in the caller's thread; time-outs and the
leader's work run in its loop.  ``assignor_runner`` runs a user's assignor in a thread.  ``plan_registry`` has the plans and their
claims, ``history`` and ``totals`` what the status shows.  Nothing here talks to Kafka.
"""
