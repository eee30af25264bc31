"""Agents that freeze or die while they hold partitions: the tasks go on, and nobody commits for somebody else."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from tests.kit.application import Application, Query, Status, settled
from tests.kit.broker import Broker
from tests.kit.faults import Faults
from tests.kit.processes import freeze
from tests.kit.produce import Steady, produce
from tests.kit.streams import options
from tests.kit.tier import of_tier
from tests.kit.waiting import wait_until

SESSION_MS = 6_000
AGENT_MS, LONG_SESSION_MS = 2_000, 300_000
LIMIT_S = 240


def _options(broker: Broker, topic: str) -> dict[str, Any]:
    times = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": SESSION_MS // 6, "agent.timeout.ms": AGENT_MS}
    # These tests wait for what follows a departure.
    return options(broker, topic, **times, scheduled__rebalance__max__delay__ms=0)


def _faults(application: Application) -> Faults:
    assert application.faults is not None
    return application.faults


@contextmanager
def _thawed(pid: int) -> Iterator[None]:
    """Let a frozen process go on when the block ends, however it ends."""
    try:
        yield
    finally:
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGCONT)


def _member(status: Status, pid: int) -> dict[str, Any] | None:
    return next((member for member in status["members"] if member["pid"] == pid), None)


def _places(status: Status) -> dict[str, Any]:
    """What the member of each instance id owns."""
    return {member["instance_id"]: member["owned"] for member in status["members"]}


@pytest.mark.both_readers
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", of_tier(quick=["SIGKILL"], thorough=["SIGKILL", "SIGSTOP"]))
def test_an_agent_fails_within_a_range(application: Application, broker: Broker, topic: str, how: str) -> None:
    """The task goes on by itself, from the first row it has not given on: no row twice, none missing; nothing moves."""
    broker.admin.create_topic(topic, 3)
    # A session longer than the test: it is not by an expiry that a killed agent's partitions come back.
    query = application.start(topic, {**_options(broker, topic), "session.timeout.ms": LONG_SESSION_MS})
    produce(broker.bootstrap, topic, 300, partitions=3)
    before = query.wait_for_members(3)
    query.wait_for_no_lag()  # nothing in flight
    _large_batch(query, broker, topic)
    _faults(application).arm(how)
    query.allow(1 << 60)
    pid = _faults(application).struck(LIMIT_S)
    with _thawed(pid):
        (large,) = query.next_batches(1)
        if how == "SIGKILL":
            wait_until(lambda: pid not in {agent.pid for agent in application.driver.agents()}, LIMIT_S, "its end")
        else:
            assert psutil.Process(pid).status() == psutil.STATUS_STOPPED
    with Steady(broker.bootstrap, topic, partitions=3, rate=300, first=60_200):  # tasks, which start a new agent
        status = query.wait_for_status(
            lambda status: settled(status, 3) and (how == "SIGSTOP" or not _member(status, pid)), "three living members"
        )
    query.assert_exact(broker)

    assert _places(status) == _places(before), "each executor's member has its partitions"
    assert status["generation"] == before["generation"]
    assert len(status["rebalances"]) == len(before["rebalances"])
    assert status["audit"]["agent_timeouts"] >= 1
    assert large["seconds"] < LONG_SESSION_MS / 1000 / 4, "the agent's timeout is what it waits for, not the session's"


def _large_batch(query: Query, broker: Broker, topic: str) -> None:
    """Hold the query in a small batch while 60,000 records a partition arrive: they make one batch."""
    small = query.last_batch() + 1
    query.allow(small - 1)
    produce(broker.bootstrap, topic, 300, partitions=3, first=100)
    query.wait_for("begin", small)
    produce(broker.bootstrap, topic, 180_000, partitions=3, first=200)
    query.allow(small)
    query.wait_for("batch", small)


@pytest.mark.both_readers
@pytest.mark.timeout(600)
@pytest.mark.thorough("a frozen agent for longer than its session; test_coordinator.py has whom tasks are sent to")
def test_a_frozen_agent_is_waited_for_once(application: Application, broker: Broker, topic: str) -> None:
    """Not by each batch for as long as it is frozen, which may be long after its member was removed."""
    broker.admin.create_topic(topic, 3)
    query = application.start(topic, _options(broker, topic))
    with Steady(broker.bootstrap, topic, partitions=3, rate=300):
        pid = query.wait_for_members(3)["members"][0]["pid"]
        before = query.next_batches(8)
        with _thawed(pid):
            freeze(pid)
            query.wait_for_status(lambda status: not _member(status, pid), "the end of its session")
            after = query.next_batches(8)
            assert psutil.Process(pid).status() == psutil.STATUS_STOPPED
    status = query.wait_for_no_lag()
    query.assert_exact(broker)
    assert status["audit"]["agent_timeouts"] >= 1
    more_s = sum(batch["seconds"] for batch in after) - sum(batch["seconds"] for batch in before)
    assert more_s < len(after) / 2 * AGENT_MS / 1000
