"""The group on the driver: its machine, its leader, its port, and its history.

Requests come in by ``service``.  ``coordinator`` steps the machine under one lock, in the caller's thread; time-outs run in its
``group_loop``.  ``leadership`` has the driver's member and its rounds, ``member_directory`` the agents; ``assignor_runner`` runs a
user's assignor in a thread.  ``plan_registry`` has the plans and their claims, ``history`` and ``totals`` what the status shows.
Nothing here talks to Kafka.
"""
