"""What the dashboard shows first, row by row: queries, sentences, limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SELECTED: Final = 'job=~"$job", instance=~"$instance", group=~"$group"'
REMEMBERED: Final = "6h"
"""For how long a group whose driver is gone is shown as such."""

Limits = tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression, and how its series are named."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: ``thresholds`` are (from this value on, colour), ``mappings`` are (value, text, colour)."""

    kind: str
    title: str
    description: str
    queries: tuple[Query, ...]
    thresholds: Limits = ()
    mappings: tuple[tuple[int, str, str], ...] = ()
    base: str = "green"


def gone(value: int) -> str:
    """This value for each group whose driver answered within ``REMEMBERED``: what stands in for what isn't there now."""
    return f"{value} + 0 * max by (job, group) (last_over_time(cohort_up{{{SELECTED}}}[{REMEMBERED}]))"


def stat(title: str, description: str, expr: str, thresholds: Limits = (), *, base: str = "green") -> Panel:
    """One figure of now for each group, and -1, in red, where the driver is gone."""
    # A range query would show the last value of its range for as long as the range is; an instant one sees that a
    # scrape failed, since that makes the series stale at once.
    query = Query(f"{expr} or {gone(-1)}", "{{group}}")
    return Panel("stat", title, description, (query,), thresholds, base=base)


def gauge(
    title: str, description: str, name: str, *labels: str, thresholds: Limits = (), most: str = "max", base: str = ""
) -> Panel:
    """The largest value of a gauge (``most``: or its sum, its least) by these labels; ``base``: its colour below all limits."""
    expr = f"{most} by ({', '.join(('group', *labels))}) ({name}{{{SELECTED}}})"
    base = base or _base(thresholds)
    return Panel("timeseries", title, description, (Query(expr, _legend(labels)),), thresholds, base=base)


def counter(title: str, description: str, name: str, *labels: str, thresholds: Limits = ()) -> Panel:
    """The rate of a counter by these labels."""
    expr = f"sum by ({', '.join(('group', *labels))}) (rate({name}{{{SELECTED}}}[$__rate_interval]))"
    return Panel("timeseries", title, description, (Query(expr, _legend(labels)),), thresholds, base=_base(thresholds))


def histogram(title: str, description: str, name: str, *labels: str, thresholds: Limits = ()) -> Panel:
    """The median and the 99th percentile of a histogram by these labels."""
    by = ", ".join(("group", *labels, "le"))
    queries = tuple(
        Query(
            f"histogram_quantile({part}, sum by ({by}) (rate({name}_bucket{{{SELECTED}}}[$__rate_interval])))",
            f"{_legend(labels)} {words}",
        )
        for part, words in ((0.5, "median"), (0.99, "99 %"))
    )
    return Panel("timeseries", title, description, queries, thresholds, base=_base(thresholds))


def _legend(labels: tuple[str, ...]) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in ("group", *labels))


def _base(thresholds: Limits) -> str:
    return "green" if thresholds else "blue"


def _largest(name: str, most: str = "max") -> str:
    return f"{most} by (job, group) ({name}{{{SELECTED}}})"


STATES: Final = (("Stable", 1), ("Empty", 2), ("CompletingRebalance", 3), ("PreparingRebalance", 4), ("Dead", 5))
# Two drivers of one group, in a hand-over, may be in two states: the largest number is the one to look at.
STATE_QUERY: Final = (
    "max by (job, group) ("
    + " or ".join(f'{code} * (cohort_group_state{{{SELECTED}, state="{name}"}} == 1)' for name, code in STATES)
    + f") or {gone(0)}"
)

_NOW: Final = (
    Panel(
        "stat",
        "Driver",
        "Whether the query's driver answers Prometheus; gone for six hours after it has ceased to.",
        (Query(f"{_largest('cohort_up')} or {gone(0)}", "{{group}}"),),
        ((1, "green"),),
        ((0, "gone", "red"), (1, "up", "green")),
        base="red",
    ),
    Panel(
        "stat",
        "State",
        "The state the group is in; PreparingRebalance for minutes means that members come and go.",
        (Query(STATE_QUERY, "{{group}}"),),
        ((1, "green"), (2, "yellow"), (5, "red")),
        (
            (0, "driver gone", "red"),
            (1, "Stable", "green"),
            (2, "Empty", "yellow"),
            (3, "CompletingRebalance", "yellow"),
            (4, "PreparingRebalance", "yellow"),
            (5, "Dead", "red"),
        ),
        base="red",
    ),
    stat(
        "Lag in time",
        "Age of the oldest record that is not yet in a committed batch.",
        _largest("cohort_group_lag_seconds"),
        ((60, "yellow"), (300, "red")),
    ),
    stat(
        "Lag in records",
        "Records between the committed offsets and the ends of the logs.",
        _largest("cohort_group_lag_records"),
        ((1_000_000, "yellow"),),
    ),
    stat(
        "Commit due for",
        "For how long a position has been due in the Kafka group and is not there yet.",
        _largest("cohort_commit_pending_seconds"),
        ((60, "yellow"), (300, "red")),
    ),
    stat(
        "Members",
        "Agents in the group: one for each executor that reads.",
        _largest("cohort_group_members"),
        ((1, "green"),),
        base="yellow",
    ),
    stat(
        "Held partitions",
        "Partitions whose broker does not answer; they wait, the others go on.",
        _largest("cohort_partition_unreachable", "sum"),
        ((1, "red"),),
    ),
    stat(
        "Late partitions",
        "Partitions that are read only as far as they are fetched, since their leader is slow or throttles.",
        _largest("cohort_partition_late", "sum"),
        ((1, "yellow"),),
    ),
    stat(
        "Foreign members",
        "Consumers of others in the Kafka group; the query ends if they stay.",
        _largest("cohort_foreign_members"),
        ((1, "red"),),
    ),
    stat(
        "Drivers fenced",
        "Drivers that still ran when the one of now took the group over.",
        f'max by (job, group) (cohort_take_overs_total{{{SELECTED}, how="fencing"}})',
        ((1, "red"),),
    ),
    stat("Generation", "The group's generation; it never goes down.", _largest("cohort_group_generation"), base="blue"),
    stat(
        "Last commit",
        "Time since the last commit to the Kafka group; without new records there is none.",
        f"time() - {_largest('cohort_last_commit_timestamp_seconds')}",
        base="blue",
    ),
)

