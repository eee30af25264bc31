"""Spark adds executors while there is lag, and takes idle ones away: the group follows, and every record comes once."""

from __future__ import annotations

import uuid
from pathlib import Path

import psutil
import pytest

from tests.kit import processes
from tests.kit.application import Application
from tests.kit.broker import Broker
from tests.kit.delivery import check, from_parquet, held
from tests.kit.produce import produce
from tests.kit.spark import EXECUTOR
from tests.kit.standalone import environment, standalone
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.thorough("needs a standalone cluster")

PARTITIONS, EXECUTORS = 6, 2


def executors(run: str) -> list[psutil.Process]:
    """Those of the cluster: its workers start them."""
    return [each for each in processes.matching(EXECUTOR, processes.marked(run)) if each.name() == "java"]


@pytest.mark.timeout(600)
def test_executors_come_with_lag_and_go_without_work(broker: Broker, topic: str, tmp_path: Path) -> None:
    """From one executor to two and back: the newcomer's member owns its share, the one that goes gives its own up."""
    broker.admin.create_topic(topic, PARTITIONS)
    produce(broker.bootstrap, topic, 4_800, partitions=PARTITIONS)
    run = uuid.uuid4().hex
    env = environment(tmp_path, run)
    conf = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.initialExecutors": "1",
        "spark.dynamicAllocation.maxExecutors": str(EXECUTORS),
        "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
        "spark.dynamicAllocation.executorIdleTimeout": "8s",
        "spark.executor.memory": "1g",
        "spark.executor.cores": "1",
    }
    try:
        with (
            standalone(tmp_path, env, hosts=["127.0.0.1"] * EXECUTORS) as master,
            Application(tmp_path / "app", master=master, conf=conf) as application,
        ):
            options = {
                "kafka.bootstrap.servers": broker.bootstrap,
                "subscribe": topic,
                "group.id": topic,
                "maxOffsetsPerTrigger": "60",  # lag for long, in which a batch has a task more than there are cores
                "scheduled.rebalance.max.delay.ms": "2000",
            }
            query = application.start(topic, options)
            query.wait_for_status(lambda now: now["members"], "the first member")
            alone = (
                executors(run) if len(executors(run)) < EXECUTORS else []
            )  # lag may have brought the other one already
            for executor in alone:
                executor.suspend()  # a batch that takes long: what waits for a core is what Spark sees (on a busy machine it has)
            wait_until(lambda: len(executors(run)) == EXECUTORS, 120, "another executor", every_s=0.25)
            query.wait_for_status(lambda now: len(now["members"]) == EXECUTORS, "its member")
            for executor in alone:
                executor.resume()
            query.wait_for_members(EXECUTORS)
            query.wait_for_no_lag()
            wait_until(lambda: len(executors(run)) == 1, 120, "the idle one to go", every_s=0.25)
            query.wait_for_members(1)
            produce(broker.bootstrap, topic, 600, partitions=PARTITIONS, first=800)
            query.wait_for_no_lag()
            query.stop()
        check(from_parquet(query.out), held(broker.bootstrap, [topic])).assert_exact()
    finally:
        processes.kill_run(run)
