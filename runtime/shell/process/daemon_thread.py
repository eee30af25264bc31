"""Threads whose start waits for a bounded time.

Where memory is short, the system may give a thread that then lacks the memory for its first step.  Python's own
``Thread.start`` waits for ever for that step (CPython issue 140746), and so does whoever starts one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

BEGIN_S: Final = 5.0


class DaemonThread(threading.Thread):
    """A daemon thread that begins within ``BEGIN_S`` or not at all.

    ``start`` raises RuntimeError where none can be had now, as ``threading.Thread`` does; then ``target`` is never called.
    """

    def __init__(self, target: Callable[[], object], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._call: Callable[[], object] | None = target
        self._decided = threading.Lock()
        self._runs = self._abandoned = False
        self._started = _Beginning(self)

    def run(self) -> None:
        """Call the target, unless ``start`` has given it up by now."""
        with self._decided:
            call, self._call = self._call, None
            self._runs = not self._abandoned
        if call is not None:
            call()

    def abandon(self) -> bool:
        """Whether it does not run by now, and never will."""
        with self._decided:
            self._abandoned = not self._runs
            # threading keeps what is not begun for ever: not with a connection, or whatever the target has.
            self._call = None
        return self._abandoned


class _Beginning(threading.Event):
    """What ``Thread.start`` waits for."""

    def __init__(self, thread: DaemonThread) -> None:
        super().__init__()
        self._thread = thread

    def wait(self, timeout: float | None = None) -> bool:
        if not super().wait(BEGIN_S if timeout is None else timeout) and self._thread.abandon():
            raise RuntimeError(f"can't start new thread: it did not begin within {BEGIN_S:g} s, for want of memory")
        return True
