"""Networks: executors behind a firewall, to which nothing may ever need to connect; IPv6; an HTTP proxy all around."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.application import Application
from tests.support.broker import Broker
from tests.support.delivery import check, from_parquet, held
from tests.support.produce import produce
from tests.support.proxy import SilentProxy
from tests.support.sealed import SealedNetwork


@pytest.mark.timeout(600)
def test_executors_accept_no_connection(tmp_path: Path, topic: str) -> None:
    """Members join, own, prefetch and commit, and everything is delivered, though no connection reaches an executor."""
    with SealedNetwork() as network, Broker(host=network.host) as broker:
        conf = {
            "spark.driver.host": network.host,
            "spark.driver.bindAddress": network.host,
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        }
        broker.admin.create_topic(topic, 4)
        produce(broker.bootstrap, topic, 4_000, partitions=4)
        with Application(
            tmp_path / "app", master="local-cluster[2,1,1024]", conf=conf, env=network.environment()
        ) as application:
            options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "group.id": topic}
            query = application.start(topic, options)
            query.wait_for_members(2)
            inside = [process.pid for process in [*application.driver.executors(), *application.driver.agents()]]
            assert len(inside) == 4 and all(map(network.holds, inside))
            ports = network.listening(inside[0])
            assert ports and all(map(network.refuses, ports))
            produce(broker.bootstrap, topic, 40_000, partitions=4, first=1_000)
            status = query.wait_for_no_lag()
            query.stop()
        assert [line for line in application.driver.left if line.startswith("pid ")] == []
        assert status["audit"]["records_from_agent"] > 0
        assert status["refused"] == []
        check(from_parquet(query.out), held(broker.bootstrap, [topic])).assert_exact()


@pytest.mark.timeout(600)
def test_a_stream_over_ipv6_behind_a_proxy(tmp_path: Path, topic: str) -> None:
    """Broker, driver and executor at [::1], a proxy in everybody's environment: the member joins, owns and delivers."""
    host = "[::1]"  # Spark wants the brackets
    conf = {
        "spark.driver.host": host,
        "spark.driver.bindAddress": host,
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    }
    with SilentProxy() as proxy, Broker(host=host) as broker:
        env = proxy.environment() | {"SPARK_LOCAL_IP": host, "SPARK_LOCAL_HOSTNAME": host}
        broker.admin.create_topic(topic, 4)
        produce(broker.bootstrap, topic, 4_000, partitions=4)
        with Application(tmp_path / "app", master="local-cluster[1,2,1024]", conf=conf, env=env) as application:
            options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "group.id": topic}
            query = application.start(topic, options)
            query.wait_for_members(1)
            produce(broker.bootstrap, topic, 40_000, partitions=4, first=1_000)
            status = query.wait_for_no_lag()
            query.stop()
        assert status["audit"]["records_from_agent"] > 0
        check(from_parquet(query.out), held(broker.bootstrap, [topic])).assert_exact()
        assert not proxy.was_asked()
