"""Jobs for the one thread that owns a client: others hand them in and wait, the owner runs them between polls."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from sparkcohort.runtime.errors import CohortError

T = TypeVar("T")
RETRY_S = 0.1


class CommitDelayed(CohortError):
    """The group could not be asked in time: rebalancing, its coordinator away, or membership being settled.

    Nothing is wrong yet: the same request can be made again.
    """


class RetryLater(Exception):
    """A job cannot be done now; says why.  It is tried again until its time is over."""


class ClientThread:
    """A queue of jobs; ``check`` raises what makes waiting pointless, ``changed`` tells when trying again may pay."""

    def __init__(self, check: Callable[[], None], changed: threading.Condition) -> None:
        self._check = check
        self._changed = changed
        self._current: Future[Any] | None = None
        self._queue: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()

    def run(self, job: Callable[[], T], timeout_s: float, name: str) -> T:
        """Have ``job`` run by the owner, again while it says "not now".  Raises CommitDelayed with ``name``."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._check()
            answer: Future[T] = Future()
            self._queue.put((job, answer))
            try:
                return _result(answer, max(deadline, time.monotonic() + RETRY_S))
            except TimeoutError:
                answer.cancel()
                reason = "the brokers do not answer"
            except RetryLater as error:
                reason = str(error)
            except (MemoryError, OSError, RuntimeError) as error:  # what there is too little of for a moment
                reason = f"{type(error).__name__}: {error}"
            self._check()
            if time.monotonic() >= deadline:
                raise CommitDelayed(f"{name}: not within {timeout_s:g} s: {reason}")
            with self._changed:
                self._changed.wait(RETRY_S)

    def serve(self, wait_s: float) -> None:
        """For the owner: run one job, waited for at most ``wait_s``."""
        try:
            job, answer = self._queue.get(timeout=wait_s)
        except queue.Empty:
            return
        self._current = answer
        try:
            if answer.set_running_or_notify_cancel():
                answer.set_result(job())
        except BaseException as error:  # noqa: BLE001  it is the caller's
            answer.set_exception(error)

    def amend(self) -> None:
        """For the owner, after an error of its own: the caller of the job that it was at tries again."""
        answer, self._current = self._current, None
        if answer is not None and not answer.done():
            answer.set_exception(RetryLater("the owner of the client has failed"))

    def refuse(self) -> None:
        """For the owner at its end: the callers that wait get an error."""
        self.amend()
        while not self._queue.empty():
            self._queue.get_nowait()[1].set_exception(RetryLater("the membership has ended"))


def _result(answer: Future[T], deadline: float) -> T:
    """The answer of the owner.  Raises TimeoutError, or what the job raised."""
    try:
        return answer.result(max(deadline - time.monotonic(), 0.0))
    finally:
        del (
            answer
        )  # else an error, its traceback, this frame and the answer would keep each other, and a client with them
