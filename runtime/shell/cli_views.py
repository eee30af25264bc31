"""What the ``cohort`` command prints: tables of a run's status, in the columns of Kafka's own command.

A view is columns and rows of plain values (None: unknown).  It is printed in three ways: padded text for a pipe, where
nothing is ever cut; a table for a terminal; JSON.
Columns: Kafka's ``ConsumerGroupCommand`` (4.2); those behind ``verbose`` are ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.table import Table
from rich.text import Text

Status = Mapping[str, Any]
Row = tuple[object, ...]

MISSING: Final = "-"  # as Kafka prints what is not known

OFFSETS: Final = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
)
MEMBERS: Final = ("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
MEMBERS_VERBOSE: Final = ("CORES", "PID", "HEARTBEAT-AGE-MS", "CURRENT-ASSIGNMENT", "TARGET-ASSIGNMENT")
STATE: Final = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
STATE_VERBOSE: Final = ("GENERATION", "REBALANCES", "PARTITIONS-MOVED", "REFUSED-REQUESTS")
GROUPS: Final = ("GROUP", "INSTANCE-ID", "STATE", "GENERATION", "#MEMBERS", "#PARTITIONS", "LAG", "PID")

_NUMBERS: Final = {"PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "GENERATION", "PID", "CORES"}


@dataclass(frozen=True, slots=True)
class View:
    """A table: the names of its columns and its rows."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def joined(views: Sequence[View]) -> View:
    """The rows of views of the same kind under each other; ``views`` is not empty."""
    return View(views[0].columns, tuple(row for view in views for row in view.rows))


def offsets(status: Status) -> View:
    """One row a partition (``--describe --offsets``)."""
    rows = tuple(
        (
            status["group"],
            row["topic"],
            row["partition"],
            row["current_offset"],
            row["log_end_offset"],
            row["lag"],
            row["member_id"],
            row["host"],
            client_id(row["executor"]),
        )
        for row in status["partitions"]
    )
    return View(OFFSETS, rows)


def members(status: Status, *, verbose: bool = False) -> View:
    """One row a member (``--describe --members``); the driver, which owns nothing, is not among them."""
    rows = []
    for row in status["members"]:
        plain: Row = (
            status["group"],
            row["member_id"],
            row["host"],
            client_id(row["executor"]),
            len(row["owned"]),
        )
        more: Row = (
            row["cores"],
            row["pid"],
            row["heartbeat_age_ms"],
            assignment(row["owned"]),
            assignment(row["target"]),
        )
        rows.append(plain + more if verbose else plain)
    return View(MEMBERS + MEMBERS_VERBOSE if verbose else MEMBERS, tuple(rows))


def state(status: Status, address: str, *, verbose: bool = False) -> View:
    """One row for the run (``--describe --state``); ``address`` is the coordinator's host and port."""
    plain: Row = (
        status["group"],
        f"{address} ({status['instance_id']})",
        status["protocol"] or None,
        status["state"],
        len(status["members"]),
    )
    more: Row = (
        status["generation"],
        status["rebalance_totals"]["count"],
        status["partitions_moved"],
        sum(row["count"] for row in status["refused"]),
    )
    return View(STATE + STATE_VERBOSE, (plain + more,)) if verbose else View(STATE, (plain,))


def groups(runs: Iterable[tuple[str, str, int, Status | None]]) -> View:
    """One row a live run: (group id, instance id, pid of the driver's process, status or None when it is silent)."""
    rows: list[Row] = []
    for group_id, instance_id, pid, status in runs:
        if status is None:
            rows.append((group_id, instance_id, "unreachable", None, None, None, None, pid))
            continue
        known = [row["lag"] for row in status["partitions"] if row["lag"] is not None]
        facts = (status["state"], status["generation"], len(status["members"]), len(status["partitions"]))
        rows.append((group_id, instance_id, *facts, sum(known) if known else None, pid))
    return View(GROUPS, tuple(rows))


def client_id(executor: object) -> str | None:
    """How a member is named to people: by Spark's id of its executor."""
    return None if executor is None else f"executor-{executor}"


def assignment(partitions: Sequence[Sequence[Any]]) -> str | None:
    """Partitions by topic as Kafka's command writes them: ``orders:0,1;returns:4``."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    named = (f"{topic}:{','.join(map(str, sorted(numbers)))}" for topic, numbers in sorted(by_topic.items()))
    return ";".join(named) or None


def as_text(view: View) -> str:
    """Padded columns, one line a row, for pipes and files: no colours, nothing cut or wrapped."""
    lines = [view.columns, *(tuple(map(_cell, row)) for row in view.rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(view.columns))]
    padded = (" ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)


def as_table(view: View) -> Table:
    """The same for a terminal; what does not fit is folded, never cut."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in view.columns:
        right = name in _NUMBERS or name.startswith("#") or name.endswith("-MS")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in view.rows:
        table.add_row(*(_styled(name, value) for name, value in zip(view.columns, row, strict=True)))
    return table


def as_json(view: View) -> str:
    """A list of one object a row, keyed by the columns in lower case with ``_``; unknown is null."""
    keys = [name.lower().replace("#", "").replace(" (id)", "").replace("-", "_") for name in view.columns]
    return json.dumps([dict(zip(keys, row, strict=True)) for row in view.rows], indent=2)


def _cell(value: object) -> str:
    return MISSING if value is None else str(value)


def _styled(column: str, value: object) -> Text:
    style = ""
    if column == "LAG" and isinstance(value, int):
        style = "yellow" if value else "green"
    elif column == "STATE":
        style = "green" if value == "Stable" else "yellow"
    return Text(_cell(value), style=style)
