"""The rules on a real Prometheus, against queries broken on purpose: what ends the metric's process is told by who lives.

Scrapes are five seconds apart, so that a value which stands for less is not seen.  ``dashboards/rules/cohort_test.yml`` has
all rules on series written by hand; here are those whose metric's process may end, or counts before its first scrape.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer

from tests.kit import streams
from tests.kit.application import Application, Query
from tests.kit.broker import Broker
from tests.kit.ports import free_port
from tests.kit.produce import Steady
from tests.kit.prometheus import Prometheus, quick_rules
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.thorough("needs a Prometheus server"), pytest.mark.timeout(900)]

SCRAPE_S = 5
LIMIT_S = 240.0
SESSION_MS = 6_000


def options(broker: Broker, topic: str, port: int, **more: Any) -> dict[str, str]:
    """A query of this topic whose metrics are at this port."""
    given = {"metrics__port": port, "session__timeout__ms": SESSION_MS, "heartbeat__interval__ms": 1_000, **more}
    return streams.options(broker, topic, **given)


def prometheus(folder: Path, *ports: int) -> Prometheus:
    """A server that scrapes these ports, with the rules as shipped but for ``for``."""
    targets = [f"127.0.0.1:{port}" for port in ports]
    return Prometheus(folder / "prometheus", targets, rules=[quick_rules(folder)], scrape_s=SCRAPE_S)


def wait_for_alert(server: Prometheus, name: str) -> None:
    """Wait until it fires."""
    wait_until(lambda: name in server.firing(), LIMIT_S, f"{name} to fire", every_s=1.0)


def scraped(server: Prometheus, port: int) -> bool:
    """Whether the driver at this port has been scraped."""
    return bool(server.query(f'cohort_up{{instance="127.0.0.1:{port}"}} == 1'))


def take_overs(query: Query) -> dict[str, int]:
    """The drivers that have given way to this one."""
    status = query.wait_for_status(lambda _: True, "a status")
    found: dict[str, int] = status["take_overs"]
    return found


def test_two_drivers_of_one_group(
    application: Application, other: Application, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """The older one is gone before any scrape sees that it was fenced; the newer one counts it.  A restart is no fencing."""
    ports = [free_port(), free_port()]
    broker.fill(topic, 100, 2)
    with prometheus(tmp_path, *ports) as server:
        older = application.start(topic, options(broker, topic, ports[0]))
        older.wait_for("batch", 0)
        wait_until(lambda: scraped(server, ports[0]), LIMIT_S, "a scrape of the older driver", every_s=1.0)
        assert "CohortFenced" not in server.firing()
        newer = other.start(topic, options(broker, topic, ports[1]))
        error = str(older.end())
        assert "FENCED_INSTANCE_ID" in error and f"in group {topic}" in error and "give each its own group.id" in error
        wait_for_alert(server, "CohortFenced")
        assert take_overs(newer) == {"handover": 0, "fencing": 1}
        newer.stop()
        again = other.start(topic, options(broker, topic, ports[1]))
        again.wait_for_no_lag()
        assert take_overs(again) == {"handover": 0, "fencing": 0}
        again.stop()


def test_a_stranger_ends_the_query(application: Application, broker: Broker, topic: str, tmp_path: Path) -> None:
    """The query that counted it has ended; the alert fires all the same."""
    port = free_port()
    broker.fill(topic, 100, 2)
    with prometheus(tmp_path, port) as server:
        # The session is the time in which the stranger ends the query: long enough for two scrapes.
        query = application.start(topic, options(broker, topic, port, session__timeout__ms=12_000))
        query.wait_for("batch", 0)
        wait_until(lambda: scraped(server, port), LIMIT_S, "a scrape", every_s=1.0)
        assert "CohortForeignMember" not in server.firing()
        conf = {"bootstrap.servers": broker.bootstrap, "group.id": topic, "partition.assignment.strategy": "range"}
        stranger = Consumer(conf | {"client.id": "the-stranger"})
        stranger.subscribe([topic])

        def ended() -> bool:
            stranger.poll(0.1)
            return bool(query.events("ended"))

        wait_until(ended, LIMIT_S, "the end of the query")
        stranger.close()
        error = str(query.end())
        assert "client the-stranger (127.0.0.1)" in error and f"in group {topic}" in error
        assert "stop that consumer, or give this query a group.id of its own" in error
        wait_for_alert(server, "CohortForeignMember")


def test_agents_that_die_and_freeze(application: Application, broker: Broker, topic: str, tmp_path: Path) -> None:
    """The driver counts the one that was started again, and the tasks that got no answer."""
    port = free_port()
    broker.admin.create_topic(topic, 6)
    with prometheus(tmp_path, port) as server, Steady(broker.bootstrap, topic, partitions=6, rate=300):
        query = application.start(topic, options(broker, topic, port, agent__timeout__ms=2_000))
        status = query.wait_for_members(3)
        wait_until(lambda: scraped(server, port), LIMIT_S, "a scrape", every_s=1.0)
        assert not {"CohortAgentRestarts", "CohortAgentsTimeOut"} & server.firing()
        killed, frozen, _ = (member["pid"] for member in status["members"])
        os.kill(killed, signal.SIGKILL)
        wait_for_alert(server, "CohortAgentRestarts")
        os.kill(frozen, signal.SIGSTOP)
        try:
            wait_for_alert(server, "CohortAgentsTimeOut")
        finally:
            if psutil.pid_exists(frozen):
                os.kill(frozen, signal.SIGCONT)
        query.stop()
