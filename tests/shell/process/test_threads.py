"""Background threads that fail, end, or can't be started: they go on, or somebody hears of it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context

import pytest

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.rpc import threads
from sparkcohort.runtime.shell.rpc.log_lines import GROUP, OneLine
from sparkcohort.runtime.shell.rpc.threads import Supervised
from tests.kit.waiting import wait_until

ERRORS = [RuntimeError("can't start new thread"), MemoryError(), OSError(24, "Too many open files"), SystemExit(3)]


class Counting:
    """Work that fails as often as it is told to."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.done = self.amended = self.ended = 0
        self.given_up: list[str] = []
        self.going = True

    def wait(self) -> bool:
        """There is always something to do."""
        threading.Event().wait(0.001)
        return self.going

    def work(self) -> None:
        """One success, or the next error."""
        if self.errors:
            raise self.errors.pop(0)
        self.done += 1

    def amend(self) -> None:
        """Counted."""
        self.amended += 1

    def end(self) -> None:
        """Counted."""
        self.ended += 1

    def give_up(self, error: CohortError) -> None:
        """Remembered."""
        self.given_up.append(str(error))


@contextmanager
def running(work: Counting) -> Iterator[Supervised]:
    """A supervised thread that does this work."""
    thread = Supervised("a-thread", work.wait, work.work, work.give_up, amend=work.amend, ended=work.end)
    thread.start()
    try:
        yield thread
    finally:
        thread.close()
        thread.join(5)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_it_goes_on_after_an_error_told_once(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever it was: one line with its traceback, the work again, and a word when it is well."""
    work = Counting(error, error)
    with caplog.at_level(logging.INFO, "sparkcohort.threads"), running(work) as thread:
        wait_until(lambda: work.done and not thread.trouble, 5, "the work to be done, and well")
    told = [(record.levelname, record.getMessage(), bool(record.exc_info)) for record in caplog.records]
    assert told == [
        ("ERROR", "background thread a-thread failed and is tried again", True),
        ("INFO", "background thread a-thread goes on, after 2 failures", False),
    ]
    assert (work.amended, work.ended, work.given_up) == (2, 1, [])


def test_what_never_succeeds_is_given_up_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its patience, not before; the pauses between the tries grow and are bounded."""
    monkeypatch.setattr(threads, "PATIENCE_S", 0.5)
    monkeypatch.setattr(threads, "PAUSE_S", 0.01)
    monkeypatch.setattr(threads, "MOST_PAUSE_S", 0.1)
    work, began = Counting(*[MemoryError("no more")] * 1000), time.monotonic()
    with running(work) as thread:
        wait_until(lambda: work.given_up, 10, "the work to be given up")
        assert time.monotonic() - began > 0.5
        wait_until(lambda: not thread.is_alive(), 5, "the thread to end")
    assert len(work.given_up) == work.ended == 1
    assert "a-thread is given up: it has failed" in work.given_up[0] and "MemoryError: no more" in work.given_up[0]
    assert 5 < 1000 - len(work.errors) < 20


def test_time_alone_is_no_reason_to_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was frozen for an hour has not tried for an hour: some tries belong to it."""
    monkeypatch.setattr(threads, "PATIENCE_S", -1.0)
    monkeypatch.setattr(threads, "PAUSE_S", 0.001)
    work = Counting(*[MemoryError("no more")] * (threads.LEAST_TRIES - 1))
    with running(work):
        wait_until(lambda: work.done, 5, "the work to be done")
    assert work.given_up == []


def test_one_that_cannot_be_started_fails_where_it_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller hears of it, and whatever is larger ends with it."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"), running(Counting()):
        pass


def test_one_that_fails_over_a_failure_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread dies unseen."""
    work = Counting(ValueError("first"))

    def failing() -> None:
        raise MemoryError

    monkeypatch.setattr(work, "amend", failing)
    with running(work):
        wait_until(lambda: work.given_up, 10, "it to be given up")
    assert "it failed over a failure, with MemoryError" in work.given_up[0]
    assert work.ended == 1


def test_a_threads_lines_say_of_which_group_they_are() -> None:
    """It has the group of whoever made it, whoever starts it; elsewhere lines are of none."""
    lines: list[str] = []
    record = logging.LogRecord("sparkcohort", logging.INFO, "", 0, "assigned %s", ("t-0",), None)

    def make() -> Supervised:
        GROUP.set("billing")
        return Supervised("a-thread", lambda: not lines, lambda: lines.append(OneLine().format(record)), print)

    made = copy_context().run(make)
    made.start()
    made.join(30)
    assert lines == ["[billing] assigned t-0"]
    assert OneLine().format(record) == "assigned t-0"
