"""A thread that never begins, or begins late, after the system has given it."""

from __future__ import annotations

import _thread
import threading
import weakref
from collections.abc import Callable

import pytest

from sparkcohort.runtime.shell.process import daemon_thread
from sparkcohort.runtime.shell.process.daemon_thread import DaemonThread
from sparkcohort.runtime.shell.process.threads import Supervised
from tests.kit.waiting import wait_until

STARTS = ("_start_new_thread", "_start_joinable_thread")
"""What Python (3.11, 3.13) asks the system with."""


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """Threads are given and do not begin: their beginnings are here."""
    beginnings: list[Callable[[], object]] = []

    def give(begin: Callable[[], object], *_: object, **__: object) -> None:
        beginnings.append(begin)

    monkeypatch.setattr(daemon_thread, "BEGIN_S", 0.1)
    for name in STARTS:
        monkeypatch.setattr(threading, name, give, raising=False)
    return beginnings


@pytest.mark.timeout(60)
def test_one_that_does_not_begin_is_an_error(late: list[Callable[[], object]]) -> None:
    """Not a wait without an end; and where it begins after all, it is over."""
    called: list[int] = []
    with pytest.raises(RuntimeError, match=r"did not begin within \S+ s, for want of memory"):
        DaemonThread(lambda: called.append(1), "late").start()
    ended = threading.Event()

    def begin() -> None:
        late[0]()
        ended.set()

    _thread.start_new_thread(begin, ())
    assert ended.wait(30)
    assert called == []


def test_what_waits_for_the_beginning_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """``Thread.start`` of the Python at hand waits for what we have bounded; one that waits otherwise is found here."""
    waited: list[threading.Thread] = []
    wait = daemon_thread._Beginning.wait

    def heard(beginning: daemon_thread._Beginning, timeout: float | None = None) -> bool:
        waited.append(beginning._thread)
        return wait(beginning, timeout)

    monkeypatch.setattr(daemon_thread._Beginning, "wait", heard)
    thread = DaemonThread(lambda: None, "waited for")
    thread.start()
    assert waited[:1] == [thread]
    thread.join(30)


class Connection:
    """What a thread's target holds."""

    def use(self) -> None:
        """As a target."""


@pytest.mark.timeout(60)
@pytest.mark.usefixtures("late")
def test_one_that_does_not_begin_holds_nothing() -> None:
    """threading keeps such a thread as long as the process lives; what it would have worked on is let go."""
    connection = Connection()
    held, thread = weakref.ref(connection), DaemonThread(connection.use, "late")
    del connection
    assert held() is not None
    with pytest.raises(RuntimeError, match="did not begin"):
        thread.start()
    assert held() is None


def test_one_that_begins_is_a_thread() -> None:
    """With its name, and an end to wait for."""
    names: list[str] = []
    thread = DaemonThread(lambda: names.append(threading.current_thread().name), "prompt")
    thread.start()
    thread.join(30)
    assert names == ["prompt"]
    assert thread.daemon


@pytest.mark.timeout(60)
def test_work_is_taken_up_when_a_thread_begins_again(
    late: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks after a supervised thread is not held by one that does not begin."""
    works, gone_on = threading.Event(), threading.Event()
    thread = Supervised("work", lambda: not gone_on.wait(0.01), works.set, lambda _: None)
    thread.start()
    assert not thread.is_alive()
    monkeypatch.undo()
    wait_until(lambda: _look(thread) and works.is_set(), 30, "the work")
    gone_on.set()
    thread.join(30)


@pytest.mark.timeout(60)
def test_nobody_starts_a_second_one_while_the_first_begins(
    late: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start takes its time, in which the thread isn't alive: whoever looks then goes away, and one thread does the work."""
    monkeypatch.setattr(daemon_thread, "BEGIN_S", 20.0)
    workers: set[int] = set()
    gone_on, ended, started = threading.Event(), threading.Event(), threading.Event()
    thread = Supervised(
        "work",
        lambda: not gone_on.wait(0.01),
        lambda: workers.add(threading.get_ident()),
        lambda _: None,
        ended=ended.set,
    )

    def start() -> None:
        thread.start()
        started.set()

    _thread.start_new_thread(start, ())
    wait_until(lambda: late, 10, "the first to be asked for")
    thread.look(0.1)
    thread.join(10)  # of one that has not begun there is no end to wait for
    assert (len(late), thread.is_alive(), thread.trouble) == (1, False, "")
    _thread.start_new_thread(late[0], ())
    assert started.wait(10)
    wait_until(lambda: workers, 10, "the work")
    thread.look(0.1)
    assert (len(late), len(workers), thread.is_alive()) == (1, 1, True)
    gone_on.set()
    assert ended.wait(10)


def _look(thread: Supervised) -> bool:
    thread.look(0.1)
    return thread.is_alive()
