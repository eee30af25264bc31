"""The result of all parts: tables for people, and one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from tools.bench.figures import Bound, Samples, middle, shown

LEAST = 0.005
"""A part of a figure that is smaller is not shown."""


@dataclass(frozen=True)
class Column:
    """A figure in a table: its heading, in which unit, and whether Cohort's beside that of each other source is told, too.

    A figure that ends with ``/`` stands for all that begin so: their medians in one cell, the largest first.
    """

    figure: str
    heading: str
    scale: float = 1
    digits: int = 2
    compared: bool = False


def part_table(title: str, columns: Sequence[Column], samples: Samples) -> Table:
    """A line for each case and source; what is compared is Cohort's figure over that source's."""
    table = Table(title=f"{title} (median of the runs, least to greatest)")
    compared = [column for column in columns if column.compared]
    for name in ("what", "source"):
        table.add_column(name)
    for heading in (*(column.heading for column in columns), *(f"cohort's {each.heading} : its" for each in compared)):
        table.add_column(heading, justify="right")
    for case in samples.cases:
        ours = next((source for source in samples.sources(case) if source.startswith("cohort")), "")
        for source in samples.sources(case):
            cells = [_cell(samples, case, source, column) for column in columns]
            ratios = [samples.over(case, ours, each.figure, (case, source)) for each in compared]
            table.add_row(case, source, *cells, *(shown(each) if source != ours else "" for each in ratios))
    return table


def _cell(samples: Samples, case: str, source: str, column: Column) -> str:
    if not column.figure.endswith("/"):
        return shown(samples.spread(case, source, column.figure), column.scale, column.digits)
    names = samples.names(case, source, column.figure)
    parts = {name.removeprefix(column.figure): middle(samples.spread(case, source, name)) or 0.0 for name in names}
    largest = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {value * column.scale:.{column.digits}f}" for name, value in largest if value >= LEAST)


def print_all(tables: Iterable[Table]) -> None:
    """The result for people: as wide as the terminal, without colours or boxes that a pipe can't show."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=170, no_color=True)
    for table in tables:
        if table.row_count:
            console.print(table)


def bound_table(bounds: Sequence[Bound]) -> Table:
    """What is demanded, what was found."""
    table = Table(title="Bounds")
    for name in ("what", "found", "must", "aim", "holds"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for bound in bounds:
        sign = "≥" if bound.at_least else "≤"
        found = "-" if bound.value is None else f"{bound.value:,.2f}"
        wanted = [f"{sign} {value:g}" if value is not None else "" for value in (bound.must, bound.aim)]
        holds = "" if bound.must is None else "yes" if bound.holds else "NO"
        table.add_row(bound.what, found, *wanted, holds)
    return table


def as_json(result: Mapping[str, object]) -> str:
    """One line; numbers of four significant digits."""
    return json.dumps(_rounded(result), separators=(",", ":"))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value
