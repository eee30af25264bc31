"""The dashboard beside the table of metrics, beside the rules of the house, and beside Grafana's own types."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from sparkcohort.runtime.shell.driver.metric_specs import METRICS
from tests.kit.alert_rules import alerts, recordings
from tests.kit.grafana import faults, queries
from tools.dashboards.dashboard import MixedUnits, dashboard, metric_names, panel_unit
from tools.dashboards.panels import Panel, Query

DASHBOARD = dashboard()
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
STATS = [panel for panel in PANELS if panel["type"] == "stat"]
VARIABLES = [each["query"]["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
ANNOTATIONS = [each["expr"] for each in DASHBOARD["annotations"]["list"]]
EXPRESSIONS = [*VARIABLES, *ANNOTATIONS, *(expression for _, expression in queries(DASHBOARD))]
RULES = [alert.expr for alert in alerts()] + [recording.expr for recording in recordings()]

LABELS = {spec.name: spec.labels for spec in METRICS}
KNOWN = frozenset(LABELS)


def test_grafana_reads_all_of_it() -> None:
    """Grafana's published types have each key."""
    assert faults(DASHBOARD) == []


@pytest.mark.parametrize("expression", [*EXPRESSIONS, *RULES])
def test_queries_name_metrics_and_labels_that_exist(expression: str) -> None:
    """Each name stands in the table; each label in a selector or a grouping is one of a metric in that query."""
    named = metric_names(re.sub(r"\bjob_group:\w+:\w+", "", expression))
    assert named <= KNOWN
    labels = {"group", "le", "instance", "job"} | {label for name in named for label in LABELS[name]}
    used = set(re.findall(r"[{,]\s*(\w+)\s*(?:=~?|!=|!~)\s*[\"']", expression))
    used |= {name.strip() for names in re.findall(r"(?:by|on) \(([^)]*)\)", expression) for name in names.split(",")}
    assert used <= labels


def test_every_metric_is_shown() -> None:
    """No metric is left out."""
    assert {spec.name for spec in METRICS} - {name for each in EXPRESSIONS for name in metric_names(each)} == set()


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["title"]))
def test_each_panel_has_a_unit_a_sentence_and_a_threshold(panel: dict[str, Any]) -> None:
    """And a legend that names the group, the selected variables, and a title of its own."""
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["unit"]
    assert defaults["thresholds"]["steps"]
    assert re.match(r"\S.+\.$", panel["description"])
    assert [each["title"] for each in PANELS].count(panel["title"]) == 1
    for target in panel["targets"]:
        assert "{{group}}" in target["legendFormat"]
        assert all(f'{name}=~"${name}"' in target["expr"] for name in ("job", "instance", "group"))


def test_one_axis_has_one_unit() -> None:
    """Seconds and bytes don't share a panel."""
    mixed = ("cohort_group_lag_seconds", "cohort_last_batch_bytes")
    with pytest.raises(MixedUnits, match="Two: bytes, s on one axis"):
        panel_unit(Panel("timeseries", "Two", "Two.", tuple(Query(name, name) for name in mixed)))


@pytest.mark.parametrize("panel", STATS, ids=lambda panel: str(panel["title"]))
def test_single_values_are_those_of_now(panel: dict[str, Any]) -> None:
    """An instant is asked for: the last value of a range would stay green after the driver's end. What is gone is red."""
    assert [target["instant"] for target in panel["targets"]] == [True]
    assert "last_over_time(cohort_up" in panel["targets"][0]["expr"]
    words = {**panel["fieldConfig"]["defaults"]["mappings"][0]["options"]}
    stands_in = "0" if " or 0 + 0 *" in panel["targets"][0]["expr"] else "-1"
    assert words[stands_in]["color"] == "red"


def test_panels_do_not_overlap() -> None:
    """Each cell of the grid belongs to one panel."""
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_it_is_json() -> None:
    """Nothing in it is a value of Python's only."""
    assert json.loads(json.dumps(DASHBOARD)) == DASHBOARD
