"""A real Prometheus with the rules scrapes a live query, whose driver is killed: the dashboard is red, the alert fires."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkcohort.runtime.shell.driver.metric_specs import METRICS
from tests.kit.alert_rules import recordings
from tests.kit.application import Application
from tests.kit.broker import Broker
from tests.kit.grafana import interpolated, queries
from tests.kit.prometheus import Prometheus, alerting
from tests.kit.streams import options
from tests.kit.waiting import wait_until
from tools.dashboards.dashboard import dashboard, metric_names
from tools.dashboards.panels import STATE_QUERY

pytestmark = pytest.mark.thorough("needs a Prometheus server")

PARTITIONS, RECORDS, SCRAPE_S = 4, 2_000, 2
EMPTY = {
    "Bad records": "no record is malformed",
    "Offsets behind latest min": "no listener tells Spark's progress",
    "Offsets behind latest max": "no listener tells Spark's progress",
    "Offsets behind latest avg": "no listener tells Spark's progress",
    "Member load share": "the assignor is not load-balanced",
    "Member load records": "the assignor is not load-balanced",
    "Member load bytes": "the assignor is not load-balanced",
    "Member load backlog": "the assignor is not load-balanced",
}
"""Panels that a healthy query leaves empty, and why."""
TABLE = {spec.name for spec in METRICS}


def empty_panels(server: Prometheus) -> set[str]:
    """The panels that show nothing, of those whose metrics are in the table."""
    shown = [(title, expression) for title, expression in queries(dashboard()) if metric_names(expression) <= TABLE]
    return {title for title, expression in shown if not server.query(interpolated(expression))} - EMPTY.keys()


@pytest.mark.timeout(600)
def test_the_dashboard_is_red_and_the_alert_fires(broker: Broker, topic: str, port: int, tmp_path: Path) -> None:
    """No panel of a live query is empty; two scrapes after the driver's end its panels are red, and its alert fires."""
    broker.fill(topic, RECORDS, PARTITIONS)
    broker.admin.create_topic(f"{topic}-copy", PARTITIONS)
    sink = {"kafka.bootstrap.servers": broker.bootstrap, "topic": f"{topic}-copy"}
    with (
        Application(tmp_path / "app", master="local[2]") as app,
        alerting(tmp_path, port, scrape_s=SCRAPE_S) as server,
    ):
        query = app.start("orders", options(broker, topic, metrics__port=port), sink=sink)
        query.wait_for_no_lag()
        wait_until(lambda: not empty_panels(server), 60, f"data in {empty_panels(server)}", every_s=1)
        state = interpolated(STATE_QUERY)
        assert server.query(state) == [({"group": topic, "job": "spark"}, 1.0)]
        kept = [each.name for each in recordings() if metric_names(each.expr) <= TABLE]
        wait_until(lambda: all(server.query(name) for name in kept), 60, f"records of {kept}", every_s=1)
        assert {rule["health"] for rule in server.rules()} == {"ok"}
        assert "CohortDriverGone" not in server.firing()

        app.driver.kill()
        wait_until(lambda: server.query(state) == [({"group": topic, "job": "spark"}, 0.0)], 2 * SCRAPE_S + 1, "red")
        stats = [each["targets"][0]["expr"] for each in dashboard()["panels"] if each["type"] == "stat"]
        for value in (server.query(interpolated(expression)) for expression in stats):
            assert [found for _, found in value] in ([0.0], [-1.0])
        server.wait_for_alert("CohortDriverGone", 30)
