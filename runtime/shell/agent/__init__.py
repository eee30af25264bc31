"""The process on an executor, and the members in it: each joins, owns partitions, fetches them ahead and serves tasks.

``agent`` is the process, with a member for each query of the application; ``query_member`` owns a member's machine, in one
thread; ``prefetch`` owns the record source and the ``buffers``, in another;
``task_server`` has a thread for each task that is connected, ``shared_memory`` what it lends them; ``listener_runner``
calls the user's listener in a thread of its own.  What blocks (the coordinator's port) runs in callers' threads.

A Python worker has the other end: ``agent_config`` is what it starts a member with, ``task_client`` asks it.  ``task_frames`` and
``task_requests`` say what goes between them.
"""