_LAG: Final = (
    gauge(
        "Lag in time by topic",
        "Age of the oldest record that is not yet in a committed batch: largest of the topic's partitions.",
        "cohort_topic_lag_seconds",
        "topic",
        thresholds=((300, "red"),),
    ),
    gauge(
        "Lag in records by topic",
        "Records between committed offsets and ends of logs.",
        "cohort_topic_lag_records",
        "topic",
        thresholds=((1_000_000, "yellow"),),
    ),
    gauge(
        "Records before the log's start by topic",
        "Committed offset less start of the log, least of the topic's partitions: at 0 and with lag, retention has taken "
        "records that were not read.",
        "cohort_topic_lead_records",
        "topic",
        most="min",
        thresholds=((1, "green"),),
        base="red",
    ),
    Panel(
        "timeseries",
        "The ten partitions most behind",
        "Age of the oldest record that is not yet in a committed batch.",
        (
            Query(
                f"topk(10, max by (group, topic, partition) (cohort_partition_lag_seconds{{{SELECTED}}}))",
                "{{group}} {{topic}}-{{partition}}",
            ),
        ),
        ((300, "red"),),
    ),
    counter(
        "Records read", "Records that tasks delivered: from agents, or direct.", "cohort_records_consumed_total", "path"
    ),
    counter("Bytes read", "Arrow bytes that tasks delivered, by path.", "cohort_bytes_consumed_total", "path"),
    counter(
        "Bad records",
        "Records whose key or value could not be decoded, each time one was; by default their columns are null.",
        "cohort_malformed_records_total",
        "topic",
        "reason",
        thresholds=((0.001, "red"),),
    ),
)

_BATCHES: Final = (
    histogram(
        "Batch duration",
        "From the plan of a batch to the delivery of its last range; what a sink does after that is not in it.",
        "cohort_batch_duration_seconds",
        thresholds=((60, "yellow"),),
    ),
    gauge("Records of the last batch", "How much one batch reads.", "cohort_last_batch_records"),
    gauge("Bytes of the last batch", "How much one batch reads.", "cohort_last_batch_bytes"),
    histogram(
        "Commit duration",
        "Time that a commit to Kafka takes.",
        "cohort_commit_duration_seconds",
        thresholds=((5, "yellow"),),
    ),
    counter(
        "Failed commits",
        "Commits to the Kafka group that failed; no record is lost by it, the checkpoint counts.",
        "cohort_commit_failures_total",
        thresholds=((0.001, "red"),),
    ),
    counter(
        "Ranges read again",
        "A second action on a batch, a retried task, or speculation.",
        "cohort_ranges_read_again_total",
    ),
)

_GROUP: Final = (
    counter(
        "Rebalances",
        "Rebalances that ended, by class of reason.",
        "cohort_rebalances_total",
        "reason",
        thresholds=((0.01, "yellow"),),
    ),
    histogram(
        "Rebalance duration",
        "From the cause of a rebalance to its assignment.",
        "cohort_rebalance_duration_seconds",
        thresholds=((10, "yellow"),),
    ),
    gauge("Partitions by executor", "Who owns how many partitions.", "cohort_member_partitions", "executor"),
    gauge(
        "Heartbeat age by executor",
        "Time since an executor's agent was last heard of.",
        "cohort_member_heartbeat_age_seconds",
        "executor",
        thresholds=((10, "yellow"), (45, "red")),
    ),
    gauge(
        "Agents started by executor",
        "Agents that joined for an executor; a second one is a restart.",
        "cohort_agent_starts_total",
        "executor",
        thresholds=((2, "yellow"),),
    ),
    gauge(
        "Partitions out of reach by executor",
        "Partitions whose leaders an executor does not reach, while the driver does.",
        "cohort_member_cut_off_partitions",
        "executor",
        thresholds=((1, "red"),),
    ),
)

ROWS: Final = (
    ("Now", _NOW),
    ("Lag and throughput", _LAG),
    ("Batches and commits", _BATCHES),
    ("The group", _GROUP),
)
"""The rows in their order: a title, and panels."""
