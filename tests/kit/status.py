"""A status of a run as ``runtime.shell.driver.status`` builds it: a group of two executors on three partitions."""

from __future__ import annotations

from typing import Any

from sparkcohort.runtime.protocol.reasons import Cause, Reason
from sparkcohort.runtime.shell.coordinator.totals import Histogram, RebalanceTotals

A_LOAD = {"records_per_second": 1200.4, "bytes_per_second": 360_000, "backlog": 17, "share": 0.3333}
HELD_UP = {"records": 457, "seconds": 123.4}
IN_FLIGHT = {
    "number": 17,
    "age_ms": 123_400,
    "ranges_delivered": 10,
    "ranges_owed": 2,
    "may_be_over": False,
    "waits_for": "tasks that read orders-1",
}


WRITES = {
    "topics": {"bills": {"rows": 700, "bytes": 42_000, "batches": 12, "retries": 1}},
    "waited_s": 1.5,
    "tasks_s": 9.0,
    "failed_batches": 0,
    "last": {"waited_s": 0.1, "tasks_s": 0.5},
    "commits": {"committed": 40, "aborted": 2, "commit_s": 1.25, "open_ratio": 0.01},
}


def a_status(**changes: Any) -> dict[str, Any]:
    """The status, with top-level keys replaced."""
    totals = RebalanceTotals()
    totals.add(Reason(Cause.MEMBER_JOINED, ("m-2",)), 12, 4)
    totals.add(Reason(Cause.SESSIONS_EXPIRED, ("m-1",)), 700, 0)
    return {
        "group": "billing",
        "instance_id": "cohort-0a1b2c3d",
        "run_id": "r1",
        "state": "Stable",
        "generation": 7,
        "protocol": "cooperative-sticky",
        "state_age_ms": 61_000,
        "rebalance": None,
        "members": [
            a_member("m-2", "2", "10.0.0.12", [["orders", 0], ["orders", 1]], 1500),
            {**a_member("m-3", "3", "10.0.0.13", [], 20), "load": A_LOAD},
        ],
        "partitions": [
            a_partition(0, 100, 150, "2", start=40, age_s=7.5),
            a_partition(1, 90, 90, "2", late="its leader is slow", start=0, age_s=0.0, transaction=HELD_UP),
            a_partition(2, None, None, None, unreachable="broker 3 does not answer"),
        ],
        "cut_off": [],
        "scheduled_rebalance": None,
        "rebalances": [],
        "rebalance_totals": totals.as_value(),
        "malformed": [{"topic": "orders", "reason": "syntax", "count": 5}],
        "refused": [{"request": "OffsetCommit", "error": "ILLEGAL_GENERATION", "count": 3}],
        "assignors": ["cooperative-sticky", "range"],
        "failed_rebalances": {"range": 1},
        "assignor_failure": None,
        "partitions_moved": 4,
        "foreign_members": {"found": 3, "present": 1},
        "fenced": False,
        "take_overs": {"handover": 0, "fencing": 1},
        "agent_starts": {"2": 1, "3": 2},
        "throttled": {"2": 0.5, "3": None},
        "processes": {
            "driver": {
                "resident_bytes": 150_000_000,
                "cpu_seconds": 12.5,
                "open_fds": 80,
                "max_fds": 1024,
                "threads": 20,
                "started_at": 1_794_999_000.0,
            }
        },
        "query": {"id": "q1", "name": "bills", "offsets_behind_latest": {"min": 0, "max": 50, "avg": 16.5}},
        "writes": WRITES,
        **_delivered(),
        "now": 1_795_000_100.0,
        "flow": {"in": 120.0, "out": 80.0, "samples": [[1_795_000_099.0, 120.0, 80.0, 50, 7.5]]},
        "problems": [],
        **changes,
    }


def _delivered() -> dict[str, Any]:
    """What tasks have delivered, in all and of the last batch, and what has been committed."""
    return {
        "commits": {
            "commits": 41,
            "failures": 2,
            "durations": durations(30, 70),
            "last_commit_at": 1_795_000_000.5,
            "pending_ms": 1_500,
        },
        "batches": {
            "durations": durations(800, 2_000),
            "last": {"records": 500, "bytes": 60_000, "seconds": 2.0},
            "in_flight": None,
        },
        "audit": {
            "plans": 9,
            "slots": 54,
            "ranges_delivered": 108,
            "ranges_again": 12,
            "records_from_agent": 9000,
            "records_direct": 1000,
            "bytes_from_agent": 900_000,
            "bytes_direct": 100_000,
            "agent_timeouts": 1,
        },
    }


def durations(*took_ms: int) -> dict[str, Any]:
    """A histogram in plain values."""
    histogram = Histogram()
    for each in took_ms:
        histogram.add(each)
    return histogram.as_value()


def a_member(member_id: str, executor: str, host: str, owned: list[list[Any]], age_ms: int) -> dict[str, Any]:
    """One row of ``members``."""
    return {
        "member_id": member_id,
        "instance_id": None,
        "state": "settled",
        "client_id": f"executor-{executor}",
        "rack": None,
        "executor": executor,
        "host": host,
        "cores": 2,
        "pid": 4000 + int(executor),
        "owned": owned,
        "generations": [5] * len(owned),
        "target": owned,
        "heartbeat_age_ms": age_ms,
        "load": None,
    }


def a_cut(member_id: str, executor: str, number: int) -> dict[str, Any]:
    """One row of ``cut_off``: a partition of the topic orders that a member doesn't reach."""
    return {
        "member_id": member_id,
        "executor": executor,
        "host": f"10.0.0.1{executor}",
        "topic": "orders",
        "partition": number,
        "why": "its leader does not answer here for 3 s",
        "age_ms": 12_000,
    }


def a_partition(
    number: int,
    offset: int | None,
    end: int | None,
    executor: str | None,
    unreachable: str | None = None,
    late: str | None = None,
    start: int | None = None,
    age_s: float | None = None,
    transaction: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """One row of ``partitions`` of the topic orders; ``executor`` owns it."""
    return {
        "topic": "orders",
        "partition": number,
        "current_offset": offset,
        "log_end_offset": end,
        "lag": None if offset is None or end is None else end - offset,
        "log_start_offset": start,
        "lead": None if offset is None or start is None else offset - start,
        "lag_seconds": age_s,
        "member_id": f"m-{executor}" if executor else None,
        "executor": executor,
        "host": f"10.0.0.1{executor}" if executor else None,
        "unreachable": unreachable,
        "late": late,
        "open_transaction": transaction,
        "racks": [],
    }
