"""The rebalance listener: found by name, called in order in its own thread, and never waited for too long."""

from __future__ import annotations

import logging
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.listener import RebalanceListener
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.agent import listener_runner
from sparkcohort.runtime.shell.agent.listener_runner import ListenerRunner, check_listener, patience_ms

ONE, TWO = TopicPartition("orders", 1), TopicPartition("orders", 2)
LONG_MS, SHORT_MS, LIMIT_S = 60_000, 300, 20.0


class Recorder(RebalanceListener):
    """Keeps what it is told; its revocations wait for ``gate`` and then do what ``fate`` does."""

    def __init__(self) -> None:
        self.told: queue.SimpleQueue[tuple[str, Sequence[tuple[str, int]]]] = queue.SimpleQueue()
        self.gate = threading.Event()
        self.gate.set()
        self.fate: Callable[[], None] = lambda: None

    def on_partitions_assigned(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Note it."""
        self.told.put(("assigned", partitions))

    def on_partitions_revoked(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Note it when allowed to."""
        assert self.gate.wait(LIMIT_S)
        self.fate()
        self.told.put(("revoked", partitions))


class Lone:
    """A listener that only wants to hear of revocations, and is no subclass."""

    def __init__(self) -> None:
        self.told: queue.SimpleQueue[Sequence[tuple[str, int]]] = queue.SimpleQueue()

    def on_partitions_revoked(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Note it."""
        self.told.put(partitions)


class Demanding(RebalanceListener):
    """Can't be created without help."""

    def __init__(self, helper: str) -> None:
        self.helper = helper


class Broken(RebalanceListener):
    """Can't be created at all."""

    def __init__(self) -> None:
        raise OSError("no such database")


recorder = Recorder()
nothing = object()
HERE = __name__


@pytest.fixture
def listener() -> Recorder:
    """A fresh recorder, findable by its dotted name."""
    global recorder  # noqa: PLW0603  what a dotted name names is global
    recorder = Recorder()
    return recorder


class Heard(logging.Handler):
    """Listening to a listener of this module, with what the log says of it."""

    def __init__(self, name: str, patience: int = LONG_MS) -> None:
        super().__init__()
        self.reports: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        listener_runner.log.addHandler(self)
        listener_runner.log.setLevel(logging.INFO)
        self.listening = ListenerRunner(name, patience)

    def emit(self, record: logging.LogRecord) -> None:
        """A call has ended, or is not waited for any longer."""
        arguments: Any = record.args
        if record.levelno == logging.WARNING:
            self.reports.put((arguments[1].event, "overran"))
        elif record.levelno == logging.INFO and not arguments[1].is_acknowledged:
            self.reports.put((arguments[1].event, arguments[2]))

    def report(self) -> tuple[str, str]:
        """The next call's event and how it ended, the constructor's left out."""
        event, outcome = self.reports.get(timeout=LIMIT_S)
        return self.report() if (event, outcome) == ("created", "returned") else (event, outcome)

    def revoke(self, *partitions: TopicPartition) -> threading.Event:
        """Tell of a revocation; the event is set when the member may go on."""
        done = threading.Event()
        self.listening.call_revoked(partitions, done.set)
        return done

    def close(self) -> None:
        """Wait for the calls under way: of the log the next test hears all."""
        self.listening.close([], LIMIT_S, are_lost=False)
        listener_runner.log.removeHandler(self)


Hear = Callable[..., Heard]


@pytest.fixture
def hear(listener: Recorder) -> Iterator[Hear]:
    """What starts to listen, with the arguments of ``Heard``."""
    with ExitStack() as stack:
        yield lambda *arguments: stack.enter_context(closing(Heard(*arguments)))
        listener.gate.set()


def test_calls_come_in_order_and_one_at_a_time(listener: Recorder, hear: Hear) -> None:
    """What is revoked is told, and waited for, before what is assigned after it; partitions are plain sorted pairs."""
    heard = hear(f"{HERE}:recorder")
    listener.gate.clear()
    done = heard.revoke(TWO, ONE)
    heard.listening.call_assigned([TWO])
    heard.listening.call_lost([ONE])
    assert listener.told.empty() and not done.is_set()
    listener.gate.set()

    assert done.wait(LIMIT_S)
    assert [listener.told.get(timeout=LIMIT_S) for _ in range(3)] == [
        ("revoked", (("orders", 1), ("orders", 2))),
        ("assigned", (("orders", 2),)),
        ("revoked", (("orders", 1),)),  # lost, which is as revoked unless overridden
    ]
    assert [heard.report() for _ in range(3)] == [
        ("revoked", "returned"),
        ("assigned", "returned"),
        ("lost", "returned"),
    ]


def test_one_that_blocks_is_gone_on_without(listener: Recorder, hear: Hear, caplog: pytest.LogCaptureFixture) -> None:
    """At the end of its time the member goes on and says so; while it still blocks, the next is not waited for at all."""
    heard = hear(f"{HERE}.recorder", SHORT_MS)
    listener.gate.clear()
    assert heard.revoke(ONE).wait(LIMIT_S)
    assert heard.report() == ("revoked", "overran")
    assert f"{HERE}.recorder: not done with on_partitions_revoked" in caplog.text
    assert heard.revoke(TWO).is_set()
    assert heard.report() == ("revoked", "overran")
    listener.gate.set()

    assert [listener.told.get(timeout=LIMIT_S)[1] for _ in range(2)] == [
        (tuple(ONE),),
        (tuple(TWO),),
    ]  # late, not never
    assert heard.revoke(ONE).wait(LIMIT_S)
    assert heard.report() == ("revoked", "returned")


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, KeyboardInterrupt])
def test_one_that_raises_is_logged_and_gone_on_with(
    listener: Recorder, hear: Hear, caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    """Whatever it raises: the member goes on at once, and the next call is made."""

    def fail() -> None:
        raise error("of its own making")

    heard, listener.fate = hear(f"{HERE}:recorder"), fail
    assert heard.revoke(ONE).wait(LIMIT_S)
    assert heard.report() == ("revoked", "raised")
    assert f"listener {HERE}:recorder: on_partitions_revoked of 1 partition raised" in caplog.text
    assert "of its own making" in caplog.text
    heard.listening.call_assigned([TWO])
    assert listener.told.get(timeout=LIMIT_S) == ("assigned", (tuple(TWO),))


def test_one_that_cannot_be_created_is_gone_on_without(hear: Hear) -> None:
    """The group doesn't wait for a listener that isn't there."""
    heard = hear(f"{HERE}.Broken")
    assert heard.revoke(ONE).wait(LIMIT_S)
    assert heard.report() == ("created", "raised")


def test_any_object_with_one_of_the_methods_will_do(monkeypatch: pytest.MonkeyPatch, hear: Hear) -> None:
    """What it has no method for is passed over; what is lost is told as revoked (Kafka: onPartitionsLost's default)."""
    lone = Lone()
    monkeypatch.setattr(sys.modules[HERE], "recorder", lone)
    heard = hear(f"{HERE}:recorder")
    heard.listening.call_assigned([ONE])
    heard.listening.call_lost([ONE])
    assert heard.revoke(TWO).wait(LIMIT_S)
    assert [lone.told.get(timeout=LIMIT_S) for _ in range(2)] == [(tuple(ONE),), (tuple(TWO),)]


@pytest.mark.parametrize("lost", [False, True])
def test_the_end_is_told_and_waited_for_a_moment(listener: Recorder, hear: Hear, lost: bool) -> None:
    """A member that ends tells of what it still has; a listener that blocks does not keep it."""
    heard = hear(f"{HERE}:recorder")
    heard.listening.close([ONE], LIMIT_S, are_lost=lost)
    assert listener.told.get_nowait() == ("revoked", (tuple(ONE),))
    assert heard.report() == ("lost" if lost else "revoked", "returned")
    listener.gate.clear()
    heard.listening.close([ONE], 0.01, are_lost=lost)
    assert listener.told.empty()


def test_its_time_ends_before_the_rebalance_timeout() -> None:
    """Five seconds before, or a fifth of it: the member has to rejoin by then."""
    assert [patience_ms(timeout) for timeout in (1_000, 5_000, 60_000, 300_000)] == [800, 4_000, 55_000, 295_000]


@pytest.mark.parametrize("name", [f"{HERE}.Lone", f"{HERE}:Recorder", f"{HERE}:recorder", f"{HERE}.recorder"])
def test_classes_and_objects_are_found_by_name(name: str) -> None:
    """With a dot or a colon before the last name."""
    check_listener(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no_such_module.Listener", "ModuleNotFoundError: No module named 'no_such_module'"),
        (f"{HERE}.NoSuchClass", "AttributeError"),
        (f"{HERE}:nothing", "has none of the methods on_partitions_assigned"),
        (f"{HERE}.Demanding", "constructor wants some"),
    ],
)
def test_what_is_no_listener_is_refused_by_name(name: str, why: str) -> None:
    """The error names the option, the value, what is wrong and what to do."""
    with pytest.raises(OptionError, match=f"option rebalance.listener='{name}'") as refused:
        check_listener(name)
    assert why in str(refused.value)


def test_a_module_that_raises_when_imported_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the user's module does at its import is told with the option."""
    (tmp_path / "listener_that_fails.py").write_text("raise RuntimeError('no licence')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(OptionError, match=r"option rebalance.listener=.*RuntimeError: no licence"):
        check_listener("listener_that_fails.Listener")
