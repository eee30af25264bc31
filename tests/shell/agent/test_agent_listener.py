"""A user's rebalance listener in real agents: what it is told; what it may do there is in test_listener_runner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.kit.agents import World, gone
from tests.kit.waiting import wait_until

MODULE = """
import json, os

class Teller:
    def tell(self, event, partitions):
        with open(os.environ["TOLD"], "a") as file:
            print(json.dumps([os.getpid(), event, partitions]), file=file)

    def on_partitions_assigned(self, partitions):
        self.tell("assigned", partitions)

    def on_partitions_revoked(self, partitions):
        self.tell("revoked", partitions)

    def on_partitions_lost(self, partitions):
        self.tell("lost", partitions)
"""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the listeners of this test write, a line a call."""
    (tmp_path / "users_module.py").write_text(MODULE)
    path = tmp_path / "told"
    path.touch()
    monkeypatch.setenv("TOLD", str(path))
    return path


@pytest.fixture
def world(world: World, tmp_path: Path) -> World:
    """Its agents find the user's module beside the test's files."""
    world.session_timeout_ms, world.paths = 20_000, [str(tmp_path)]
    return world


def calls(told: Path, agent: psutil.Process) -> list[tuple[str, list[Any]]]:
    """What the listener of this agent was told so far: events with partition numbers."""
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    return [(event, sorted(number for _, number in partitions)) for pid, event, partitions in lines if pid == agent.pid]


def test_a_listener_is_told_what_its_member_gets_and_gives_up(world: World, told: Path) -> None:
    """New ones only, what is revoked before anybody else has it; at the executor's end the rest; loss is told as loss."""
    world.listener = "users_module.Teller"
    first, one = world.start("1")
    wait_until(lambda: calls(told, one) == [("assigned", [0, 1, 2])], 10, "the first assignment to be told")
    second, two = world.start("2")
    wait_until(lambda: calls(told, two), 10, "the second member's assignment to be told")

    ((_, moved),) = calls(told, two)
    assert calls(told, one)[1:] == [("revoked", moved)]
    two.suspend()
    world.remove(second)
    wait_until(lambda: calls(told, one)[2:] == [("assigned", moved)], 10, "it to get them back")
    two.resume()
    wait_until(lambda: ("lost", moved) in calls(told, two), 10, "the loss to be told")

    wait_until(lambda: sorted(world.loads()) == [1, 2], 10, "both to own something again")
    mine = [tp.partition for tp in world.owned_on(first)]
    world.executors[0].kill()
    wait_until(lambda: gone(one), 10, "the first agent to end")
    assert calls(told, one)[-1] == ("revoked", mine)
