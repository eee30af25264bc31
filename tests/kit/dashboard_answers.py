"""Records what a real Prometheus answers the dashboard's panels about a real query, for ``dashboard_picture`` to draw.

``python -m tests.kit.dashboard_answers`` runs a query on two executors for a few minutes: a burst that it has to catch up with,
an executor that is killed and replaced, and at last the driver's own end.  Then ``python -m tests.kit.pages`` draws.
"""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from sparkcohort.runtime.shell.observe.dashboard import dashboard
from sparkcohort.runtime.shell.observe.panels import STATE_QUERY
from tests.kit.application import Application, Query
from tests.kit.broker import Broker
from tests.kit.dashboard_picture import ANSWERS, first_rows
from tests.kit.grafana import interpolated
from tests.kit.produce import Steady, produce
from tests.kit.prometheus import Labels, Prometheus
from tests.kit.waiting import wait_until

TOPIC, GROUP, PARTITIONS = "orders", "billing", 12
SCRAPE_S, STEP_S = 2, 4
QUIET_S, STEADY, BURST = 60.0, 400, 60_000
OPTIONS: Final = {"subscribe": TOPIC, "group.id": GROUP, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 6_000}
TRIGGER: Final = {"processingTime": "2 seconds"}
Series = list[list[Any]]


def instants(server: Prometheus) -> dict[str, Series]:
    """What the panels of now show: [labels, value], by title."""
    shown = [panel for panel in first_rows(dashboard()) if panel["type"] == "stat"]
    return {
        panel["title"]: [
            [_kept(labels), _rounded(value)]
            for target in panel["targets"]
            for labels, value in server.query(interpolated(target["expr"]))
        ]
        for panel in shown
    }


def ranges(server: Prometheus, begin: float, points: int) -> dict[str, dict[str, Series]]:
    """What the panels over time show: [labels, values], by title and query; and the annotations, by name."""
    end = begin + (points - 1) * STEP_S
    found: dict[str, dict[str, Series]] = {}
    for panel in first_rows(dashboard()):
        if panel["type"] == "timeseries":
            asked = {target["refId"]: target["expr"] for target in panel["targets"]}
            found[panel["title"]] = {name: _series(server, expr, begin, end, points) for name, expr in asked.items()}
    notes = {each["name"]: each["expr"] for each in dashboard()["annotations"]["list"]}
    found["annotations"] = {name: _series(server, expr, begin, end, points) for name, expr in notes.items()}
    return found


def _series(server: Prometheus, expression: str, begin: float, end: float, points: int) -> Series:
    made: Series = []
    for labels, samples in server.series(interpolated(expression), begin, end, STEP_S):
        values: list[float | None] = [None] * points
        for at, value in samples:
            values[round((at - begin) / STEP_S)] = _rounded(value)
        made.append([_kept(labels), values])
    return made


def _kept(labels: Labels) -> Labels:
    return {name: value for name, value in labels.items() if name not in ("__name__", "instance", "job")}


def _rounded(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None


def _rest(seconds: float, query: Query) -> None:
    """Let the query run for so long."""
    until = time.monotonic() + seconds
    query.wait(lambda: time.monotonic() >= until, seconds + 60, "the end of a quiet time")


def _an_executor_dies(app: Application, query: Query) -> None:
    victim = query.wait_for_members(2)["members"][0]["executor"]
    (process,) = [each for each in app.driver.executors() if each.executor_id == victim]
    os.kill(process.pid, signal.SIGKILL)
    query.wait_for_status(lambda status: victim not in {each["executor"] for each in status["members"]}, "its end")
    query.wait_for_members(2)


def _lived(app: Application, query: Query, broker: Broker) -> None:
    """A day's events in minutes, while records come all the time."""
    with Steady(broker.bootstrap, TOPIC, partitions=PARTITIONS, rate=STEADY, first=1_000_000):
        query.wait_for_members(2)
        _rest(QUIET_S, query)
        produce(broker.bootstrap, TOPIC, BURST, partitions=PARTITIONS)
        query.wait_for_status(lambda status: sum(row["lag"] or 0 for row in status["partitions"]) < 6_000, "less lag")
        _rest(QUIET_S / 2, query)
        _an_executor_dies(app, query)
        _rest(QUIET_S, query)


def record(folder: Path) -> dict[str, Any]:
    """Run it, and return the answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with Broker() as broker:
        broker.admin.create_topic(TOPIC, PARTITIONS)
        options = {**OPTIONS, "kafka.bootstrap.servers": broker.bootstrap, "metrics.port": str(port)}
        with (
            Application(folder / "app", master="local-cluster[2,1,1024]") as app,
            Prometheus(folder / "prometheus", [f"127.0.0.1:{port}"], scrape_s=SCRAPE_S) as server,
        ):
            query = app.start("orders", options, trigger=TRIGGER)
            wait_until(lambda: server.query(interpolated(STATE_QUERY)), 300, "the first scrape", every_s=0.5)
            began = time.time()
            _lived(app, query, broker)
            points = int((time.time() - began) / STEP_S)
            over_time, now = ranges(server, began, points), instants(server)
            app.driver.kill()
            red = interpolated(STATE_QUERY)
            wait_until(lambda: [value for _, value in server.query(red)] == [0.0], 60, "the end of the driver")
            return {"step_s": STEP_S, "points": points, "now": now, "gone": instants(server), "ranges": over_time}


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        found = record(Path(scratch))
    ranged = found.pop("ranges")
    lines = [f" {json.dumps(title)}: {json.dumps(by_query)}" for title, by_query in ranged.items()]
    head = json.dumps(found)[:-1]
    ANSWERS.write_text(f'{head}, "ranges": {{\n' + ",\n".join(lines) + "\n}}\n")
