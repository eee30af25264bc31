"""What ``describe()`` returns, as a notebook shows it: the lanes of the live page, and its rebalances, without a script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from typing import Any, Final

from sparkcohort.runtime.text import counted

SHADES: Final = ((1_000_000, 0.95), (100_000, 0.75), (10_000, 0.55), (1_000, 0.4), (1, 0.25))
"""From how many records behind a cell is how dark, as on the page."""
_CELL: Final = "display:inline-block;min-width:2.6em;margin:1px;padding:1px 4px;border-radius:4px;border:1px solid #888"


class RebalanceRows(list[Mapping[str, Any]]):
    """The rebalances of a document, oldest first."""

    def _repr_html_(self) -> str:
        rows = (
            (_clock(row["at"]), row["cause"], len(row["moved"]), row["kept"], f"{row['duration_ms']} ms", row["result"])
            for row in reversed(self)
        )
        return _table(("when", "cause", "moved", "kept", "took", "result"), (map(_text, row) for row in rows))


class GroupDocument(dict[str, Any]):
    """The document of a run (see ``driver.document``): a dict, and lanes in a notebook."""

    def _repr_html_(self) -> str:
        lag = sum(row["lag"] or 0 for row in self["partitions"])
        facts = (
            self["state"],
            counted(len(self["members"]), "executor"),
            f"{lag:,} behind",
            f"generation {self['generation']}",
        )
        problems = [f"{row['text']} {row['do']}" for row in self["problems"]] or ["Nothing is wrong."]
        by_name = sorted(self["partitions"], key=lambda row: _owner(row["executor"]))
        cells = {
            name: "".join(map(_cell, rows)) for name, rows in groupby(by_name, lambda row: _owner(row["executor"]))
        }
        names = dict.fromkeys([*(_owner(row["executor"]) for row in self["members"]), *cells])
        return (
            f"<p><b>{_text(self['group'])}</b> · {_text(' · '.join(facts))}, {_clock(self['now'])}</p>"
            f"{''.join(f'<p>{_text(line)}</p>' for line in problems)}"
            f"{_table(('executor', 'partitions'), ((_text(name), cells.get(name, '')) for name in names))}"
        )


def _owner(executor: str | None) -> str:
    return "read directly" if executor is None else f"executor-{executor}"


def _cell(row: Mapping[str, Any]) -> str:
    shade = next((dark for least, dark in SHADES if (row["lag"] or 0) >= least), 0.05)
    lag = "lag not known" if row["lag"] is None else f"{row['lag']:,} behind"
    reason = row["unreachable"] or row["late"] or ""
    mark = "‖ " if row["unreachable"] else "◔ " if row["late"] else ""
    title = _text(f"{row['topic']}-{row['partition']}, {lag}{', ' * bool(reason)}{reason}")
    return f'<span title="{title}" style="{_CELL};background:rgba(47,116,176,{shade})">{mark}{row["partition"]}</span>'


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{body}</table>"


def _text(value: object) -> str:
    return escape(str(value))


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC).astimezone():%H:%M:%S}"
