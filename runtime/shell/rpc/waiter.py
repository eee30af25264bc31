"""Where the reply to one request goes."""

from __future__ import annotations

import queue

from sparkcohort.runtime.protocol.messages import Reply


class Waiter:
    """Where one request's reply goes; None when there will be none.

    Nearly every reply is there when the step is over.  Only a request that is parked needs something to wait with;
    it is made before the lock is given up, so no reply can come in between.
    """

    __slots__ = ("_replies", "_reply", "is_answered")

    def __init__(self) -> None:
        self.is_answered = False
        self._reply: Reply | None = None
        self._replies: queue.SimpleQueue[Reply | None] | None = None

    def park(self) -> None:
        """Make ready to wait; for whoever holds the lock."""
        self._replies = queue.SimpleQueue()

    def set_reply(self, reply: Reply | None) -> None:
        """Answer; for whoever holds the lock."""
        self.is_answered, self._reply = True, reply
        if self._replies is not None:
            self._replies.put(reply)

    def get(self, timeout_s: float) -> Reply | None:
        """The reply; raises queue.Empty after ``timeout_s``."""
        return self._reply if self._replies is None else self._replies.get(timeout=timeout_s)
