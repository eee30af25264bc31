"""Draws the dashboard as an SVG: the panels of ``dashboard()`` with what a real Prometheus answered them.

The answers are those that ``dashboard_answers`` has recorded.  This is no Grafana: it knows the two kinds of panels that the
dashboard has, and what decides how they look: thresholds, mappings, units, legends and annotations.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from sparkcohort.runtime.shell.observe.dashboard import WIDTH

ANSWERS: Final = Path(__file__).with_name("dashboard_answers.json")
COLORS: Final = {"green": "#56a64b", "yellow": "#e0b400", "red": "#e02f44", "blue": "#3274d9", "orange": "#ff780a"}
LINES: Final = (
    "#56a64b",
    "#3274d9",
    "#ff780a",
    "#a352cc",
    "#e02f44",
    "#e0b400",
    "#37872d",
    "#6ed0e0",
    "#ba43a9",
    "#705da0",
)
CELL_X, CELL_Y, GAP = 50, 28, 6
LEFT, RIGHT, TOP, BOTTOM = 58, 10, 28, 42
MOST_NAMED, MOST_LETTERS = 4, 42
_LAST_ROW: Final = "All other metrics"
_LABEL: Final = re.compile(r"{{(\w+)}}")
_PREFIXES: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_BINARY: Final = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
_TIMES: Final = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))
_SUFFIXES: Final = {"Bps": "B/s", "cps": "/s", "short": ""}

Json = dict[str, Any]
Values = Sequence[float | None]


def first_rows(dashboard: Json) -> list[Json]:
    """The panels above the row in which all other metrics are, with the headings."""
    panels: list[Json] = []
    for panel in dashboard["panels"]:
        if panel["title"] == _LAST_ROW:
            break
        panels.append(panel)
    return panels


def answers() -> Json:
    """What was recorded."""
    found: Json = json.loads(ANSWERS.read_text())
    return found


def whole_picture(dashboard: Json, recorded: Json) -> str:
    """All rows, over the time that was recorded."""
    panels = first_rows(dashboard)
    notes = [(each["name"], each["iconColor"]) for each in dashboard["annotations"]["list"]]
    pieces = [_drawn(panel, recorded, recorded["now"], notes) for panel in panels]
    return _svg("The dashboard of a query that lost an executor", panels, pieces)


def gone_picture(dashboard: Json, recorded: Json) -> str:
    """The first row, two scrapes after the driver was killed."""
    panels = first_rows(dashboard)
    second = next(at for at, panel in enumerate(panels) if at and panel["type"] == "row")
    pieces = [_drawn(panel, recorded, recorded["gone"], ()) for panel in panels[:second]]
    return _svg("The dashboard's first row when the driver is gone", panels[:second], pieces)


def _svg(title: str, panels: Sequence[Json], pieces: Iterable[str]) -> str:
    height = CELL_Y * max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) + GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {CELL_X * WIDTH} {height}" font-family="sans-serif" font-size="11">'
    back = f'<rect width="{CELL_X * WIDTH}" height="{height}" fill="#f4f5f5"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", back, *pieces, "</svg>"]) + "\n"


@dataclass(frozen=True, slots=True)
class _Box:
    """Where a panel is, in pixels."""

    x: float
    y: float
    width: float
    height: float

    @classmethod
    def of(cls, panel: Json) -> _Box:
        """As the grid has it."""
        at = panel["gridPos"]
        return cls(at["x"] * CELL_X, at["y"] * CELL_Y, at["w"] * CELL_X - GAP, at["h"] * CELL_Y - GAP)


def _drawn(panel: Json, recorded: Json, now: Json, notes: Sequence[tuple[str, str]]) -> str:
    box = _Box.of(panel)
    if panel["type"] == "row":
        return _text(box.x + 4, box.y + 15, panel["title"], size=13, weight="bold")
    if panel["type"] == "stat":
        return "\n".join(_stat(panel, box, now[panel["title"]]))
    return "\n".join(_graph(panel, box, recorded, notes))


def _text(
    x: float, y: float, words: str, *, size: int = 11, color: str = "#24292e", anchor: str = "start", weight: str = ""
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" text-anchor="{anchor}"{bold}>{escape(words)}</text>'


def _frame(box: _Box, fill: str) -> str:
    return f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="2" fill="{fill}" stroke="#dce0e3"/>'


# --- one figure -------------------------------------------------------------------------------------


def _stat(panel: Json, box: _Box, found: Sequence[tuple[Json, float | None]]) -> Iterator[str]:
    """As Grafana has it with ``colorMode`` background: the colour says how it stands."""
    shown = [figure(panel, value) for _, value in found] or [figure(panel, None)]
    yield _frame(box, COLORS[shown[0][1]])
    middle = box.x + box.width / 2
    yield _text(box.x + 8, box.y + 16, panel["title"], color="#ffffff", weight="bold")
    names = [legend(panel["targets"][0], labels) for labels, _ in found] or [""]
    for row, ((words, _), name) in enumerate(zip(shown, names, strict=True)):
        yield _text(middle, box.y + 46 + 44 * row, name, color="#ffffff", anchor="middle")
        yield _text(
            middle,
            box.y + 74 + 44 * row,
            words,
            size=22 if len(words) < 14 else 16,
            color="#ffffff",
            anchor="middle",
            weight="bold",
        )


def figure(panel: Json, value: float | None) -> tuple[str, str]:
    """What a panel of one figure says to this value, and in which colour."""
    defaults = panel["fieldConfig"]["defaults"]
    if value is None:
        return defaults.get("noValue", "No data"), "red"
    for mapping in defaults.get("mappings", ()):
        meant = mapping["options"].get(f"{value:g}") if mapping["type"] == "value" else None
        if meant:
            return meant["text"], meant["color"]
    steps = [step for step in defaults["thresholds"]["steps"] if step["value"] is None or value >= step["value"]]
    return formatted(value, defaults["unit"]), steps[-1]["color"]


def formatted(value: float, unit: str) -> str:
    """A figure in Grafana's unit."""
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    scale = {"s": _TIMES, "bytes": _BINARY}.get(unit, _PREFIXES)
    size, prefix = next((each for each in scale if abs(value) >= each[0]), scale[-1])
    number = f"{value / size:.3g}" if value else "0"
    suffix = prefix + _SUFFIXES.get(unit, "") if value else {"s": "s", "bytes": "B"}.get(unit, _SUFFIXES.get(unit, ""))
    return f"{number} {suffix}".strip()


