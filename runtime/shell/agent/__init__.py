"""The process on an executor, and the members in it: each joins, owns partitions, fetches them ahead and serves tasks.

``agent`` is the process, with a ``query_member`` for each query of the application.  A member has three threads of its own:
``member_loop`` runs its machine, with its ``member_positions`` and ``member_reports``; ``prefetch`` fills the ``owned_buffers``
by its ``prefetch_client``; a third waits for the coordinator's events.  ``task_server`` has a thread for each task that is
connected, ``shared_memory`` what it lends them, ``range_service`` what it reads for them alone; ``listener_runner`` calls the user's listener in a thread of its own.  What
blocks (the coordinator's port) runs in callers' threads.

A Python worker has the other end: ``agent_config`` is what it starts a member with (for the JVM ``launch`` does), ``task_client`` asks it.  ``task_frames`` and
``task_requests`` say what goes between them.
"""
