"""Executors that nothing can dial: agents and tasks only ever open connections, to the driver and to Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.application import Application
from tests.support.broker import Broker
from tests.support.delivery import check, from_parquet, held
from tests.support.produce import produce
from tests.support.sealed import SealedNetwork
from tests.support.waiting import wait_until

PARTITIONS, RECORDS = 6, 6_000


@pytest.mark.timeout(400)
def test_executors_that_take_no_connection_work_like_any_others(topic: str, tmp_path: Path) -> None:
    """In a network namespace that drops what comes in, members join, own, prefetch, hand over and commit."""
    with SealedNetwork() as network, Broker(host=network.host) as broker:
        broker.admin.create_topic(topic, PARTITIONS)
        produce(broker.bootstrap, topic, RECORDS, partitions=PARTITIONS)
        conf = {"spark.driver.host": network.host, "spark.driver.bindAddress": network.host}
        options = {
            "kafka.bootstrap.servers": broker.bootstrap,
            "subscribe": topic,
            "group.id": topic,
            "maxOffsetsPerTrigger": 1_000,
        }
        with Application(
            tmp_path / "app", master="local-cluster[2,1,1024]", conf=conf, env=network.environment()
        ) as application:
            query = application.start(topic, options)
            status = query.wait_for_members(2, 120)
            assert all(network.holds(member["pid"]) for member in status["members"])
            assert all(network.holds(executor.pid) for executor in application.driver.executors())
            produce(broker.bootstrap, topic, RECORDS, partitions=PARTITIONS, first=RECORDS // PARTITIONS)
            done = query.wait_for_status(
                lambda now: (
                    all(row["lag"] == 0 for row in now["partitions"])
                    and all(row["current_offset"] == 2 * RECORDS // PARTITIONS for row in now["partitions"])
                ),
                120,
                "everything to be read and committed",
            )
            assert done["audit"]["records_from_agent"] > 0
            query.stop()
        check(from_parquet(query.out), held(broker.bootstrap, [topic])).assert_exact()
        wait_until(lambda: application.driver.leftovers() == [], 15, "nothing to be left")
