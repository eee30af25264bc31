"""The run's port: how agents, tasks and people reach the coordinator.

``flight`` is both ends of it (Arrow Flight over mutual TLS), ``tls`` the run's own authority, ``endpoint`` what a task
must know, ``connection_file`` what a person's tools find.  Each request runs in a
thread of Flight's; a member's pushed events leave through a queue of its own.
"""
