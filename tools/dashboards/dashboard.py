"""The Grafana dashboard, made from the table of metrics: ``dashboards/cohort.json`` is ``dashboard()``.

``panels`` says what is shown first; each metric that is not among it has a panel of its own in the last row.  The unit of a
panel comes from the names of its metrics, and one panel has one unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from sparkcohort.runtime.shell.driver.metric_specs import METRICS, MetricSpec
from tools.dashboards.panels import ROWS, SELECTED, Panel, counter, gauge, histogram

Json = dict[str, Any]

SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
WIDTH: Final = 24
SIZES: Final = {"stat": (4, 4), "timeseries": (8, 7)}
NO_DRIVER: Final = {"text": "driver gone", "color": "red"}
_METRIC: Final = re.compile(r"\bcohort_\w+")


class MixedUnits(ValueError):
    """A panel whose queries have more than one unit."""


def metric_names(expression: str) -> set[str]:
    """The metrics that a query reads; a histogram's parts by the name of the whole."""
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in _METRIC.findall(expression)}


def unit(name: str, expression: str) -> str:
    """Grafana's unit of what a query makes of this metric, by its name and by whether the query takes its rate."""
    rated = "rate(" in expression and "histogram_quantile" not in expression
    if name.endswith(("_seconds_total", "_seconds")):
        return "percentunit" if rated else "s"
    if name.endswith(("_ratio", "_share")):
        return "percentunit"
    if "_bytes" in name:
        return "Bps" if rated or name == "cohort_member_load_bytes" else "bytes"
    return "cps" if rated or name == "cohort_member_load_records" else "short"


def panel_unit(panel: Panel) -> str:
    """The unit of a panel; raises MixedUnits when its queries don't agree."""
    found = {unit(name, query.expr) for query in panel.queries for name in metric_names(query.expr) - {"cohort_up"}}
    found = found or {"short"}
    if len(found) > 1:
        raise MixedUnits(f"{panel.title}: {', '.join(sorted(found))} on one axis")
    return found.pop()


def dashboard() -> Json:
    """The dashboard as Grafana imports it."""
    return {
        "uid": "cohort",
        "title": "Cohort",
        "description": "Spark queries that read Kafka as consumer groups",
        "tags": ["cohort", "kafka", "spark"],
        "schemaVersion": 39,
        "version": 2,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [_source(), *(_variable(*each) for each in _VARIABLES)]},
        "annotations": {"list": [_annotation(*each) for each in _ANNOTATIONS]},
        "panels": _layout(),
    }


_VARIABLES: Final = (
    ("job", "Job", "label_values(cohort_up, job)"),
    ("instance", "Instance", 'label_values(cohort_up{job=~"$job"}, instance)'),
    ("group", "Group", 'label_values(cohort_up{job=~"$job", instance=~"$instance"}, group)'),
)

_ANNOTATIONS: Final = (
    (
        "Rebalances",
        "blue",
        f"sum by (group, reason) (increase(cohort_rebalances_total{{{SELECTED}}}[$__rate_interval])) > 0",
    ),
    ("Foreign members", "orange", f"max by (group) (cohort_foreign_members{{{SELECTED}}}) > 0"),
)


def _source() -> Json:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}


def _variable(name: str, label: str, query: str) -> Json:
    return {
        "name": name,
        "type": "query",
        "label": label,
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "refresh": 2,
        "current": {"text": "All", "value": "$__all"},
    }


def _annotation(name: str, color: str, expression: str) -> Json:
    return {"name": name, "datasource": SOURCE, "enable": True, "iconColor": color, "expr": expression}


@dataclass(slots=True)
class _GridCursor:
    """Where the next panel goes: from left to right, then down."""

    x: int = 0
    y: int = 0
    number: int = 0
    height: int = 0

    def row(self) -> Json:
        """The place of a heading, below all that is there."""
        self.y += self.height
        place = {"x": 0, "y": self.y, "w": WIDTH, "h": 1}
        self.x, self.y, self.height, self.number = 0, self.y + 1, 0, self.number + 1
        return place

    def take(self, width: int, height: int) -> Json:
        """The place of a panel of this size."""
        if self.x + width > WIDTH:
            self.x, self.y, self.height = 0, self.y + self.height, 0
        place = {"x": self.x, "y": self.y, "w": width, "h": height}
        self.x, self.height, self.number = self.x + width, max(self.height, height), self.number + 1
        return place


def _layout() -> list[Json]:
    shown = {
        name for _, panels in ROWS for panel in panels for query in panel.queries for name in metric_names(query.expr)
    }
    rest = tuple(_own_panel(spec) for spec in METRICS if spec.name not in shown)
    place, laid = _GridCursor(), []
    for title, panels in (*ROWS, ("All other metrics", rest)):
        if panels:
            at = place.row()
            laid.append(
                {"id": place.number, "type": "row", "title": title, "collapsed": False, "gridPos": at, "panels": []}
            )
            laid += _panels(place, panels)
    return laid


def _panels(place: _GridCursor, panels: Iterable[Panel]) -> list[Json]:
    made = []
    for panel in panels:
        at = place.take(*SIZES[panel.kind])
        made.append(_panel(panel, place.number, at))
    return made


def _own_panel(spec: MetricSpec) -> Panel:
    """What a metric shows that no panel was written for: its largest value, its rate, or its 99th percentile."""
    made = {"counter": counter, "gauge": gauge, "histogram": histogram}[spec.kind]
    title = spec.name.removeprefix("cohort_").removesuffix("_total").removesuffix("_seconds").replace("_", " ")
    title = f"{title} per second" if spec.kind == "counter" else title
    panel = made(title.capitalize(), f"{spec.help}.", spec.name, *spec.labels)
    if spec.name.endswith(("_timestamp_seconds", "_start_time_seconds")):  # a point in time is shown as its age
        return replace(panel, queries=tuple(replace(each, expr=f"time() - {each.expr}") for each in panel.queries))
    return panel


def _panel(panel: Panel, number: int, at: Json) -> Json:
    instant = panel.kind == "stat"
    steps: list[Json] = [{"color": panel.base, "value": None}]
    steps += [{"color": color, "value": value} for value, color in panel.thresholds]
    defaults: Json = {"unit": panel_unit(panel), "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.mappings or instant:
        defaults["mappings"] = _mappings(panel)
    if instant:
        defaults |= {"noValue": "no driver", "color": {"mode": "thresholds"}}
    else:
        defaults["custom"] = {"thresholdsStyle": {"mode": "line" if panel.thresholds else "off"}, "showPoints": "never"}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": at,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {
                "refId": "ABCDEFG"[index],
                "datasource": SOURCE,
                "expr": query.expr,
                "legendFormat": query.legend,
                "instant": instant,
                "range": not instant,
            }
            for index, query in enumerate(panel.queries)
        ],
        "options": _options(panel.kind),
    }


def _mappings(panel: Panel) -> list[Json]:
    values = {str(value): {"text": text, "color": color} for value, text, color in panel.mappings}
    return [
        {"type": "value", "options": {"-1": NO_DRIVER} | values},
        {"type": "special", "options": {"match": "null+nan", "result": NO_DRIVER}},
    ]


def _options(kind: str) -> Json:
    if kind == "stat":
        return {
            "reduceOptions": {"calcs": ["last"], "values": False, "fields": ""},
            "colorMode": "background",
            "graphMode": "none",
            "textMode": "value_and_name",
            "justifyMode": "auto",
            "orientation": "auto",
        }
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
