"""A user's own assignor through Spark: it rules, it may fail, and every record is delivered once all through."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from tests.kit.application import Application, Status
from tests.kit.broker import Broker
from tests.kit.delivery import check, from_parquet, held
from tests.kit.produce import Steady

PARTITIONS = 6
STAIRS = [1, 2, 3]  # partitions of the first, second and third member


def _options(broker: Broker, topic: str) -> dict[str, Any]:
    return {
        "kafka.bootstrap.servers": broker.bootstrap,
        "subscribe": topic,
        "group.id": topic,
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 1_000,
        "scheduled.rebalance.max.delay.ms": 0,  # the assignor is asked when an executor departs
        "partition.assignment.strategy": "stairs,range",
    }


def _owned(status: Status) -> dict[str, list[Any]]:
    return {member["member_id"]: sorted(member["owned"]) for member in status["members"]}


def _on_stairs(status: Status) -> bool:
    """Whether three members have what this assignor gives them, and nothing is wrong with it."""
    loads = [len(owned) for _, owned in sorted(_owned(status).items())]
    return status["state"] == "Stable" and loads == STAIRS and status["assignor_failure"] is None


def _kept(status: Status, before: Status, victim: str) -> bool:
    """Whether the assignor fails, the survivors have what they had, and who came in the victim's place has nothing."""
    survivors = {member: owned for member, owned in _owned(before).items() if member != victim}
    now = _owned(status)
    newcomers = now.keys() - survivors.keys() - {victim}
    return bool(
        status["assignor_failure"]
        and len(newcomers) == 1
        and now == survivors | {member: [] for member in newcomers}
        and status["state"] == "Stable"
    )


@pytest.mark.thorough("an executor is killed while the assignor fails")
@pytest.mark.timeout(900)
def test_a_users_own_assignor(application: Application, broker: Broker, topic: str) -> None:
    """Found by entry point.  While it fails an executor is replaced: batches go on, nothing moves; then it rules again."""
    assert application.faults is not None
    broker.admin.create_topic(topic, PARTITIONS)
    query = application.start(topic, _options(broker, topic))
    with Steady(broker.bootstrap, topic, partitions=PARTITIONS, rate=300):
        before = query.wait_for_status(_on_stairs, "three members on stairs")
        assert before["protocol"] == "stairs"
        victim = max(before["members"], key=lambda member: len(member["owned"]))
        (executor,) = [each for each in application.driver.executors() if each.executor_id == victim["executor"]]
        application.faults.arm("assignor", "SIGCONT")  # a fault of no signal: the assignor looks for it
        try:
            os.kill(executor.pid, signal.SIGKILL)
            failed = query.wait_for_status(
                lambda status: _kept(status, before, victim["member_id"]), "the assignor to fail, and a replacement"
            )
            query.next_batches(2)  # what nobody owns is read directly
        finally:
            application.faults.disarm("assignor")
        after = query.wait_for_status(_on_stairs, "three members on stairs again")
    query.wait_for_no_lag()
    query.stop()

    assert failed["assignor_failure"]["error"] == "assignor stairs raised RuntimeError: told to fail"
    assert after["failed_rebalances"]["stairs"] >= 2  # the departure, the arrival, and whenever it was asked again
    assert any(done["result"].startswith("failed: assignor stairs raised") for done in after["rebalances"])
    check(from_parquet(query.out), held(broker.bootstrap, [topic])).assert_exact()
