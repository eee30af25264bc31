"""The status of a run as samples of metrics; nothing is counted here."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby, product
from operator import itemgetter
from typing import Any, Final, TypeAlias

import confluent_kafka

from sparkcohort.runtime.group.table import GroupState
from sparkcohort.runtime.protocol.reasons import LABELS
from sparkcohort.runtime.shell.coordinator.totals import REFUSALS, REFUSED_REQUESTS

Status: TypeAlias = Mapping[str, Any]
Samples: TypeAlias = list[tuple[tuple[str, ...], Any]]
"""Label values and value; the value of a histogram is that of ``totals.Histogram.as_value``."""

MOST_PARTITIONS: Final = 2_000
_LOADS: Final = {
    "share": "share",
    "records": "records_per_second",
    "bytes": "bytes_per_second",
    "backlog": "backlog",
}
_NOTHING_WRITTEN: Final[Status] = {
    "topics": {},
    "waited_s": 0,
    "tasks_s": 0,
    "failed_batches": 0,
    "commits": {"committed": 0, "aborted": 0, "commit_s": 0, "open_ratio": 0},
}
_PROCESS: Final = {
    "cohort_process_resident_memory_bytes": "resident_bytes",
    "cohort_process_open_fds": "open_fds",
    "cohort_process_max_fds": "max_fds",
    "cohort_process_threads": "threads",
    "cohort_process_cpu_seconds_total": "cpu_seconds",
    "cohort_process_start_time_seconds": "started_at",
}


def values(status: Status, most_partitions: int = MOST_PARTITIONS) -> dict[str, Samples]:
    """The samples of each metric by its name; with more than ``most_partitions`` there are none by partition."""
    parts = (_run, _group, _commits, _consumed, _written, _members)
    all_samples = {name: samples for part in parts for name, samples in part(status).items()}
    return {"cohort_up": [((), 1.0)], **all_samples, **_logs(status, most_partitions)}


def _run(status: Status) -> dict[str, Samples]:
    processes = sorted(status["processes"].items())
    return {
        "cohort_build_info": [(_versions(), 1.0)],
        "cohort_fenced": [((), float(status["fenced"]))],
        "cohort_take_overs_total": sorted(((way,), count) for way, count in status["take_overs"].items()),
        **{name: [((process,), row[key]) for process, row in processes] for name, key in _PROCESS.items()},
    }


@cache
def _versions() -> tuple[str, ...]:
    return _version("sparkcohort"), platform.python_version(), _version("pyspark"), confluent_kafka.libversion()[0]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # Spark's own folder on the path, for one
        return ""


def _group(status: Status) -> dict[str, Samples]:
    by_reason = status["rebalance_totals"]["by_reason"]
    return {
        "cohort_group_state": [((state.value,), float(state.value == status["state"])) for state in GroupState],
        "cohort_group_generation": [((), status["generation"])],
        "cohort_group_members": [((), len(status["members"]))],
        "cohort_rebalances_total": [((reason,), by_reason[reason]["count"]) for reason in LABELS],
        "cohort_rebalance_duration_seconds": [((reason,), by_reason[reason]) for reason in LABELS],
        "cohort_assignor_failures_total": _from_nought(
            [(name,) for name in status["assignors"]],
            {(name,): count for name, count in status["failed_rebalances"].items()},
        ),
        "cohort_partitions_moved_total": [((), status["partitions_moved"])],
        "cohort_requests_refused_total": _from_nought(
            product(REFUSED_REQUESTS, REFUSALS),
            {(row["request"], row["error"]): row["count"] for row in status["refused"]},
        ),
        "cohort_foreign_members_total": [((), status["foreign_members"]["found"])],
        "cohort_foreign_members": [((), status["foreign_members"]["present"])],
    }


def _from_nought(labels: Iterable[tuple[str, ...]], counts: Mapping[tuple[str, ...], float]) -> Samples:
    """A sample for each possible label, 0 included: ``increase()`` misses the first 1 of a counter that appears with it."""
    return sorted({**dict.fromkeys(labels, 0), **counts}.items())


def _commits(status: Status) -> dict[str, Samples]:
    commits = status["commits"]
    return {
        "cohort_commits_total": [((), commits["commits"])],
        "cohort_commit_failures_total": [((), commits["failures"])],
        "cohort_commit_duration_seconds": [((), commits["durations"])],
        "cohort_last_commit_timestamp_seconds": _without_none([((), commits["last_commit_at"])]),
        "cohort_commit_pending_seconds": [((), commits["pending_ms"] / 1000)],
    }


def _without_none(samples: Samples) -> Samples:
    """The samples with a value: no sample is better than a wrong 0."""
    return [(labels, value) for labels, value in samples if value is not None]


def _logs(status: Status, most: int) -> dict[str, Samples]:
    rows = status["partitions"]
    left_out = len(rows) if len(rows) > most else 0
    own = [] if left_out else rows

    def of_each(key: str) -> Samples:
        return _without_none([((row["topic"], str(row["partition"])), row[key]) for row in own])

    def of_few(key: str, value: Callable[[Any], float] = lambda _: 1.0) -> Samples:
        # Few partitions have a value, and alerts depend on it: these have series also beyond ``most`` partitions.
        shown_rows = own or [row for row in rows if row[key] is not None]
        return [
            ((row["topic"], str(row["partition"])), 0.0 if row[key] is None else value(row[key])) for row in shown_rows
        ]

    def of_topics(key: str, join: Callable[[Iterable[float]], float]) -> Samples:
        by_topic = groupby(rows, key=lambda row: row["topic"])
        return _without_none([((topic,), _joined(key, join, list(topic_rows))) for topic, topic_rows in by_topic])

    return {
        "cohort_group_lag_records": _without_none([((), _joined("lag", sum, rows))]),
        "cohort_group_lag_seconds": _without_none([((), _joined("lag_seconds", max, rows))]),
        "cohort_partition_current_offset": of_each("current_offset"),
        "cohort_partition_log_end_offset": of_each("log_end_offset"),
        "cohort_partition_log_start_offset": of_each("log_start_offset"),
        "cohort_partition_lag_records": of_each("lag"),
        "cohort_partition_lag_seconds": of_each("lag_seconds"),
        "cohort_partition_lead_records": of_each("lead"),
        "cohort_topic_lag_records": of_topics("lag", sum),
        "cohort_topic_lag_seconds": of_topics("lag_seconds", max),
        "cohort_topic_lead_records": of_topics("lead", min),
        "cohort_partition_series_left_out": [((), left_out)],
        "cohort_partition_unreachable": of_few("unreachable"),
        "cohort_partition_late": of_few("late"),
        **{
            f"cohort_partition_open_transaction_{name}": of_few("open_transaction", itemgetter(name))
            for name in ("records", "seconds")
        },
        **_offsets_behind(status["query"]),
    }


def _joined(key: str, join: Callable[[Iterable[float]], float], rows: Sequence[Mapping[str, Any]]) -> float | None:
    numbers = [row[key] for row in rows if row[key] is not None]
    return join(numbers) if numbers else None


def _offsets_behind(query: Mapping[str, Any] | None) -> dict[str, Samples]:
    """The offsets behind latest of Spark's progress events, if a listener reports them."""
    lags = {} if query is None else query["offsets_behind_latest"]
    labels = () if query is None else (query["name"] or query["id"],)
    names = ("min", "max", "avg")
    return {f"cohort_offsets_behind_latest_{name}": [(labels, lags[name])] if lags else [] for name in names}


