"""From runs to medians, bounds, tables and one JSON object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table

from tools.bench.assignors.grid import LARGE, PLAIN, SMALL, STICKY, Measured
from tools.bench.assignors.sides import KAFKAS, OURS
from tools.bench.figures import ratio, shown, spread
from tools.bench.report import print_all

LEAST_PARTITIONS = 10_000  # from here on Kafka's is to be no faster
LARGE_MS = {"fresh": 250, "leaves": 400}
SMALL_MS = 3
MOST_BYTES = 200
AIMS = {"fresh": 2, "joins": 4, "leaves": 4}


def cells(measured: Iterable[Measured]) -> dict[str, dict[str, Any]]:
    """By name: both sides' ms, how many times longer Kafka's takes, bytes per partition, and what is missing why."""
    return {str(each.cell): _cell(each) for each in measured}


def _cell(each: Measured) -> dict[str, Any]:
    ms = {name: spread([took.seconds * 1e3 for took in runs]) for name, runs in each.runs.items() if runs}

    def times(which: str) -> float | None:
        return ratio(*((ms.get(name) or {}).get(which) for name in (KAFKAS, OURS)))

    return {
        "assignor": each.cell.assignor,
        "members": each.cell.members,
        "partitions": each.cell.partitions,
        "topics": each.cell.topics,
        "subscriptions": each.cell.subscriptions,
        "event": each.cell.event,
        "ours_ms": ms.get(OURS),
        "kafkas_ms": ms.get(KAFKAS),
        "times": times("median"),
        "times_of_least": times("min"),  # what a busy machine disturbs least
        "bytes_per_partition": None if each.peak_bytes is None else each.peak_bytes / each.cell.partitions,
        "note": each.note,
    }


def bounds(found: Mapping[str, Mapping[str, Any]]) -> dict[str, bool]:
    """What has to hold, and whether it does, of the cells that were measured."""
    held: dict[str, bool] = {}
    sticky = {name: cell for name, cell in found.items() if cell["assignor"] in STICKY and cell["ours_ms"]}
    large = {n: c for n, c in sticky.items() if c["partitions"] >= LEAST_PARTITIONS and c["times"] is not None}
    _all(held, f"equal, {LEAST_PARTITIONS:,} partitions and more: never slower than Kafka's", _times(large, "equal", 1))
    equal = [c for c in sticky.values() if c["subscriptions"] == "equal"]
    room = [c["bytes_per_partition"] <= MOST_BYTES for c in equal]
    _all(held, f"at most {MOST_BYTES} bytes a partition", room)
    for event, limit in LARGE_MS.items():
        times = [c["ours_ms"]["median"] <= limit for c in _shaped(sticky, LARGE) if c["event"] == event]
        _all(held, f"{LARGE[0]:,} members, {LARGE[0] * LARGE[1]:,} partitions, {event}: {limit} ms", times)
    counts = (SMALL[0], SMALL[0] * SMALL[1])
    small = [cell["ours_ms"]["median"] < SMALL_MS for cell in equal if (cell["members"], cell["partitions"]) == counts]
    _all(held, f"{SMALL[0]} members, {SMALL[0] * SMALL[1]:,} partitions: under {SMALL_MS} ms", small)
    return held


def aims(found: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """How many of the large cells with equal subscriptions reach what is aimed at, by event."""
    said: dict[str, str] = {}
    large = [c for c in found.values() if c["assignor"] in STICKY and c["partitions"] >= LEAST_PARTITIONS]
    for event, least in AIMS.items():
        times = [c["times"] for c in large if (c["subscriptions"], c["event"]) == ("equal", event) and c["times"]]
        said[f"equal, {event}: {least} x faster"] = f"{sum(each >= least for each in times)} of {len(times)}"
    return said


def skipped(found: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Names of the cells that lack a side, by reason."""
    by_reason: dict[str, list[str]] = {}
    for name, cell in found.items():
        if cell["note"]:
            by_reason.setdefault(cell["note"], []).append(name)
    return by_reason


def _all(held: dict[str, bool], name: str, each: Sequence[bool]) -> None:
    if each:
        held[name] = all(each)


def _times(cells: Mapping[str, Mapping[str, Any]], subscriptions: str, least: float) -> list[bool]:
    seen = (cell for cell in cells.values() if cell["subscriptions"] == subscriptions)
    return [cell["times"] >= least for cell in seen if cell["times"] is not None]


def _shaped(cells: Mapping[str, Mapping[str, Any]], shape: tuple[int, int, int]) -> list[Mapping[str, Any]]:
    members, per_member, topics = shape
    wanted = (members, members * per_member, topics, "equal")
    return [c for c in cells.values() if (c["members"], c["partitions"], c["topics"], c["subscriptions"]) == wanted]


# --- for people --------------------------------------------------------------------------------------


def print_tables(result: Mapping[str, Any]) -> None:
    """The result as tables."""
    found = result["cells"]
    sticky = {name: cell for name, cell in found.items() if cell["assignor"] in STICKY}
    plain = {name: cell for name, cell in found.items() if cell["assignor"] in PLAIN}
    print_all(
        [
            _cell_table("The sticky assignors", sticky),
            _cell_table("range and roundrobin", plain),
            _pairs("Bounds", {name: "yes" if holds else "NO" for name, holds in result["bounds"].items()}),
            _pairs("Aims, reached in so many cells", result["aims"]),
            _pairs("Left out", {_shortened(names): why for why, names in result["skipped"].items()}),
        ]
    )


def _shortened(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} cells, from {names[0]} to {names[-1]}"


def _cell_table(title: str, found: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(title=f"{title}: members x partitions per member / topics; ms (median, least to greatest)")
    for name in ("cell", "ours", "Kafka's", "Kafka's / ours", "of the least", "bytes a partition"):
        table.add_column(name, justify="left" if name == "cell" else "right", no_wrap=True)
    for name, cell in found.items():
        if cell["ours_ms"] or cell["kafkas_ms"]:
            table.add_row(
                name,
                shown(cell["ours_ms"], 1, 1),
                shown(cell["kafkas_ms"], 1, 1),
                *("-" if cell[name] is None else f"{cell[name]:.2f}" for name in ("times", "times_of_least")),
                "-" if cell["bytes_per_partition"] is None else f"{cell['bytes_per_partition']:.0f}",
            )
    return table


def _pairs(title: str, pairs: Mapping[str, str]) -> Table:
    table = Table(title=title)
    table.add_column("what")
    table.add_column("", justify="right")
    for name, value in pairs.items():
        table.add_row(name, value)
    return table
