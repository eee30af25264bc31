"""Where executors come from and go to: a standalone cluster's, killed, decommissioned, allocated as needed; several cores a task."""

from __future__ import annotations

import os
import signal
import uuid
from pathlib import Path

import psutil
import pytest

from tests.kit import processes
from tests.kit.application import Application, Status, settled
from tests.kit.broker import Broker
from tests.kit.produce import Steady, produce
from tests.kit.spark import AGENT, EXECUTOR
from tests.kit.standalone import WORKER_CLASS, environment, standalone
from tests.kit.streams import options
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.thorough("clusters and drivers of their own")

PARTITIONS = 6
SESSION_MS, AGENTS_S = 20_000, 90


def executors(run: str) -> list[psutil.Process]:
    """The executors of a standalone cluster: its workers start them."""
    return [each for each in processes.matching(EXECUTOR, processes.marked(run)) if each.name() == "java"]


def members(status: Status) -> set[str]:
    """The ids of the group's members."""
    return {member["member_id"] for member in status["members"]}


@pytest.mark.timeout(600)
def test_a_standalone_cluster_loses_an_executor_and_a_worker(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Killed: a replacement gets its share.  Decommissioned (SIGPWR to its worker): the other one gets all.  No record is lost or twice."""
    broker.fill(topic, 6_000, PARTITIONS)
    run = uuid.uuid4().hex
    env = environment(tmp_path, run) | {"SPARK_WORKER_OPTS": "-Dspark.decommission.enabled=true"}
    more = {"scheduled.rebalance.max.delay.ms": "5000", "session.timeout.ms": str(SESSION_MS)}
    conf = {"spark.decommission.enabled": "true", "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
    try:
        with (
            standalone(tmp_path, env, hosts=["127.0.0.1"] * 2) as master,
            Application(tmp_path / "app", master=master, conf=conf | {"spark.executor.memory": "1g"}) as application,
        ):
            query = application.start(topic, options(broker, topic, **more))
            with Steady(broker.bootstrap, topic, partitions=PARTITIONS, rate=600, first=10_000):
                before = members(query.wait_for_members(2))
                os.kill(executors(run)[0].pid, signal.SIGKILL)
                query.wait_for_status(lambda now: settled(now, 2) and len(before & members(now)) == 1, "a replacement")
                worker = next(
                    each for each in processes.matching(WORKER_CLASS, processes.marked(run)) if each.name() == "java"
                )
                os.kill(worker.pid, signal.SIGPWR)
                wait_until(lambda: len(executors(run)) == 1, 60, "the executor of the decommissioned worker to go")
                query.next_batches(3)
                query.wait_for_members(1)
            query.assert_exact(broker)
            wait_until(lambda: not processes.matching(AGENT, processes.marked(run)), AGENTS_S, "the end of the agents")
    finally:
        processes.kill_run(run)


@pytest.mark.timeout(300)
def test_tasks_of_two_cores_in_workers_of_one_task_each(broker: Broker, topic: str, tmp_path: Path) -> None:
    """spark.task.cpus=2: an executor of two cores counts as one.  spark.python.worker.reuse=false: one agent all the same."""
    broker.fill(topic, 6_000, PARTITIONS)
    conf = {"spark.task.cpus": "2", "spark.python.worker.reuse": "false"}
    with Application(tmp_path / "app", master="local-cluster[1,2,1024]", conf=conf) as application:
        query = application.start(topic, options(broker, topic))
        (member,) = query.wait_for_members(1)["members"]
        assert member["cores"] == 1
        with Steady(broker.bootstrap, topic, partitions=PARTITIONS, rate=600, first=10_000):
            query.wait_for_status(lambda status: status["audit"]["records_from_agent"] > 0, "records from the agent")
            query.next_batches(3)
        (agent,) = application.driver.agents()
        query.wait_for_no_lag()
        assert [each.pid for each in application.driver.agents()] == [agent.pid]
        query.assert_exact(broker)


@pytest.mark.timeout(300)
def test_a_driver_that_is_asked_to_end(broker: Broker, topic: str, tmp_path: Path) -> None:
    """SIGTERM, with DStreams' stopGracefullyOnShutdown too, in a batch: nothing of it is left, and Kafka has no more than Spark's logs."""
    broker.fill(topic, 6_000, PARTITIONS)
    conf = {"spark.streaming.stopGracefullyOnShutdown": "true"}
    with Application(tmp_path / "app", master="local-cluster[1,1,1024]", conf=conf) as application:
        query = application.start(topic, options(broker, topic, maxOffsetsPerTrigger="1200"), gate=1)
        query.wait_for("begin", 2)
        os.kill(application.driver.pid, signal.SIGTERM)
        assert application.driver.end(60) == -signal.SIGTERM, application.driver.log_tail()
        assert application.driver.settle(60) == []
    commits = sorted(path.name for path in (query.checkpoint / "commits").glob("[0-9]*"))
    assert commits == ["0", "1"]
    assert set(broker.admin.committed(topic).values()) <= {200, 400}, "the end of batch 1, or still that of batch 0"


@pytest.mark.timeout(600)
def test_executors_come_with_lag_and_go_without_work(broker: Broker, topic: str, tmp_path: Path) -> None:
    """From one executor to two and back: the newcomer's member owns its share, the one that goes gives its own up."""
    broker.fill(topic, 4_800, PARTITIONS)
    run = uuid.uuid4().hex
    env = environment(tmp_path, run)
    conf = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.initialExecutors": "1",
        "spark.dynamicAllocation.maxExecutors": str(2),
        "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
        "spark.dynamicAllocation.executorIdleTimeout": "8s",
        "spark.executor.memory": "1g",
        "spark.executor.cores": "1",
    }
    try:
        with (
            standalone(tmp_path, env, hosts=["127.0.0.1"] * 2) as master,
            Application(tmp_path / "app", master=master, conf=conf) as application,
        ):
            # Lag for long, in which a batch has a task more than there are cores.
            more = {"maxOffsetsPerTrigger": 60, "scheduled.rebalance.max.delay.ms": 2_000}
            query = application.start(topic, options(broker, topic, **more))
            query.wait_for_status(lambda now: now["members"], "the first member")
            alone = executors(run) if len(executors(run)) < 2 else []  # lag may have brought the other one already
            for executor in alone:
                executor.suspend()  # a batch that takes long: what waits for a core is what Spark sees (on a busy machine it has)
            wait_until(lambda: len(executors(run)) == 2, 120, "another executor", every_s=0.25)
            query.wait_for_status(lambda now: len(now["members"]) == 2, "its member")
            for executor in alone:
                executor.resume()
            query.wait_for_members(2)
            query.wait_for_no_lag()
            wait_until(lambda: len(executors(run)) == 1, 120, "the idle one to go", every_s=0.25)
            query.wait_for_members(1)
            produce(broker.bootstrap, topic, 600, partitions=PARTITIONS, first=800)
            query.assert_exact(broker)
    finally:
        processes.kill_run(run)
