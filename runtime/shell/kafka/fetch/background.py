"""Work that blocks (connecting, asking for metadata), done in threads of its own for a thread that polls."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from sparkcohort.runtime.shell.kafka.fetch.connection import Transport

T = TypeVar("T")


class BackgroundWork:
    """Starts work and keeps what it brings until ``deliver``; ``fileno`` is readable when there is something."""

    def __init__(self) -> None:
        """Nothing is under way."""
        self._done: deque[tuple[Callable[[Any], None], Any]] = deque()  # with the result of each
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        self._closed = False

    def fileno(self) -> int:
        """For a selector."""
        return self._event

    def start(self, work: Callable[[], T], callback: Callable[[T | Exception], None]) -> None:
        """Do ``work`` elsewhere; ``callback`` takes its result or error in ``deliver``.  After ``close`` a transport is closed instead."""
        threading.Thread(target=partial(self._run, work, callback), name="cohort-fetch-job", daemon=True).start()

    def _run(self, work: Callable[[], T], callback: Callable[[T | Exception], None]) -> None:
        result: T | Exception
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is for the thread that asked
            result = error
        with self._lock:
            if not self._closed:
                self._done.append((callback, result))
                os.eventfd_write(self._event, 1)
                return
        _drop(result)

    def wake(self) -> None:
        """Make ``fileno`` readable, from any thread; ``deliver`` may find nothing."""
        with self._lock:
            if not self._closed:
                os.eventfd_write(self._event, 1)

    def deliver(self) -> None:
        """Hand out what has been done; one whose ``then`` raises is done, the others come with the next call."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._event)
        while self._done:
            callback, result = self._done.popleft()
            try:
                callback(result)
            except BaseException:
                self.wake()  # unless the callback has closed this
                raise

    def close(self) -> None:
        """Forget what is under way; what it brings, or has brought, is dropped."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            os.close(self._event)
        while self._done:
            _drop(self._done.popleft()[1])


def _drop(result: object) -> None:
    if isinstance(result, Transport):
        result.close()
