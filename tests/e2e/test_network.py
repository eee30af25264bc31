"""Networks: executors behind a firewall, to which nothing may ever need to connect; IPv6; an HTTP proxy all around."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kit.application import Application, Status
from tests.kit.broker import Broker
from tests.kit.produce import Steady
from tests.kit.prometheus import alerting
from tests.kit.proxy import SilentProxy
from tests.kit.sealed import SealedNetwork
from tests.kit.streams import options

pytestmark = pytest.mark.thorough("networks of their own")

OUTSIDE = "10.212.0.1"


def conf(host: str) -> dict[str, str]:
    """The driver at this host, and no job before all executors are there."""
    named = dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), host)
    return named | {"spark.scheduler.minRegisteredResourcesRatio": "1.0"}


def filled(broker: Broker, topic: str, partitions: int = 4) -> dict[str, str]:
    """A topic with a thousand records in each partition, and the options of its query."""
    broker.fill(topic, 1_000 * partitions, partitions)
    return options(broker, topic)


@dataclass
class Sealed:
    """Executors in a network of their own: what belongs to it."""

    network: SealedNetwork
    broker: Broker
    application: Application


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sealed]:
    """Two executors that no connection reaches; to them the driver's host has another address besides."""
    with SealedNetwork() as network, Broker(host=network.host) as broker:
        network.translate(OUTSIDE)
        folder = tmp_path_factory.mktemp("sealed") / "app"
        with Application(
            folder, master="local-cluster[2,1,1024]", conf=conf(network.host), env=network.environment()
        ) as application:
            yield Sealed(network, broker, application)
        assert application.driver.left == []


@pytest.mark.timeout(600)
def test_a_driver_behind_another_address(sealed: Sealed, topic: str, port: int) -> None:
    """Executors reach the driver's port at coordinator.host only, an address that the driver hasn't got, as behind a NAT or a service."""
    network, broker, application = sealed.network, sealed.broker, sealed.application
    more = {"coordinator.host": OUTSIDE, "coordinator.port": str(port)}
    query = application.start(topic, filled(broker, topic) | more)
    query.wait_for_members(2)
    for agent in application.driver.agents():
        peers = network.peers(agent.pid)
        assert (OUTSIDE, port) in peers and (network.host, port) not in peers
    query.assert_exact(broker)


@pytest.mark.timeout(600)
def test_executors_accept_no_connection(sealed: Sealed, topic: str) -> None:
    """Members join, own, prefetch and commit, and everything is delivered, though no connection reaches an executor."""
    network, broker, application = sealed.network, sealed.broker, sealed.application
    query = application.start(topic, filled(broker, topic))
    query.wait_for_members(2)
    inside = [process.pid for process in [*application.driver.executors(), *application.driver.agents()]]
    assert len(inside) == 4 and all(map(network.holds, inside))
    ports = network.listening(inside[0])
    assert ports and all(map(network.refuses, ports))
    # A batch of which the agents have nothing yet is read without them: there is another one.
    with Steady(broker.bootstrap, topic, partitions=4, rate=2_000, first=1_000):
        query.wait_for_status(lambda status: status["audit"]["records_from_agent"] > 0, "records from agents")
    status = query.wait_for_no_lag()
    query.assert_exact(broker)
    assert status["refused"] == []


@pytest.mark.timeout(600)
def test_a_stream_over_ipv6_behind_a_proxy(tmp_path: Path, topic: str) -> None:
    """Broker, driver and executor at [::1], a proxy in everybody's environment: the member joins, owns and delivers."""
    host = "[::1]"  # Spark wants the brackets
    with SilentProxy() as proxy, Broker(host=host) as broker:
        env = proxy.environment() | {"SPARK_LOCAL_IP": host, "SPARK_LOCAL_HOSTNAME": host}
        with Application(tmp_path / "app", master="local-cluster[1,2,1024]", conf=conf(host), env=env) as application:
            query = application.start(topic, filled(broker, topic))
            query.wait_for_members(1)
            # A batch of which the agents have nothing yet is read without them: there is another one.
            with Steady(broker.bootstrap, topic, partitions=4, rate=2_000, first=1_000):
                query.wait_for_status(lambda status: status["audit"]["records_from_agent"] > 0, "records from agents")
            query.assert_exact(broker)
        assert not proxy.was_asked()


def whole(status: Status, members: int) -> bool:
    """Whether so many members own everything, in a group at rest."""
    owning = [row for row in status["members"] if row["owned"]]
    return (
        status["state"] == "Stable" and len(owning) == members and all(row["member_id"] for row in status["partitions"])
    )


@pytest.mark.timeout(600)
def test_an_executor_that_is_cut_off_from_kafka_holds_nobody_up(tmp_path: Path, topic: str, port: int) -> None:
    """Others own and read its partitions within seconds, by name and with the reason; it gets some again when it's healed."""
    with SealedNetwork(only="0") as network, Broker(host=network.host) as broker:
        kafka = int(broker.bootstrap.rpartition(":")[2])
        cluster = {"master": "local-cluster[3,1,1024]", "conf": conf(network.host), "env": network.environment()}
        with alerting(tmp_path, port) as server, Application(tmp_path / "app", **cluster) as application:
            query = application.start(topic, filled(broker, topic, 6) | {"metrics.port": str(port)})
            with Steady(broker.bootstrap, topic, partitions=6, rate=600):
                query.wait_for_members(3)
                query.next_batches(5)
                network.cut(kafka)
                cut = query.wait_for_status(lambda now: now["cut_off"] and whole(now, 2), "others to own all")
                query.next_batches(10)
                server.wait_for_alert("CohortMemberCutOff")
                assert {row["executor"] for row in cut["cut_off"]} == {"0"}
                assert "does not answer" in cut["cut_off"][0]["why"]
                network.heal(kafka)
                healed = query.wait_for_status(lambda now: not now["cut_off"] and whole(now, 3), "it to own some")
            query.assert_exact(broker)
        assert len(healed["rebalances"]) - len(cut["rebalances"]) <= 3
