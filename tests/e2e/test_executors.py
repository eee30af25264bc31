"""Executors that die and are replaced, while records flow."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from sparkcohort.runtime.shell.options.table import BY_KEY
from tests.kit import processes
from tests.kit.application import LIMIT_S, Application, Query, Status, owners
from tests.kit.broker import Broker
from tests.kit.delivery import from_parquet
from tests.kit.streams import options
from tests.kit.tier import of_tier
from tests.kit.waiting import wait_until

PARTITIONS = 12
RECORDS = of_tier(quick=120_000, thorough=300_000)
PER_BATCH = RECORDS * 3 // 50
DELAY_MS = int(BY_KEY["scheduled.rebalance.max.delay.ms"].default or 0)
EXECUTORS = 3  # of the shared application
IN_FLIGHT = 4  # the batch that loses an executor


@pytest.mark.both_readers
@pytest.mark.timeout(900)
def test_an_executor_is_killed_and_replaced(application: Application, broker: Broker, topic: str) -> None:
    """Each offset is delivered once; one round a change: the replacement gets what was lost, nothing else ever moves."""
    broker.fill(topic, RECORDS, PARTITIONS)
    rack = {"client.rack.env": processes.MARK}  # some variable that every executor has
    source = options(broker, topic, maxOffsetsPerTrigger=PER_BATCH, **rack)
    query = application.start(topic, source, gate=IN_FLIGHT - 1)
    before = query.wait_for_members(3)
    assert {member["rack"] for member in before["members"]} == {application.driver.run_id}
    query.wait_for("begin", IN_FLIGHT)  # planned with the owners of before
    victim = _kill_one(application, query, before)
    wait_until(lambda: _executors(application, victim), LIMIT_S, "another executor", every_s=0.25)
    query.allow(1 << 60)
    after = query.wait_for_status(lambda status: _replaced(status, before, victim), "a replacement's share")

    query.assert_exact(broker)
    _check_rounds(after, before, victim)
    delivered = from_parquet(query.out)
    batches: dict[int, set[int]] = {}
    for row in delivered.group_by(["batch_id", "partition"]).aggregate([]).to_pylist():
        batches.setdefault(row["batch_id"], set()).add(row["partition"])
    assert len(batches) >= RECORDS // PER_BATCH
    assert all(partitions == set(range(PARTITIONS)) for partitions in batches.values()), "a partition waited"


def _kill_one(application: Application, query: Query, status: Status) -> dict[str, Any]:
    """SIGKILL the executor of one member as the batch begins to be read; returns the member.

    Two more batches have to do without; the others are for the next executor, whose agent comes with its first task.
    """
    victim: dict[str, Any] = status["members"][1]
    (executor,) = [each for each in application.driver.executors() if each.executor_id == victim["executor"]]
    query.allow(IN_FLIGHT + 2)
    query.wait_for("open", IN_FLIGHT)
    os.kill(executor.pid, signal.SIGKILL)
    return victim


def _executors(application: Application, victim: dict[str, Any]) -> bool:
    """Whether there are as many as before, without the one that was killed."""
    living = {each.executor_id for each in application.driver.executors()}
    return len(living - {victim["executor"]}) == EXECUTORS


def _replaced(status: Status, before: Status, victim: dict[str, Any]) -> bool:
    """Whether the victim is gone and somebody new has as much as everybody else."""
    now, then = ({member["member_id"] for member in s["members"]} for s in (status, before))
    loads = [len(member["owned"]) for member in status["members"]]
    return status["state"] == "Stable" and then - now == {victim["member_id"]} and loads == [PARTITIONS // 3] * 3


def _check_rounds(after: Status, before: Status, victim: dict[str, Any]) -> None:
    """One generation for the departure and one for the arrival, within the delay; what was lost has no owner between."""
    rounds = [done for done in after["rebalances"] if done["generation"] > before["generation"]]
    kept = {number: name for number, name in owners(before).items() if name != victim["member_id"]}
    held = [{number: name for name, tps in done["after"].items() for _, number in tps} for done in rounds]
    (replacement,) = {member["member_id"] for member in after["members"]} - {*kept.values()}
    assert held == [kept, {**dict.fromkeys(range(PARTITIONS), replacement), **kept}], rounds
    departed, arrived = rounds
    assert arrived["started_ms"] - departed["started_ms"] < DELAY_MS
    assert after["scheduled_rebalance"] is None
