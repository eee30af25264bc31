"""Calls that block, made by a few threads for one that must not block."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from sparkcohort.runtime.shell.rpc.threads import in_context

log = logging.getLogger("sparkcohort.threads")


class BlockingCalls:
    """As many calls at a time as there are threads; the others wait, in order.  A thread is started when it is needed."""

    def __init__(self, threads: int) -> None:
        """No thread yet."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="cohort-call")
        self._closed = False

    def submit(self, call: Callable[[], None], on_failure: Callable[[], None] | None = None) -> None:
        """Have this called; ``on_failure`` is called if it raises.  Raises RuntimeError if no thread can be had."""

        def attempt() -> None:
            try:
                call()
            except BaseException:  # a caller that waits for an answer has to know that none comes
                log.exception("a call to the coordinator failed")
                if on_failure is not None:
                    on_failure()

        if not self._closed:
            self._pool.submit(in_context(attempt))

    def close(self) -> None:
        """Make no more calls; one that is under way comes to its end."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
