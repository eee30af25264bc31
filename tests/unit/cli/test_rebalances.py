"""How the history of a run is printed."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from sparkcohort.cli import rebalance_views, views

AT = 1_700_000_000.25


def a_rebalance(**changes: Any) -> dict[str, Any]:
    """One of the list, as ``reports.rebalances`` gives it."""
    told = {"generation": 1042, "at": AT, "reason": "executor-4 joined", "duration_ms": 14, "protocol": "range"}
    return {**told, "result": "ok", "members": 4, "moved": 75, "revoked": 0, **changes}


def an_assignment(**changes: Any) -> dict[str, Any]:
    """A member's row of one rebalance, as ``reports.shown`` gives it."""
    had = {"before": of(0, 1, 2), "after": of(0, 2, 9), "kept": of(0, 2), "giving_up": of(2)}
    moved = {"gained": [{**of(9)[0], "from": None}], "lost": [{**of(1)[0], "to": "executor-4"}]}
    who = {"member_id": "m-1", "client_id": "executor-1", "host": "h", "present": True}
    return {**who, **had, **moved, **changes}


def of(*numbers: int) -> list[dict[str, Any]]:
    """Partitions of the topic t."""
    return [{"topic": "t", "partition": number} for number in numbers]


def test_the_list_has_the_local_time_and_the_age() -> None:
    """The time of day is the clock's on the wall here; JSON has its offset and numbers as numbers."""
    view = rebalance_views.rebalances("billing", [a_rebalance()], AT + 200)
    (row,) = view.rows
    assert row[2:] == ("3m20s", 1042, 14, 4, 75, 0, "executor-4 joined", "ok")
    assert datetime.fromisoformat(str(row[1])).astimezone().timestamp() == int(AT)
    (told,) = json.loads(views.as_json(view))
    assert datetime.fromisoformat(told["time"]).timestamp() == AT
    assert list(told) == [
        *("group", "time", "age_ms", "generation", "reason", "duration_ms"),
        *("protocol", "result", "members", "moved", "revoked"),
    ]


def test_one_rebalance_marks_what_moved() -> None:
    """Kept, gained from whom, lost to whom; what is kept for now only; who is gone."""
    item = a_rebalance(assignments=[an_assignment(), an_assignment(member_id="m-2", present=False)], removed=[])
    view = rebalance_views.rebalance("billing", item, AT)
    assert view.rows[0] == (
        *("executor-1", "h", "m-1", 3, 3, "t-0,2"),
        *("t-9 from nobody", "t-1 to executor-4", "t-2"),
    )
    assert view.rows[1][2] == "m-2 (gone)"
    (told,) = json.loads(views.as_json(view))
    assert told["assignments"][0]["lost"] == [{"topic": "t", "partition": 1, "to": "executor-4"}]


def test_the_title_of_one_rebalance_names_who_is_gone() -> None:
    """Result, time, reason, counts, and who was left behind on the way."""
    gone = {"member_id": "m-3", "client_id": None, "reason": "it did not rejoin within the rebalance timeout"}
    lines = rebalance_views.rebalance("billing", a_rebalance(removed=[gone], assignments=[]), AT + 61).heading
    assert lines[0] == "group billing, rebalance to generation 1042: ok"
    assert ", 1m1s ago, after 14 ms; range" in lines[1]
    assert lines[-1] == "gone: m-3, it did not rejoin within the rebalance timeout"
