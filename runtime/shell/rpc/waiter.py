"""The reply to one request, set by the thread that steps the group and read by the caller's thread."""

from __future__ import annotations

import queue

from sparkcohort.runtime.protocol.messages import Reply


class Waiter:
    """The reply to one request; None when the coordinator ends without one.

    Nearly every reply exists when the step is over.  Only a parked request needs a queue to wait on.  The queue is made before
    the lock is released, so no reply can come in between.
    """

    __slots__ = ("_replies", "_reply", "is_answered")

    def __init__(self) -> None:
        self.is_answered = False
        self._reply: Reply | None = None
        self._replies: queue.SimpleQueue[Reply | None] | None = None

    def park(self) -> None:
        """Make the queue to wait on; call with the lock held."""
        self._replies = queue.SimpleQueue()

    def set_reply(self, reply: Reply | None) -> None:
        """Set the reply; call with the lock held."""
        self.is_answered, self._reply = True, reply
        if self._replies is not None:
            self._replies.put(reply)

    def get(self, timeout_s: float) -> Reply | None:
        """The reply; raises queue.Empty after ``timeout_s``."""
        return self._reply if self._replies is None else self._replies.get(timeout=timeout_s)
