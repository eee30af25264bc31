"""The views of the ``cohort`` command: tables of a run's status, in the columns of Kafka's own command.

A view is columns and rows of plain values (None: unknown).  It is printed as padded text, where nothing is ever cut, on a
terminal that is too narrow for that as a block a row, or as JSON.
Columns: Kafka's ``ConsumerGroupCommand`` (4.2); those behind ``verbose`` are Cohort's.
"""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Final

from sparkcohort.runtime.group.summary import ranges
from sparkcohort.runtime.text import counted

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
OFFSETS_VERBOSE: Final = ("AGE",)
MEMBERS: Final = ("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
MEMBERS_VERBOSE: Final = (
    "GROUP-INSTANCE-ID",
    "MEMBER-STATE",
    "RACK",
    "CORES",
    "PID",
    "HEARTBEAT-AGE-MS",
    "LOAD-SHARE",
    "RECORDS/S",
    "BYTES/S",
    "BACKLOG",
    "CURRENT-ASSIGNMENT",
    "TARGET-ASSIGNMENT",
    "AWAITED",
)
STATE: Final = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
STATE_VERBOSE: Final = (
    "GENERATION",
    "IN-STATE-FOR",
    "REBALANCES",
    "PARTITIONS-MOVED",
    "REFUSED-REQUESTS",
    "REBALANCE",
    "SCHEDULED",
    "FAILED-REBALANCES",
    "ASSIGNOR-FAILURE",
)
MOST_NAMED: Final = 5  # partitions of one reason
GROUPS: Final = ("GROUP", "INSTANCE-ID", "STATE", "GENERATION", "#MEMBERS", "#PARTITIONS", "LAG", "PID", "HOST")

PAIR: Final = itemgetter("topic", "partition")
_RANGES: Final = {"CURRENT-ASSIGNMENT", "TARGET-ASSIGNMENT", "AWAITED", "KEPT", "+GAINED", "-LOST", "GIVES-UP"}


@dataclass(frozen=True, slots=True)
class View:
    """A table: the names of its columns and its rows.

    ``objects`` are the rows as JSON if that is more than the cells.  If a terminal is too narrow, the columns of ``narrow``
    are left out, one after the other.  If that is not enough, each row becomes a block; rows of ``words`` are left to
    the terminal.  ``heading`` and ``totals`` are the lines above and under a table.  ``notes`` are lines for standard error.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    objects: tuple[Mapping[str, Any], ...] | None = None
    words: bool = False
    notes: tuple[str, ...] = ()
    narrow: tuple[str, ...] = ()
    totals: tuple[str, ...] = ()
    heading: tuple[str, ...] = ()


Items = Iterable[Mapping[str, Any]]
"""Rows as JSON."""
Cells = Mapping[str, Callable[[Mapping[str, Any]], object]]


def view_of(columns: tuple[str, ...], objects: Iterable[Mapping[str, Any]], cells: Cells, **more: Any) -> View:
    """A view of these objects: a cell is made by ``cells``, else it is the value whose key is the column's name."""
    items = tuple(objects)
    makers = [cells.get(name) or itemgetter(key_of(name)) for name in columns]
    return View(columns, tuple(tuple(make(item) for make in makers) for item in items), items, **more)


def join_views(views: Sequence[View]) -> View:
    """One view with the rows of several of the same kind; ``views`` is not empty."""
    first = views[0]
    objects = None if first.objects is None else tuple(item for view in views for item in view.objects or ())
    return replace(
        first,
        rows=tuple(row for view in views for row in view.rows),
        objects=objects,
        notes=tuple(note for view in views for note in view.notes),
        totals=tuple(line for view in views for line in view.totals),
        heading=tuple(line for view in views for line in view.heading),
        # GROUP tells the rows of several groups apart, so it stays.
        narrow=first.narrow if len(views) == 1 else tuple(name for name in first.narrow if name != "GROUP"),
    )


def for_terminal(view: View, width: int) -> View:
    """The view without as many of its ``narrow`` columns as it takes to fit; unchanged if that is not enough."""
    whole, left_out = view, list[str]()
    for name in view.narrow:
        if fits(view, width):
            break
        index = view.columns.index(name)
        rows = tuple((*row[:index], *row[index + 1 :]) for row in view.rows)
        view = replace(view, columns=(*view.columns[:index], *view.columns[index + 1 :]), rows=rows)
        left_out.append(name)
    if not left_out or not fits(view, width):
        return whole
    hint = f"left out at this width: {', '.join(left_out)}; a pipe, as in `| cat`, gets them"
    return replace(view, totals=(*view.totals, hint))


def notes(status: Status) -> tuple[str, ...]:
    """Problems of a group that every view reports, a line each."""
    failure, group = status["assignor_failure"], status["group"]
    failures = [] if failure is None else [f"group {group}: {_failure(failure)}; every member keeps its partitions"]
    holds = (*_held_back(status, "unreachable", "held"), *_held_back(status, "late", "read as far as it is fetched"))
    return (*failures, *holds, *_held_by_transactions(status), *_cut_off(status))


def _held_by_transactions(status: Status) -> list[str]:
    """A line for the partitions that an open transaction holds: their lag is 0, and they don't advance."""
    rows = [row for row in status["partitions"] if row["open_transaction"]]
    if not rows:
        return []
    names = first_names([f"{row['topic']}-{row['partition']}" for row in rows])
    records = counted(sum(row["open_transaction"]["records"] for row in rows), "record")
    age = duration(1000 * max(row["open_transaction"]["seconds"] for row in rows))
    return [f"group {status['group']}: {names} held by open transactions: {records} wait, for {age} or longer"]


def _cut_off(status: Status) -> list[str]:
    """A line for each member that can't fetch partitions that others can, and why."""
    names_by_member: dict[tuple[str, str, str], list[str]] = {}
    for row in status["cut_off"]:
        names = names_by_member.setdefault((str(row["executor"]), str(row["host"]), str(row["why"])), [])
        names.append(f"{row['topic']}-{row['partition']}")
    return [
        f"group {status['group']}: {client_id(executor)} on {host} can't fetch {first_names(names)}: {reason}; others own and read them"
        for (executor, host, reason), names in sorted(names_by_member.items())
    ]


def first_names(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """The first names, and how many more there are."""
    return f"{', '.join(names[:most])}{f' and {len(names) - most} more' * (len(names) > most)}"


def _held_back(status: Status, key: str, text: str) -> list[str]:
    """A line for each reason why partitions are held back, with the first of them."""
    by_reason: dict[str, list[str]] = {}
    for row in status["partitions"]:
        if row[key] is not None:
            by_reason.setdefault(row[key], []).append(f"{row['topic']}-{row['partition']}")
    return [
        f"group {status['group']}: {first_names(names)} {text}: {reason}" for reason, names in sorted(by_reason.items())
    ]


def offsets(status: Status, *, verbose: bool = False, select: Callable[[Items], Items] = iter) -> View:
    """One row a partition (``--describe --offsets``); AGE is that of the oldest record that isn't committed."""
    columns = OFFSETS + OFFSETS_VERBOSE if verbose else OFFSETS
    objects = [_partition(status["group"], row) for row in status["partitions"]]
    return view_of(columns, select(objects), _CELLS, narrow=("CONSUMER-ID", "HOST", "GROUP", "CURRENT-OFFSET"))


def _partition(group: str, row: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("topic", "partition", "current_offset", "log_end_offset", "lag")
    return {
        "group": group,
        **{key: row[key] for key in keys},
        "consumer_id": row["member_id"],
        "host": row["host"],
        "client_id": client_id(row["executor"]),
        "lag_seconds": row["lag_seconds"],
        "open_transaction": row["open_transaction"],
    }


def members(status: Status, *, verbose: bool = False, select: Callable[[Items], Items] = iter) -> View:
    """One row a member (``--describe --members``); the driver, which owns nothing, is not among them.

    Owned partitions stand with their assignment generation, ``orders-0..4@1002``.  AWAITED are those that other members
    have yet to revoke.  The last rows are member ids that were issued and not used yet.
    """
    objects = [_member(status["group"], row) for row in status["members"]]
    columns = MEMBERS + MEMBERS_VERBOSE if verbose else MEMBERS
    return view_of(columns, select(objects), _CELLS, narrow=() if verbose else ("GROUP", "HOST"))


def _member(group: str, row: Mapping[str, Any]) -> dict[str, Any]:
    owned = [
        {"topic": topic, "partition": partition, "generation": generation}
        for (topic, partition), generation in zip(row["owned"], row["generations"], strict=True)
    ]
    return {
        "group": group,
        "consumer_id": row["member_id"],
        "host": row["host"],
        "client_id": client_id(row["executor"]),
        "partitions": len(owned),
        "group_instance_id": row["instance_id"],
        "member_state": row["state"],
        **{key: row[key] for key in ("executor", "rack", "cores", "pid", "heartbeat_age_ms", "load")},
        "current_assignment": owned,
        "target_assignment": [{"topic": topic, "partition": partition} for topic, partition in row["target"]],
    }


def _by_generation(item: Mapping[str, Any]) -> str | None:
    """Owned partitions with the generation in which they were acquired, if it is known."""
    generations: dict[int | None, list[tuple[str, int]]] = {}
    for each in sorted(item["current_assignment"], key=lambda each: each["generation"] or 0):
        generations.setdefault(each["generation"], []).append(PAIR(each))
    return (
        " ".join(
            f"{ranges(each)}{'' if generation is None else f'@{generation}'}"
            for generation, each in generations.items()
        )
        or None
    )


def _awaited(item: Mapping[str, Any]) -> str | None:
    return ranges(set(map(PAIR, item["target_assignment"])) - set(map(PAIR, item["current_assignment"])))


def state(status: Status, address: str, *, verbose: bool = False) -> View:
    """One row for the run (``--describe --state``); ``address`` is the coordinator's host and port."""
    item = {
        "group": status["group"],
        "coordinator": f"{address} ({status['instance_id']})",
        "assignment_strategy": status["protocol"] or None,
        "state": status["state"],
        "members": len(status["members"]),
        "generation": status["generation"],
        "in_state_ms": status["state_age_ms"],
        "rebalances": status["rebalance_totals"]["count"],
        "partitions_moved": status["partitions_moved"],
        "refused_requests": sum(row["count"] for row in status["refused"]),
        "rebalance": status["rebalance"],
        "scheduled_rebalance": status.get("scheduled_rebalance"),
        "failed_rebalances": status["failed_rebalances"],
        "assignor_failure": status["assignor_failure"],
        "batch": status["batches"]["in_flight"],
    }
    return view_of(STATE + STATE_VERBOSE if verbose else STATE, [item], _CELLS)


def batch(status: Status) -> tuple[str, ...]:
    """A line on the batch in flight, if there is one: its age, its progress, what it waits for."""
    in_flight = status["batches"]["in_flight"]
    if in_flight is None:
        return ()
    name = "a batch" if in_flight["number"] is None else f"batch {in_flight['number']}"
    ranges_of = f"{counted(in_flight['ranges_delivered'], 'range')} delivered, {in_flight['ranges_owed']} owed"
    age = duration(in_flight["age_ms"])
    return (f"{status['group']}, {name} in flight for {age}: {ranges_of}; waits for {in_flight['waits_for']}",)


def _under_way(rebalance: Mapping[str, Any]) -> str:
    """A running rebalance in words: reason, age, and the members that it waits for."""
    missing = [row["client_id"] or row["member_id"] for row in rebalance["missing"]]
    time_left = f", {duration(rebalance['deadline_in_ms'])} left" if rebalance["deadline_in_ms"] is not None else ""
    runs = rebalance["assignor"]
    assignor_words = f"; assignor {runs['name']} runs for {duration(runs['age_ms'])}" if runs is not None else ""
    return (
        f"{rebalance['reason']}, {duration(rebalance['age_ms'])} ago; waits for {', '.join(missing) or 'nobody'} "
        f"to {rebalance['waits_for']}{time_left}{assignor_words}"
    )


def _failure(failure: Mapping[str, Any]) -> str:
    """The assignor's failure, and when it is called again."""
    times = f" ({failure['in_a_row']} times in a row)" if failure["in_a_row"] > 1 else ""
    return f"{failure['error']}{times}; asked again in {duration(failure['retry_in_ms'])}"


def _scheduled(scheduled: Mapping[str, Any]) -> str:
    """A delayed rebalance (KIP-415) in words: what it waits for, and how long at most."""
    orphans = ranges((topic, partition) for topic, partition in scheduled["partitions"])
    text = f"{orphans} waits for a replacement" if orphans else "moves to balance the members wait for their back-off"
    return f"{text}, {duration(scheduled['due_in_ms'])} left"


def _optional(key: str, describe: Callable[[Any], object]) -> Callable[[Mapping[str, Any]], object]:
    """A cell in words; None if the value is None."""
    return lambda item: None if item[key] is None else describe(item[key])


_CELLS: Final[Cells] = {
    "AGE": _optional("lag_seconds", lambda seconds: duration(1000 * seconds)),
    "MEMBER-STATE": itemgetter("member_state"),
    "LOAD-SHARE": _optional("load", lambda load: f"{100 * load['share']:.0f}%"),
    "RECORDS/S": _optional("load", lambda load: round(load["records_per_second"])),
    "BYTES/S": _optional("load", itemgetter("bytes_per_second")),
    "BACKLOG": _optional("load", itemgetter("backlog")),
    "CURRENT-ASSIGNMENT": _by_generation,
    "TARGET-ASSIGNMENT": lambda item: ranges(map(PAIR, item["target_assignment"])),
    "AWAITED": _awaited,
    "IN-STATE-FOR": lambda item: duration(item["in_state_ms"]),
    "REBALANCE": _optional("rebalance", _under_way),
    "SCHEDULED": _optional("scheduled_rebalance", _scheduled),
    "FAILED-REBALANCES": lambda item: sum(item["failed_rebalances"].values()),
    "ASSIGNOR-FAILURE": _optional("assignor_failure", _failure),
}
"""Cells that are other than the value of the column's key."""


def groups(runs: Iterable[tuple[str, str, int, str, Status | str]]) -> View:
    """One row a run: (group id, instance id, pid and host of the driver's process, status or a word in its place)."""
    rows: list[Row] = []
    for group_id, instance_id, pid, host, status in runs:
        if isinstance(status, str):
            rows.append((group_id, instance_id, status, None, None, None, None, pid, host))
            continue
        lags = [row["lag"] for row in status["partitions"] if row["lag"] is not None]
        facts = (status["state"], status["generation"], len(status["members"]), len(status["partitions"]))
        rows.append((group_id, instance_id, *facts, sum(lags) if lags else None, pid, host))
    return View(GROUPS, tuple(rows), narrow=("#PARTITIONS", "GENERATION", "INSTANCE-ID"))


def client_id(executor: object) -> str | None:
    """A member's name for people: Spark's id of its executor."""
    return None if executor is None else f"executor-{executor}"


def duration(ms: float) -> str:
    """Milliseconds for people: ``850ms``, ``12s``, ``3m20s``, ``2h5m``, ``4d1h``; a word without blanks."""
    seconds = int(ms / 1000)
    if seconds < 1:
        return f"{int(ms)}ms"
    units = [("d", seconds // 86_400), ("h", seconds // 3600 % 24), ("m", seconds // 60 % 60), ("s", seconds % 60)]
    first = next(index for index, (_, count) in enumerate(units) if count)
    return "".join(f"{count}{unit}" for unit, count in units[first : first + 2] if count)


def as_text(view: View) -> str:
    """Padded columns, one line a row: nothing cut or wrapped."""
    lines = [view.columns, *(tuple(map(_cell, row)) for row in view.rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(view.columns))]
    padded = (" ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)


def as_blocks(view: View, width: int) -> str:
    """Each row as a block of lines with a name and a known value each; a long value goes on under itself, no number is broken."""
    place = max(map(len, view.columns)) + 1
    fold = textwrap.TextWrapper(width, subsequent_indent=" " * place, break_long_words=False, break_on_hyphens=False)
    blocks = []
    for row in view.rows:
        pairs = [(name, _cell(value)) for name, value in zip(view.columns, row, strict=True) if value is not None]
        texts = [name.ljust(place) + (text.replace(",", ", ") if name in _RANGES else text) for name, text in pairs]
        blocks.append("\n".join(map(fold.fill, texts)))
    return "\n\n".join(blocks)


def fits(view: View, width: int) -> bool:
    """Whether the table fits into ``width`` columns."""
    return max(map(len, as_text(view).splitlines())) <= width


def render(view: View, width: int) -> str:
    """A view for a terminal of ``width`` columns; no number and no name is broken."""
    return as_text(view) if view.words or fits(view, width) else as_blocks(view, width)


def as_json(view: View) -> str:
    """A list of one object a row, keyed by the columns in lower case with ``_``; unknown is null.

    If a view has objects, they are printed instead: with all fields, verbose or not.
    """
    if view.objects is not None:
        return json.dumps(view.objects, indent=2)
    keys = list(map(key_of, view.columns))
    return json.dumps([dict(zip(keys, row, strict=True)) for row in view.rows], indent=2)


def as_csv(view: View) -> str:
    """The table's columns and rows, with a line of names; unknown is empty (RFC 4180, lines end with LF)."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(view.columns)
    writer.writerows([["" if value is None else printable(str(value)) for value in row] for row in view.rows])
    return text.getvalue()


def key_of(column: str) -> str:
    """The key of a column in JSON."""
    return column.lower().replace("#", "").replace(" (id)", "").replace("-", "_")


def _cell(value: object) -> str:
    return MISSING if value is None else printable(str(value))


def printable(words: str) -> str:
    """The text on one line without control characters: it may come from a member, and must not steer the terminal."""
    return "".join(character if character.isprintable() else "?" for character in words)
