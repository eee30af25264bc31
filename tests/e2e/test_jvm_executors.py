"""Executors whose JVM reads: their agents read what they have not fetched ahead, and no Python worker is there for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kit.application import LIMIT_S, Application
from tests.kit.broker import Broker
from tests.kit.delivery import check
from tests.kit.delivery import held as held_by
from tests.kit.faults import Faults
from tests.kit.jars import reader_jar
from tests.kit.processes import command, descendants
from tests.kit.streams import Stream, options
from tests.kit.tier import of_tier
from tests.kit.waiting import wait_until

pytestmark = [
    pytest.mark.skipif(not reader_jar(), reason="a run without the jar (COHORT_READER)"),
    pytest.mark.timeout(900),
]
RECORDS, PARTITIONS = 240_000, 4


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """An application that no other module's queries ran in: what Python its executors have they have by these."""
    directory = tmp_path_factory.mktemp("cold")
    faults = Faults(directory / "faults")
    with Application(directory / "app", master="local-cluster[2,1,1024]", env=faults.environment()) as running:
        running.faults = faults
        yield running


def _python_workers(application: Application) -> list[str]:
    """The Python daemons and workers under the executors: a daemon stays for its executor's life."""
    executors = application.driver.executors()
    assert len(executors) == 2
    return [text for each in executors for child in descendants(each.pid) if "pyspark" in (text := command(child))]


def test_an_executor_needs_no_python_worker(cold: Application, broker: Broker, topic: str) -> None:
    """Neither for the first batch, which no agent is there for, nor for a slot whose partitions are another agent's."""
    broker.fill(topic, RECORDS, PARTITIONS)
    query = cold.start(topic, options(broker, topic, maxOffsetsPerTrigger=RECORDS // 8, minPartitions=8))
    query.wait_for_members(2)
    query.wait_for_no_lag()
    status = query.status()
    query.assert_exact(broker)
    assert status is not None
    audit = status["audit"]
    assert audit["records_direct"] > 0, "the first batch was nobody's"
    assert audit["records_from_agent"] > 0
    assert _python_workers(cold) == []
    driver = [command(child) for child in descendants(cold.driver.pid)]
    assert any("create_data_source" in each for each in driver)
    assert not any("lookup_data_sources" in each for each in driver), "the jar knows where Cohort's class is"


@pytest.mark.parametrize("how", of_tier(quick=["SIGKILL"], thorough=["SIGKILL", "SIGSTOP"]))
def test_an_agent_fails_within_a_direct_read(cold: Application, broker: Broker, topic: str, how: str) -> None:
    """The task reads on from the first row that it has not given on: a Python worker, and no row is lost or twice."""
    broker.fill(topic, RECORDS, PARTITIONS)
    faults = cold.faults
    assert faults is not None
    faults.arm(how)
    query = cold.start(topic, options(broker, topic, agent__timeout__ms=2_000))
    pid = faults.struck(LIMIT_S)  # the first batch is of nobody's partitions
    try:
        query.wait_for("batch", 0)
    finally:
        if how == "SIGSTOP":
            os.kill(pid, signal.SIGCONT)
    status = query.wait_for_no_lag()
    query.assert_exact(broker)
    assert status["audit"]["agent_timeouts"] >= 1


@pytest.mark.thorough("a query that is started again; the first tier kills tasks with their executor")
def test_tasks_are_killed_within_a_direct_read(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: Path
) -> None:
    """The query ends by it; started again it reads the batch again."""
    broker.fill(topic, RECORDS, 1)
    source, held = options(broker, topic), f"held-{topic}"
    system = spark._jvm.java.lang.System  # type: ignore[union-attr]
    # A task that stays at a record in the midst, and says so.
    stay = f"reflect('java.lang.System', 'setProperty', '{held}', '1') || reflect('java.lang.Thread', 'sleep', 600000L)"
    killed = Stream(
        spark, source, checkpoint, transform=lambda rows: rows.where(f"offset <> 30000 or ({stay}) is null")
    ).start()
    wait_until(lambda: system.getProperty(held), LIMIT_S, "a task in the midst of its rows")
    spark.sparkContext.cancelAllJobs()
    assert "cancelled" in killed.failure()
    again = Stream(spark, source, checkpoint).finish(LIMIT_S)
    check(again.delivered(), held_by(broker.bootstrap, [topic])).assert_exact()
