"""A process that has no thread, no memory and no descriptor to spare for a while, and then has."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from sparkcohort.runtime.shell.kafka.fetch.background import BackgroundWork
from tests.kit.mock import MockCluster
from tests.kit.produce import produce
from tests.kit.waiting import wait_until

SCRIPT = Path(__file__).with_name("scripts") / "short_of_threads.py"


class Short:
    """The process (see the script)."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        options = {
            "kafka.bootstrap.servers": bootstrap,
            "group.id": "g",
            "subscribe": topic,
            "metadata.max.age.ms": "300",
        }
        command = [sys.executable, str(SCRIPT), json.dumps(options)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def ask(self, line: str = "") -> Any:
        """Say something and hear what it knows."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def short_in_time(bootstrap: str, topic: str, short_of: str) -> Short:
    """A process that watches no broker yet and has nothing left to watch one with: a busy broker may be watched from the start."""
    for _ in range(20):
        short = Short(bootstrap, topic)
        if short.ask() == {"unreachable": {}, "ends": [0, 0]} and short.ask(f"no {short_of}") != "late":
            return short
        short.process.kill()
        short.process.communicate()
    raise AssertionError("each of 20 processes watched a broker before it was short of anything")


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("short_of", "why"), [("threads", "can't start new thread"), ("descriptors", "Too many open files")]
)
def test_log_ends_come_back_when_there_is_enough_again(topic: str, short_of: str, why: str) -> None:
    """A broker falls silent while no thread can be had to watch it, and answers again: all partitions are told of."""
    with MockCluster(2) as mock:
        mock.create_topic(topic, 2)
        for number in range(2):
            mock.set_leader(topic, number, number + 1)
        short = short_in_time(mock.bootstrap, topic, short_of)
        try:
            mock.round_trip_ms(5000, 2)
            wait_until(lambda: short.ask()["unreachable"], 30, "broker 2 to be missed")
            wait_until(lambda: f"{topic}-1" in short.ask()["unreachable"], 30, "its partition")
            short.ask("restore")
            mock.round_trip_ms(0, 2)
            produce(mock.bootstrap, topic, 10, partitions=2)
            wait_until(lambda: short.ask() == {"unreachable": {}, "ends": [5, 5]}, 60, "both ends, as they are now")
        finally:
            short.process.kill()
            _, said = short.process.communicate()
        assert why in said, said


def test_work_that_gets_no_thread_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked is told so, as of any failure, and tries again; nobody waits for what never began."""
    jobs, heard = BackgroundWork(), list[object]()

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", refuse)
        jobs.start(lambda: 1, heard.append, None)
    jobs.deliver()
    assert isinstance(heard[0], OSError) and "can't start new thread" in str(heard[0])
    jobs.start(lambda: 1, heard.append, None)

    def delivered() -> bool:
        jobs.deliver()
        return heard[1:] == [1]

    wait_until(delivered, 5, "the work")
    jobs.close()
