"""The views of ``cohort rebalances`` and ``cohort story`` (see ``views``).

Times of day are local, in ISO 8601: JSON has the offset from UTC as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from sparkcohort.cli.views import PAIR, Cells, View, duration, view_of
from sparkcohort.runtime.group.summary import ranges
from sparkcohort.runtime.text import counted

REBALANCES: Final = (
    *("GROUP", "TIME", "AGE", "GENERATION", "DURATION-MS", "#MEMBERS", "#MOVED", "#REVOKED", "REASON", "RESULT"),
)
REBALANCE: Final = ("CLIENT-ID", "HOST", "CONSUMER-ID", "#BEFORE", "#AFTER", "KEPT", "+GAINED", "-LOST", "GIVES-UP")
SECONDS: Final = len("2026-01-31T23:59:59")
STORY: Final = ("TIME", "WHAT")


def rebalances(group_id: str, done: Iterable[Mapping[str, Any]], now: float) -> View:
    """One row a rebalance, newest last; ``now`` is in seconds since 1970."""
    cells: Cells = {"TIME": lambda item: item["time"][:SECONDS], "AGE": lambda item: duration(item["age_ms"])}
    objects = (_listed(group_id, item, now) for item in done)
    return view_of(REBALANCES, objects, cells, narrow=("GROUP", "AGE", "DURATION-MS", "#REVOKED", "#MEMBERS"))


def _listed(group_id: str, item: Mapping[str, Any], now: float) -> dict[str, Any]:
    return {
        "group": group_id,
        "time": iso(item["at"]),
        "age_ms": max(int((now - item["at"]) * 1000), 0),
        **{key: value for key, value in item.items() if key != "at"},
    }


def _title(group_id: str, item: Mapping[str, Any], now: float) -> tuple[str, ...]:
    """The lines above the table of one rebalance."""
    ago = duration(max((now - item["at"]) * 1000, 0))
    lines = [
        f"group {group_id}, rebalance to generation {item['generation']}: {item['result']}",
        f"ended {iso(item['at'])}, {ago} ago, after {item['duration_ms']} ms; {item['protocol']}",
        f"reason: {item['reason'] or 'unknown'}",
        f"{counted(item['members'], 'member')}, {counted(item['moved'], 'partition')} moved, {item['revoked']} revoked",
    ]
    return (*lines, *(f"gone: {row['client_id'] or row['member_id']}, {row['reason']}" for row in item["removed"]))


def rebalance(group_id: str, item: Mapping[str, Any], now: float) -> View:
    """A row a member: the partitions that it kept, gained and lost in one rebalance.

    Before it had KEPT and -LOST, afterwards KEPT and +GAINED.  It keeps GIVES-UP until the follow-up round.
    """
    cells: Cells = {
        "CONSUMER-ID": lambda row: row["member_id"] + ("" if row["present"] else " (gone)"),
        "#BEFORE": lambda row: len(row["before"]),
        "#AFTER": lambda row: len(row["after"]),
        "KEPT": lambda row: ranges(map(PAIR, row["kept"])),
        "+GAINED": lambda row: _routes("from", row["gained"]),
        "-LOST": lambda row: _routes("to", row["lost"]),
        "GIVES-UP": lambda row: ranges(map(PAIR, row["giving_up"])),
    }
    view = view_of(REBALANCE, item["assignments"], cells, heading=_title(group_id, item, now))
    return replace(view, objects=(_listed(group_id, item, now),))


def _routes(word: str, moves: Sequence[Mapping[str, Any]]) -> str | None:
    """Partitions by the member from which they came or to which they went."""
    peers: dict[str | None, list[tuple[str, int]]] = {}
    for item in moves:
        peers.setdefault(item[word], []).append(PAIR(item))
    return "; ".join(f"{ranges(pairs)} {word} {peer or 'nobody'}" for peer, pairs in peers.items()) or None


def member_timeline(story: Mapping[str, Any]) -> View:
    """One row a line of the story, oldest first."""
    member = {key: story[key] for key in ("member_id", "client_id", "host")}
    objects = ({**member, "time": iso(line["at"]), "what": line["what"]} for line in story["lines"])
    heading = (f"{story['member_id']} ({story['client_id'] or '-'} on {story['host'] or '-'})",)
    return view_of(STORY, objects, {"TIME": lambda item: item["time"][: SECONDS + 4]}, words=True, heading=heading)


def iso(seconds: float) -> str:
    """A time (seconds since 1970) as local ISO 8601 with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(timespec="milliseconds")
