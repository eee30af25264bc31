"""A task and its executor's agent: it comes behind the rows, and not at all where the query ends with them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from sparkcohort.runtime.batches.claims import Slot
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.options.parse import parse
from sparkcohort.runtime.shell.rpc.endpoint import Run
from sparkcohort.runtime.shell.rpc.executor import Executor
from sparkcohort.streaming import agent_start, task
from sparkcohort.streaming.slot_reader import SlotPartition, SlotReader
from tests.kit.agents import TOPIC, World

HERE = Executor(os.getpid(), 1, "7", "host", 2)
HALF = (Range(TOPIC, 0, 0, 10),)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of agents that were started, none of which ever answers; this process is a worker of an executor."""
    started: list[str] = []

    def start(name: str, *_: object) -> bool:
        started.append(name)
        return True

    monkeypatch.setattr(agent_start, "start_agent", start)
    monkeypatch.setattr(task, "_executor", lambda: (HERE, ""))
    yield started
    agent_start._starts.clear()
    task._no_agent_reasons.clear()


def slot_of(world: World, plan: str, index: int = 0) -> SlotPartition:
    """An input partition of one of the world's plans."""
    return SlotPartition(Run("run", "127.0.0.1", world.server.port, world.authority.client), plan, index, 10.0)


def reader_of(world: World) -> SlotReader:
    """What an executor gets."""
    return SlotReader(parse({"kafka.bootstrap.servers": world.bootstrap, "subscribe": TOPIC, "group.id": "g"}))


def test_an_agent_comes_behind_the_rows(world: World, started: list[str]) -> None:
    """Its imports take half a second of a core, for which the first rows would wait."""
    world.plans.register("first", [Slot(None, HALF)])
    rows = 0
    for batch in reader_of(world).read(slot_of(world, "first")):
        rows += batch.num_rows
        assert started == []
        assert world.plans.audit.ranges_delivered == 0
    assert rows == 10
    assert world.plans.audit.ranges_delivered == 1
    assert started == [HERE.agent_name()]


def test_none_comes_where_the_query_ends(world: World, started: list[str]) -> None:
    """The driver says so in its reply to the claim: nobody would ask that agent for anything."""
    world.plans.register("only", [Slot(None, HALF), Slot(None)], last=True)
    for index in range(2):
        assert sum(batch.num_rows for batch in reader_of(world).read(slot_of(world, "only", index))) in (0, 10)
    assert started == []


def test_an_empty_slot_starts_one(world: World, started: list[str]) -> None:
    """That is what such slots are for: an executor with idle cores comes into the group."""
    world.plans.register("idle", [Slot(None)])
    assert list(reader_of(world).read(slot_of(world, "idle"))) == []
    assert started == [HERE.agent_name()]


def test_a_task_that_does_not_come_to_its_end_starts_one_as_rarely(world: World, started: list[str]) -> None:
    """Ended in mid-range by Spark or by an error, ten times in a moment: one agent; refused by the driver: none."""
    world.plans.register("cut", [Slot(None, HALF)])
    with pytest.raises(CohortError):
        list(reader_of(world).read(slot_of(world, "of long ago")))
    assert started == []
    for _ in range(10):
        with closing(reader_of(world).read(slot_of(world, "cut"))) as batches:
            assert next(batches).num_rows
    assert len(started) == 1
    assert world.plans.audit.ranges_delivered == 0
