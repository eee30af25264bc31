"""The pictures of the dashboard: whole, of the recorded answers, and red where Grafana would be."""

from __future__ import annotations

import copy
from html import escape
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from sparkcohort.runtime.shell.observe.dashboard import dashboard
from tests.kit.dashboard_picture import (
    COLORS,
    answers,
    figure,
    first_rows,
    gone_picture,
    whole_picture,
)

PANELS = first_rows(dashboard())
STATS = [panel for panel in PANELS if panel["type"] == "stat"]


def test_each_panel_has_answers() -> None:
    """Of both moments, and over time: a panel that is new wants new answers (``python -m tests.kit.dashboard_answers``)."""
    found = answers()
    assert [title for title in (panel["title"] for panel in STATS) if not found["now"][title]] == []
    over_time = [panel for panel in PANELS if panel["type"] == "timeseries"]
    assert {panel["title"] for panel in over_time} == found["ranges"].keys() - {"annotations"}
    for panel in over_time:
        by_query = found["ranges"][panel["title"]]
        assert by_query.keys() == {target["refId"] for target in panel["targets"]}
        assert any(value is not None for series in by_query.values() for _, values in series for value in values)


def test_what_is_drawn_shows_what_happened() -> None:
    """The recorded query fell behind and caught up, lost an executor, and rebalanced."""
    found = answers()["ranges"]
    ((_, lags),) = found["Lag in records by topic"]["A"]
    known = [value for value in lags if value is not None]
    assert max(known) > 20_000 > known[-1]
    executors = {labels["executor"] for labels, _ in found["Partitions by executor"]["A"]}
    assert len(executors) > 2
    assert found["annotations"]["Rebalances"]


@pytest.mark.parametrize("draw", [whole_picture, gone_picture])
def test_a_picture_needs_nothing_from_elsewhere(draw: Any) -> None:
    """It is XML, names each of its panels, and links to nothing."""
    text = draw(dashboard(), answers())
    ET.fromstring(text)  # noqa: S314  our own
    shown = PANELS if draw is whole_picture else [*STATS]
    assert [panel["title"] for panel in shown if f">{escape(panel['title'])}</text>" not in text] == []
    assert "href" not in text and "url(" not in text


def test_all_of_the_first_row_is_red_when_the_driver_is_gone() -> None:
    """Two scrapes after its end; a figure of each panel is there to be red."""
    gone = answers()["gone"]
    shown = {panel["title"]: [figure(panel, value) for _, value in gone[panel["title"]]] for panel in STATS}
    assert {color for figures in shown.values() for _, color in figures} == {"red"}
    assert all(shown.values())
    assert {words for figures in shown.values() for words, _ in figures} <= {"driver gone", "gone"}
    assert COLORS["green"] not in gone_picture(dashboard(), answers())


def test_a_picture_follows_the_dashboard() -> None:
    """Another limit, another colour."""
    changed = copy.deepcopy(dashboard())
    panel = next(each for each in changed["panels"] if each["title"] == "Members")
    value = answers()["now"]["Members"][0][1]
    assert figure(panel, value) == ("2", "green")
    panel["fieldConfig"]["defaults"]["thresholds"]["steps"].append({"color": "red", "value": 2})
    assert figure(panel, value) == ("2", "red")
    assert whole_picture(changed, answers()) != whole_picture(dashboard(), answers())
