"""However a run is ended, and whenever the signal comes: nothing is left, and first of all no secret."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.rpc import process_identity as goings
from sparkcohort.runtime.shell.rpc.process_identity import wait_for_exit
from sparkcohort.runtime.shell.rpc.shutdown import Ending, Order
from tests.kit.mock import MockCluster
from tests.kit.tier import of_tier
from tests.kit.waiting import hold_for, wait_until

SCRIPT = Path(__file__).with_name("scripts") / "ending_session.py"
LIMIT_S = 60
STEPS = 12
ORDER = ["SECRETS", "LOCK", "COMMITS", "AGENTS", "PORTS", "JOURNAL", "INSIDE"]


class Runner:
    """A process with a run in it."""

    def __init__(self, mock: MockCluster, topic: str, home: Path, name: str, step: int = -1, how: str = "") -> None:
        options = {"kafka.bootstrap.servers": mock.bootstrap, "group.id": name, "subscribe": topic, "metrics.port": "0"}
        self.home = home
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), json.dumps(options), str(step), how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "COHORT_HOME": str(home)},
        )
        self.first: dict[str, Any] = {}

    def begun(self) -> None:
        """Wait until it runs."""
        assert self.process.stdout is not None
        self.first = json.loads(self.process.stdout.readline())
        assert self.file.exists()

    @property
    def file(self) -> Path:
        """Its connection file."""
        return self.home / f"{self.first['run']}.json"

    def closed(self) -> list[str]:
        """What was closed, in order, when the process is gone; nothing of it is left then."""
        said, _ = self.process.communicate(timeout=LIMIT_S)
        assert not self.file.exists()
        with socket.socket() as port:
            assert port.connect_ex(("127.0.0.1", self.first["port"])) != 0
        lines = [json.loads(line) for line in said.splitlines()]
        return [line["closed"] for line in lines if "closed" in line]


@pytest.fixture
def started(mock_broker: MockCluster, topic: str, tmp_path: Path) -> Iterator[Any]:
    """Starts runners; all are gone at the end."""
    mock_broker.create_topic(topic)
    runners: list[Runner] = []

    def start(step: int = -1, how: str = "") -> Runner:
        runners.append(Runner(mock_broker, topic, tmp_path, f"{topic}-{len(runners)}", step, how))
        return runners[-1]

    yield start
    for runner in runners:
        runner.process.kill()
        runner.process.communicate()


@pytest.mark.timeout(300)
def test_a_signal_in_the_middle_of_closing_cuts_nothing_short(started: Any) -> None:
    """The socket is closed first, then SIGTERM comes, before each step in turn: all are taken, each once, in order."""
    runners = [started(step) for step in range(0, STEPS, of_tier(quick=4, thorough=1))]
    for runner in runners:
        runner.begun()
        assert list(dict.fromkeys(runner.first["steps"])) == ORDER
        assert len(runner.first["steps"]) <= STEPS
    for runner in runners:
        assert runner.process.stdin is not None
        runner.process.stdin.close()
        runner.process.stdin = None
    for number, runner in enumerate(runners):
        assert runner.closed() == runner.first["steps"], f"SIGTERM before the step of runner {number}"


@pytest.mark.timeout(300)
def test_each_end_alone_is_enough(started: Any) -> None:
    """The socket's alone, a signal's alone, two signals, and one that comes while the main thread is somewhere in C."""
    by_socket, by_signal, by_two, blocked = started(), started(), started(), started(how="blocked")
    for runner in (by_socket, by_signal, by_two, blocked):
        runner.begun()
    by_socket.process.stdin.close()
    by_socket.process.stdin = None
    for runner in (by_signal, by_two, by_two, blocked):
        runner.process.send_signal(signal.SIGTERM)
    for runner in (by_socket, by_signal, by_two, blocked):
        assert runner.closed() == runner.first["steps"]


def test_what_hangs_is_left_to_the_kernel(started: Any) -> None:
    """A step that never ends: the process is gone in time all the same, and the secrets were before it."""
    runner = started(how="hangs")
    runner.begun()
    runner.process.send_signal(signal.SIGTERM)
    assert runner.closed() == ["SECRETS", "LOCK"]
    assert runner.process.returncode == -signal.SIGALRM


def test_everything_is_closed_once_in_order_and_whoever_comes_second_waits() -> None:
    """An error of one step costs the others nothing; nothing can be opened any more."""
    ending, closed, reached, let_go = Ending(), list[str](), threading.Event(), threading.Event()

    def slow() -> None:
        reached.set()
        assert let_go.wait(10)
        closed.append("agents")

    def failing() -> None:
        closed.append("lock")
        raise OSError("no")

    ending.add(Order.AGENTS, slow)
    ending.add(Order.LOCK, failing)
    assert ending.open(Order.SECRETS, lambda: "file", closed.append) == "file"
    first = threading.Thread(target=ending.run)
    second = threading.Thread(target=ending.run)
    first.start()
    assert reached.wait(10)
    second.start()
    with pytest.raises(CohortError, match="ending"):
        ending.open(Order.SECRETS, lambda: closed.append("made"), print)
    hold_for(second.is_alive, 0.2, "the second to wait")
    let_go.set()
    first.join(10)
    second.join(10)
    assert closed == ["file", "lock", "agents"]


def test_a_process_that_ends_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed, and before anybody has waited for it; and one that is gone already."""
    monkeypatch.setattr(goings, "POLL_S", 0.05)
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    watcher = threading.Thread(target=wait_for_exit, args=(child.pid,))
    watcher.start()
    try:
        hold_for(watcher.is_alive, 0.3, "the watch over a living process")
    finally:
        child.kill()
    wait_until(lambda: not watcher.is_alive(), 10, "its end to be noticed")
    child.wait()
    wait_for_exit(child.pid)


def test_a_watch_can_be_woken() -> None:
    """By something to be read."""
    reader, writer = os.pipe()
    os.write(writer, b"x")
    wait_for_exit(os.getpid(), reader)
    os.close(reader)
    os.close(writer)
