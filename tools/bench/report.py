"""The result of all parts: tables for people, and one JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tools.bench.figures import Bound


def print_tables(tables: Sequence[Table], bounds: Sequence[Bound]) -> None:
    """The result for people: as wide as the terminal, without colours or boxes that a pipe can't show."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=160, no_color=True)
    for table in (*tables, bound_table(bounds)):
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