def legend(target: Json, labels: Json) -> str:
    """The name of a series."""
    return " ".join(_LABEL.sub(lambda found: str(labels.get(found.group(1), "")), target["legendFormat"]).split())


# --- over time --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plot:
    """The place of a graph's lines, and what its two axes span."""

    box: _Box
    points: int
    most: float

    def x(self, point: float) -> float:
        """Of a moment."""
        return self.box.x + LEFT + (self.box.width - LEFT - RIGHT) * point / max(self.points - 1, 1)

    def y(self, value: float) -> float:
        """Of a value; what is beyond the axis is at its end."""
        part = min(max(value / self.most, 0.0), 1.0)
        return self.box.y + self.box.height - BOTTOM - (self.box.height - TOP - BOTTOM) * part


def _graph(panel: Json, box: _Box, recorded: Json, notes: Sequence[tuple[str, str]]) -> Iterator[str]:
    series = [
        (legend(target, labels), values)
        for target in panel["targets"]
        for labels, values in recorded["ranges"][panel["title"]][target["refId"]]
    ]
    known = [value for _, values in series for value in values if value is not None]
    plot = _Plot(box, recorded["points"], rounded_up(max(known, default=1.0)))
    unit = panel["fieldConfig"]["defaults"]["unit"]
    yield _frame(box, "#ffffff")
    yield _text(box.x + 8, box.y + 17, panel["title"], weight="bold")
    yield from _axes(plot, unit, recorded["step_s"])
    yield from _notes(plot, recorded, notes)
    yield from _limits(plot, panel)
    for at, (_, values) in enumerate(series):
        yield from _line(plot, values, LINES[at % len(LINES)])
    yield from _legends(box, [name for name, _ in series])


