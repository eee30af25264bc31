"""A user's rebalance listener in real agents: what it is told, and that the group goes on whatever it does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.kit.agents import PARTITIONS, World, gone
from tests.kit.mock import MockCluster
from tests.kit.waiting import wait_until

MODULE = """
import json, os, threading

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

class Blocking(Teller):
    def on_partitions_revoked(self, partitions):
        threading.Event().wait()

class Raising(Teller):
    def on_partitions_revoked(self, partitions):
        raise ValueError("not these")
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
def world(mock_broker: MockCluster, tmp_path: Path) -> Iterator[World]:
    """A running coordinator; its agents find the user's module beside the test's files."""
    running = World(mock_broker)
    running.session_timeout_ms, running.paths = 20_000, [str(tmp_path)]
    yield running
    running.close()


def calls(told: Path, agent: psutil.Process) -> list[tuple[str, list[Any]]]:
    """What the listener of this agent was told so far: events with partition numbers."""
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    return [(event, sorted(number for _, number in partitions)) for pid, event, partitions in lines if pid == agent.pid]


def counted(world: World) -> dict[tuple[str, str], int]:
    """Calls by event and outcome, as the metrics have them."""
    return {(row["event"], row["outcome"]): row["calls"] for row in world.coordinator.listener_totals.as_value()}


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
    figures = wait_until(lambda: counted(world) if ("lost", "returned") in counted(world) else None, 10, "its figures")
    assert figures["created", "returned"] == 2
    assert figures["assigned", "returned"] >= 3
    assert not {outcome for _, outcome in figures} - {"returned"}


@pytest.mark.parametrize(("name", "outcome"), [("Blocking", "overran"), ("Raising", "raised")])
def test_a_listener_cannot_hold_the_group_up(world: World, told: Path, name: str, outcome: str) -> None:
    """One that blocks for ever, or raises: the partitions move, no member is put out, and the metrics tell."""
    world.listener, world.rebalance_timeout_ms = f"users_module:{name}", 1_000
    first, one = world.start("1")
    wait_until(world.settled(), 10, "the first member to own the partitions")
    member = world.member(first)
    _, two = world.start("2")

    wait_until(lambda: sorted(world.loads()) == [1, PARTITIONS - 1], 10, "both to own something")
    assert world.member(first) == member
    wait_until(lambda: counted(world).get(("revoked", outcome)) == 1, 5, "the call to be counted")
    wait_until(lambda: len(calls(told, two)) == 1, 10, "the other's listener to be told")
    one.terminate()
    wait_until(lambda: gone(one), 10, "the agent to end in spite of its listener")