def _age_s(in_flight: Mapping[str, Any] | None) -> float:
    return 0.0 if in_flight is None or in_flight["may_be_over"] else in_flight["age_ms"] / 1000


def _consumed(status: Status) -> dict[str, Samples]:
    audit, batches = status["audit"], status["batches"]
    last, in_flight = batches["last"] or {}, batches["in_flight"]
    return {
        "cohort_batch_duration_seconds": [((), batches["durations"])],
        "cohort_batch_in_flight_seconds": [((), _age_s(in_flight))],
        **{f"cohort_last_batch_{key}": _without_none([((), last.get(key))]) for key in ("seconds", "records", "bytes")},
        "cohort_records_consumed_total": [
            (("agent",), audit["records_from_agent"]),
            (("direct",), audit["records_direct"]),
        ],
        "cohort_bytes_consumed_total": [(("agent",), audit["bytes_from_agent"]), (("direct",), audit["bytes_direct"])],
        "cohort_malformed_records_total": [
            ((row["topic"], row["reason"]), row["count"]) for row in status["malformed"]
        ],
        "cohort_plans_total": [((), audit["plans"])],
        "cohort_slots_total": [((), audit["slots"])],
        "cohort_ranges_delivered_total": [((), audit["ranges_delivered"])],
        "cohort_ranges_read_again_total": [((), audit["ranges_again"])],
        "cohort_agent_timeouts_total": [((), audit["agent_timeouts"])],
    }


def _written(status: Status) -> dict[str, Samples]:
    writes = status["writes"] or _NOTHING_WRITTEN
    topics, commits = sorted(writes["topics"].items()), writes["commits"]
    return {
        **{
            f"cohort_sink_{name}_total": [((topic,), row[name]) for topic, row in topics]
            for name in ("rows", "bytes", "batches", "retries")
        },
        "cohort_sink_wait_seconds_total": [((), writes["waited_s"])],
        "cohort_sink_task_seconds_total": [((), writes["tasks_s"])],
        "cohort_sink_failed_batches_total": [((), writes["failed_batches"])],
        "cohort_sink_transactions_total": [
            (("committed",), commits["committed"]),
            (("aborted",), commits["aborted"]),
        ],
        "cohort_sink_commit_seconds_total": [((), commits["commit_s"])],
        "cohort_sink_transaction_open_ratio": [((), commits["open_ratio"])],
    }


def _members(status: Status) -> dict[str, Samples]:
    cut_off = Counter(row["member_id"] for row in status["cut_off"])
    # By executor: a member's id has the run's in it, and each restart would make new series.
    rows = [((str(row["executor"]),), row) for row in _latest(status["members"])]
    return {
        "cohort_member_info": [((*labels, str(row["host"])), 1.0) for labels, row in rows],
        "cohort_member_heartbeat_age_seconds": [(labels, row["heartbeat_age_ms"] / 1000) for labels, row in rows],
        "cohort_member_partitions": [(labels, len(row["owned"])) for labels, row in rows],
        "cohort_member_cut_off_partitions": [(labels, cut_off[row["member_id"]]) for labels, row in rows],
        "cohort_throttled_seconds_total": _without_none(
            [((name,), seconds) for name, seconds in sorted(status["throttled"].items())]
        ),
        "cohort_agent_starts_total": sorted(((name,), count) for name, count in status["agent_starts"].items()),
        **{
            f"cohort_member_load_{name}": [(labels, row["load"][key]) for labels, row in rows if row["load"]]
            for name, key in _LOADS.items()
        },
    }


def _latest(members: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """One member for each executor, the one with the latest heartbeat: a replaced one stays in the group for a moment."""
    by_executor: dict[str, Mapping[str, Any]] = {}
    for row in sorted(members, key=lambda member: -member["heartbeat_age_ms"]):
        by_executor[str(row["executor"])] = row
    return [by_executor[name] for name in sorted(by_executor)]
