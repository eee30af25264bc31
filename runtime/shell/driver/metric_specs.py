"""Every metric there is, as data: docs/reference/metrics.md, the dashboard and the rules are compared with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric: its name, kind (gauge, counter, histogram), meaning and labels; all have ``group`` as well."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


_PARTITION: Final = ("topic", "partition")
_TOPIC: Final = ("topic",)
_EXECUTOR: Final = ("executor",)
_PROCESS: Final = ("process",)
"""driver (the stream reader's process), or executor- and the executor's id (its agent's)."""


def _gauge(name: str, text: str, *labels: str) -> MetricSpec:
    return MetricSpec(f"cohort_{name}", "gauge", text, labels)


def _counter(name: str, text: str, *labels: str) -> MetricSpec:
    return MetricSpec(f"cohort_{name}_total", "counter", text, labels)


def _histogram(name: str, text: str, *labels: str) -> MetricSpec:
    return MetricSpec(f"cohort_{name}", "histogram", text, labels)


_RUN: Final = (
    _gauge("up", "1 when the coordinator answered this scrape, else 0 and nothing but this"),
    _gauge(
        "build_info", "1; the labels say which versions run on the driver", "version", "python", "pyspark", "librdkafka"
    ),
    _gauge("fenced", "1 once a newer driver has taken the group over, for as long as this one's process lives"),
    _counter(
        "take_overs",
        "Drivers that gave way to this one, by how: handover (it finished its batch), fencing (it still ran)",
        "how",
    ),
    _gauge("process_resident_memory_bytes", "Memory of a process of the query", *_PROCESS),
    _gauge("process_open_fds", "File descriptors that it has open", *_PROCESS),
    _gauge("process_max_fds", "File descriptors that it may open", *_PROCESS),
    _gauge("process_threads", "Threads that it has", *_PROCESS),
    _counter("process_cpu_seconds", "CPU time that it has spent, user and system", *_PROCESS),
    _gauge("process_start_time_seconds", "When it started, in seconds since 1970", *_PROCESS),
)
_GROUP: Final = (
    _gauge("group_state", "1 for the state the group is in, 0 for the others", "state"),
    _gauge("group_generation", "The group's generation; it never goes down"),
    _gauge("group_members", "Live members (agents, one per executor)"),
    _gauge("group_lag_records", "Records that the group has not committed, of all partitions whose lag is known"),
    _gauge(
        "group_lag_seconds", "Age of the oldest record that is not in a committed batch: the largest of all partitions"
    ),
    _counter("rebalances", "Rebalances that ended, by class of reason", "reason"),
    _histogram(
        "rebalance_duration_seconds",
        "Time from the cause of a rebalance to its assignment, by class of reason",
        "reason",
    ),
    _counter("assignor_failures", "Rebalances whose assignor failed, all kept", "assignor"),
    _counter("partitions_moved", "Partitions that a rebalance gave to another member than the one that had them last"),
    _counter("requests_refused", "Fenced or refused requests", "request", "error"),
    _gauge("foreign_members", "Consumers of others that have partitions of this query now"),
    _counter("foreign_members", "Consumers of others found in the Kafka group with partitions of this query"),
)
_COMMITS: Final = (
    _counter("commits", "Commits to the Kafka group that succeeded"),
    _counter("commit_failures", "Commits to the Kafka group that failed"),
    _histogram("commit_duration_seconds", "How long commits to the Kafka group took that succeeded"),
    _gauge("last_commit_timestamp_seconds", "When the Kafka group was last committed to, in seconds since 1970"),
    _gauge(
        "commit_pending_seconds", "For how long a commit has been due that the Kafka group does not have; 0 if none is"
    ),
)
_PARTITIONS: Final = (
    _gauge("partition_current_offset", "Offset committed to the Kafka group", *_PARTITION),
    _gauge("partition_log_end_offset", "Log end offset as last heard", *_PARTITION),
    _gauge("partition_log_start_offset", "Log start offset as last heard", *_PARTITION),
    _gauge("partition_lag_records", "Log end offset less committed offset", *_PARTITION),
    _gauge(
        "partition_lag_seconds",
        "Age of the oldest record that is not in a committed batch, by its timestamp; 0 where none waits",
        *_PARTITION,
    ),
    _gauge(
        "partition_lead_records",
        "Committed offset less log start offset: how far retention is from what was not read",
        *_PARTITION,
    ),
    _gauge("topic_lag_records", "The sum of a topic's partitions", *_TOPIC),
    _gauge("topic_lag_seconds", "The largest of a topic's partitions", *_TOPIC),
    _gauge("topic_lead_records", "The least of a topic's partitions", *_TOPIC),
    _gauge(
        "partition_series_left_out", "Partitions without series of their own: there are more than metrics.partitions"
    ),
    _gauge(
        "offsets_behind_latest_min",
        "Records by which the last batch was behind its logs' ends when it was planned: the least of all partitions "
        "(with a ProgressListener)",
        "query",
    ),
    _gauge("offsets_behind_latest_max", "The same: the most of all partitions", "query"),
    _gauge("offsets_behind_latest_avg", "The same: the average of all partitions", "query"),
    _gauge("partition_unreachable", "1 while the partition's broker does not answer", *_PARTITION),
    _gauge(
        "partition_late",
        "1 while the partition is read only as far as it is fetched, since its leader is slow or throttles",
        *_PARTITION,
    ),
    _gauge(
        "partition_open_transaction_records",
        "Records behind an open transaction that holds the partition up (read_committed); 0 where none does",
        *_PARTITION,
    ),
    _gauge(
        "partition_open_transaction_seconds",
        "For how long, at least, that transaction has held the partition up; 0 where none does",
        *_PARTITION,
    ),
)
_BATCHES: Final = (
    _histogram("batch_duration_seconds", "Time from the plan of a batch to the delivery of its last range"),
    _gauge(
        "batch_in_flight_seconds",
        "For how long Spark has not been through with the batch in flight; 0 where there is none, or where it was delivered and no listener tells its end",
    ),
    _gauge("last_batch_seconds", "The same, of the last batch that was delivered whole"),
    _gauge("last_batch_records", "Records of that batch"),
    _gauge("last_batch_bytes", "Arrow bytes of that batch"),
    _counter("records_consumed", "Records tasks delivered, by path (agent, direct)", "path"),
    _counter("bytes_consumed", "Arrow bytes tasks delivered, by path", "path"),
    _counter(
        "malformed_records",
        "Records whose key or value could not be decoded, each time one was (value.format, key.format)",
        "topic",
        "reason",
    ),
    _counter("plans", "Plans made; Spark may plan a batch more than once"),
    _counter("slots", "Slots planned; a slot is the work of one task"),
    _counter("ranges_delivered", "Ranges delivered for the first time"),
    _counter("ranges_read_again", "Ranges read again: a second action, a retry, a speculation"),
    _counter("agent_timeouts", "Tasks that gave their agent up and went on by themselves"),
)
_SINK: Final = (
    _counter(
        "sink_rows", "Rows that the query has written by Cohort (with the jar), as Kafka acknowledged them", *_TOPIC
    ),
    _counter("sink_bytes", "Bytes of their record batches as they were sent", *_TOPIC),
    _counter("sink_batches", "Their record batches", *_TOPIC),
    _counter("sink_retries", "Record batches that were sent once more", *_TOPIC),
    _counter("sink_wait_seconds", "Time that the tasks which wrote them waited for brokers, summed over tasks"),
    _counter("sink_task_seconds", "Time that these tasks took, reading included"),
    _counter("sink_failed_batches", "Batches of the query that were not written whole: a failure, or a stop amid one"),
    _counter(
        "sink_transactions", "Transactions of an exactly-once sink; aborted: left by attempts and older runs", "result"
    ),
    _counter("sink_commit_seconds", "Time that the commits of its batches took"),
    _gauge("sink_transaction_open_ratio", "Age of the last batch's oldest transaction at its commit, of its time-out"),
)
_MEMBERS: Final = (
    _gauge("member_info", "1 for each live member; the labels say where it is", "executor", "host"),
    _gauge("member_heartbeat_age_seconds", "Time since a member was last heard of", *_EXECUTOR),
    _gauge("member_partitions", "Partitions a member owns", *_EXECUTOR),
    _gauge(
        "member_cut_off_partitions",
        "Partitions whose leaders the member's executor does not reach, while the driver does; others own and read them",
        *_EXECUTOR,
    ),
    _gauge(
        "member_load_share",
        "Part of the whole load that a member carries (load-balanced): 1 / members where all carry the same",
        *_EXECUTOR,
    ),
    _gauge("member_load_records", "Records per second of a member's partitions (load-balanced)", *_EXECUTOR),
    _gauge("member_load_bytes", "Bytes per second of a member's partitions (load-balanced)", *_EXECUTOR),
    _gauge(
        "member_load_backlog",
        "Records that a member's partitions have yet to give, as it sees them (load-balanced)",
        *_EXECUTOR,
    ),
    _counter(
        "throttled_seconds",
        "Time for which brokers asked an executor's agent to wait, by quota: summed over brokers; none where librdkafka fetches",
        *_EXECUTOR,
    ),
    _counter("agent_starts", "Agents that joined for an executor; a second one is a restart", *_EXECUTOR),
)
METRICS: Final = (*_RUN, *_GROUP, *_COMMITS, *_PARTITIONS, *_BATCHES, *_SINK, *_MEMBERS)
COHORT_UP: Final = METRICS[0]