def rounded_up(most: float) -> float:
    """The end of an axis: 1, 2 or 5 of some power of ten."""
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= most)


def _axes(plot: _Plot, unit: str, step_s: float) -> Iterator[str]:
    left, right = plot.x(0), plot.x(plot.points - 1)
    for part in (0.0, 0.5, 1.0):
        y = plot.y(part * plot.most)
        yield f'<path d="M{left:.1f} {y:.1f}H{right:.1f}" stroke="#e6e8ea"/>'
        yield _text(left - 5, y + 4, formatted(part * plot.most, unit), size=10, color="#555c64", anchor="end")
    minutes = (plot.points - 1) * step_s / 60
    for minute in range(0, int(minutes) + 1, max(1, round(minutes / 6))):
        x = plot.x(60 * minute / step_s)
        yield _text(
            x, plot.box.y + plot.box.height - BOTTOM + 13, f"{minute} min", size=10, color="#555c64", anchor="middle"
        )


def _notes(plot: _Plot, recorded: Json, notes: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Where annotations begin, as lines from top to bottom."""
    for name, color in notes:
        for _, values in recorded["ranges"]["annotations"][name]:
            begins = [at for at, value in enumerate(values) if value is not None and (not at or values[at - 1] is None)]
            for at in begins:
                yield f'<path d="M{plot.x(at):.1f} {plot.y(plot.most):.1f}V{plot.y(0):.1f}" stroke="{COLORS[color]}" stroke-dasharray="2 3" opacity="0.7"/>'


def _limits(plot: _Plot, panel: Json) -> Iterator[str]:
    """Thresholds, those within the axis."""
    for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]:
        if step["value"] is not None and step["value"] <= plot.most:
            y = plot.y(step["value"])
            yield f'<path d="M{plot.x(0):.1f} {y:.1f}H{plot.x(plot.points - 1):.1f}" stroke="{COLORS[step["color"]]}" stroke-dasharray="6 3"/>'


def _line(plot: _Plot, values: Values, color: str) -> Iterator[str]:
    """A line for each stretch without a gap; a single value is a dot."""
    stretch: list[tuple[float, float]] = []
    for at, value in enumerate([*values, None]):
        if value is not None:
            stretch.append((plot.x(at), plot.y(value)))
        elif len(stretch) == 1:
            yield f'<circle cx="{stretch[0][0]:.1f}" cy="{stretch[0][1]:.1f}" r="1.5" fill="{color}"/>'
            stretch = []
        elif stretch:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in stretch)
            yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.3"/>'
            stretch = []


def _legends(box: _Box, names: Sequence[str]) -> Iterator[str]:
    """The first names below the graph, and how many more there are."""
    shown, x, y = list(names[:MOST_NAMED]), box.x + 10, box.y + box.height - 10
    while sum(map(len, shown)) > MOST_LETTERS and len(shown) > 1:
        shown.pop()
    for at, name in enumerate(shown):
        yield f'<rect x="{x:.1f}" y="{y - 7:.1f}" width="10" height="3" fill="{LINES[at % len(LINES)]}"/>'
        yield _text(x + 14, y, name, size=10, color="#555c64")
        x += 24 + 5.4 * len(name)
    if len(names) > len(shown):
        yield _text(x, y, f"and {len(names) - len(shown)} more", size=10, color="#555c64")
    if not names:
        yield _text(x, y, "no data", size=10, color="#555c64")
