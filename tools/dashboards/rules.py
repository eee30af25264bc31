"""The rules for Prometheus, made from the tables below: ``dashboards/rules/cohort.yml`` is ``rules_file()``.

Each alert is about one group of one job.  A counter is compared by its growth (``grown``), so an alert fires the first time.  docs/operate/on-call.md has a paragraph for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sparkcohort.dashboards import EVERY_GROUP as G
from sparkcohort.dashboards import RUNBOOK

RULES_BY: Final = "job, group"
REMEMBERED: Final = "6h"
"""For how long a driver that is gone is missed."""

HEAD: Final = "# Made by `python -m tests.kit.pages` from tools/dashboards/rules.py.\n"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert: ``wait`` is Prometheus' ``for``; ``severity`` is page (now) or ticket (today)."""

    name: str
    severity: str
    wait: str
    expr: str
    summary: str
    description: str


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """A query that is kept under a name, by job and group."""

    name: str
    expr: str
    meaning: str


RECORDINGS: Final = (
    RecordingRule(
        "job_group:cohort_up:max",
        f"max by ({RULES_BY}) (cohort_up{{{G}}}) or 0 * max by ({RULES_BY}) (last_over_time(cohort_up{{{G}}}[{REMEMBERED}]))",
        "1 while a driver of the group answers; 0 for six hours after it has ceased to",
    ),
    RecordingRule(
        "job_group:cohort_group_lag_seconds:max",
        f"max by ({RULES_BY}) (cohort_group_lag_seconds{{{G}}})",
        "age of the group's oldest record that is not yet in a committed batch",
    ),
    RecordingRule(
        "job_group:cohort_group_lag_records:max",
        f"max by ({RULES_BY}) (cohort_group_lag_records{{{G}}})",
        "records that the group has yet to read",
    ),
    RecordingRule(
        "job_group:cohort_records_consumed:rate5m",
        f"sum by ({RULES_BY}) (rate(cohort_records_consumed_total{{{G}}}[5m]))",
        "records read each second",
    ),
    RecordingRule(
        "job_group:cohort_rebalances:increase30m",
        f"sum by ({RULES_BY}) (increase(cohort_rebalances_total{{{G}}}[30m]))",
        "rebalances of the last half hour",
    ),
)


def grown(counter: str, selected: str, minutes: int) -> str:
    """The series of a counter that have grown within so many minutes; ``selected``: how series of the same group are chosen.

    What a new driver has counted before its first scrape is growth, too: ``increase`` does not see that.
    """
    young = f'time() - cohort_process_start_time_seconds{{{selected}, process="driver"}} < {60 * minutes}'
    return f"(increase({counter}[{minutes}m]) > 0 or {counter} > 0 and on ({RULES_BY}, instance) {young})"


_IN_MOVE: Final = f'cohort_group_state{{{G}, state=~"PreparingRebalance|CompletingRebalance|Dead"}}'
# A query that starts where the log begins has no lead, and is in no danger while the log's start stays where it is.
_DANGER: Final = (
    f"(cohort_partition_lead_records{{{G}}} < 0"
    f" or (cohort_partition_lead_records{{{G}}} == 0 or predict_linear(cohort_partition_lead_records{{{G}}}[30m], 3600) < 0)"
    f" and on ({RULES_BY}, instance, topic, partition) changes(cohort_partition_log_start_offset{{{G}}}[30m]) > 0)"
    f" and on ({RULES_BY}, instance, topic, partition) cohort_partition_lag_seconds{{{G}}} > 60"
)
# Above metrics.partitions a topic stands for its partitions: coarser, and better than nothing.
_TOPIC_DANGER: Final = (
    f"(cohort_topic_lead_records{{{G}}} < 0 or predict_linear(cohort_topic_lead_records{{{G}}}[30m], 3600) < 0)"
    f" and on ({RULES_BY}, instance, topic) cohort_topic_lag_seconds{{{G}}} > 60"
    f" and on ({RULES_BY}, instance) cohort_partition_series_left_out{{{G}}} > 0"
)

# Told by the driver that goes on: the one that is fenced ends within a second, and no scrape comes in between.
_FENCINGS: Final = f'cohort_take_overs_total{{{G}, how="fencing"}}'

ALERTS: Final = (
    Alert(
        "CohortDriverGone",
        "page",
        "2m",
        "job_group:cohort_up:max < 1",
        "The driver of group {{ $labels.group }} is gone.",
        "No driver of group {{ $labels.group }} (job {{ $labels.job }}) has answered Prometheus for two minutes. Nothing is "
        "read until one does.",
    ),
    Alert(
        "CohortGroupNotStable",
        "page",
        "5m",
        f"max by ({RULES_BY}) (sum by ({RULES_BY}, instance) (avg_over_time({_IN_MOVE}[5m]))) > 0.5",
        "Group {{ $labels.group }} does not come to rest.",
        "For five minutes and more group {{ $labels.group }} was rebalancing or dead more than half of the time.",
    ),
    Alert(
        "CohortLagGrows",
        "page",
        "10m",
        "job_group:cohort_group_lag_seconds:max > 300 and deriv(job_group:cohort_group_lag_seconds:max[15m]) > -0.1",
        "Group {{ $labels.group }} is more than five minutes behind and does not catch up.",
        "The oldest record that group {{ $labels.group }} has not committed is older than five minutes, and the lag does "
        "not fall.",
    ),
    Alert(
        "CohortBatchHangs",
        "page",
        "5m",
        # A batch of many minutes that delivers records does not hang.
        f"max by ({RULES_BY}) (cohort_batch_in_flight_seconds{{{G}}}) > 60 and job_group:cohort_group_lag_records:max > 0 "
        f"unless sum by ({RULES_BY}) (increase(cohort_records_consumed_total{{{G}}}[2m])) > 0",
        "A batch of group {{ $labels.group }} hangs.",
        "For more than five minutes no batch of group {{ $labels.group }} has ended and no record was delivered, while records wait. "
        "`cohort describe` says what the batch in flight waits for.",
    ),
    Alert(
        "CohortPartitionHeld",
        "page",
        "5m",
        f"sum by ({RULES_BY}, topic) (cohort_partition_unreachable{{{G}}}) > 0",
        "Group {{ $labels.group }} cannot read partitions of {{ $labels.topic }}.",
        "For five minutes the broker of a partition of {{ $labels.topic }} has not answered. The partition is held, the "
        "others go on.",
    ),
    Alert(
        "CohortPartitionLate",
        "ticket",
        "15m",
        f"sum by ({RULES_BY}, topic) (cohort_partition_late{{{G}}}) > 0",
        "Partitions of {{ $labels.topic }} come late in group {{ $labels.group }}.",
        "For fifteen minutes a leader of {{ $labels.topic }} has been slow or has throttled. Its partitions are read only as "
        "far as they are fetched.",
    ),
    Alert(
        "CohortTransactionOpen",
        "page",
        "5m",
        f"max by ({RULES_BY}, topic) (cohort_partition_open_transaction_seconds{{{G}}}) > 60",
        "An open transaction holds {{ $labels.topic }} up in group {{ $labels.group }}.",
        "For five minutes the last stable offset of a partition of {{ $labels.topic }} has not moved: a producer has left a "
        "transaction open, or its transactions take minutes. What comes after it is not read, and does not count as lag.",
    ),
    Alert(
        "CohortRetentionNear",
        "page",
        "5m",
        f"max by ({RULES_BY}, topic) ({_DANGER} or {_TOPIC_DANGER})",
        "Retention is about to take records of {{ $labels.topic }} that group {{ $labels.group }} has not read.",
        "At this pace the start of the log passes the position of group {{ $labels.group }} in {{ $labels.topic }} within an "
        "hour, or it already has.",
    ),
    Alert(
        "CohortBadRecords",
        "ticket",
        "0m",
        f"sum by ({RULES_BY}, topic, reason) (increase(cohort_malformed_records_total{{{G}}}[10m])) > 0",
        "Records of {{ $labels.topic }} can't be decoded in group {{ $labels.group }}: {{ $labels.reason }}.",
        "Within ten minutes records of {{ $labels.topic }} could not be decoded ({{ $labels.reason }}). Their columns are null, "
        "unless the query drops them or fails.",
    ),
    Alert(
        "CohortCommitsFail",
        "ticket",
        "0m",
        f"sum by ({RULES_BY}) {grown(f'cohort_commit_failures_total{{{G}}}', G, 10)} > 0",
        "Commits of group {{ $labels.group }} to Kafka fail.",
        "Within ten minutes a commit of group {{ $labels.group }} failed. No record is lost: the checkpoint counts. Tools "
        "that look at Kafka see an old position.",
    ),
    Alert(
        "CohortCommitsOld",
        "page",
        "2m",
        f"max by ({RULES_BY}) (cohort_commit_pending_seconds{{{G}}}) > 300",
        "The position of group {{ $labels.group }} in Kafka is old.",
        "A position of group {{ $labels.group }} has been due in Kafka for more than five minutes and is not there.",
    ),
    Alert(
        "CohortRebalancesOften",
        "ticket",
        "0m",
        "job_group:cohort_rebalances:increase30m > 20",
        "Group {{ $labels.group }} rebalances too often.",
        "Group {{ $labels.group }} had more than 20 rebalances within half an hour: executors come and go.",
    ),
    Alert(
        "CohortMemberFlapping",
        "ticket",
        "0m",
        f"sum by ({RULES_BY}) (increase(cohort_rebalances_total{{{G}, "
        'reason=~"member_expired|sync_expired"}[30m])) > 2',
        "Members of group {{ $labels.group }} fall out and come back.",
        "Within half an hour members of group {{ $labels.group }} were given up three times, since they were not heard of "
        "or did not sync.",
    ),
    Alert(
        "CohortFenced",
        "page",
        "0m",
        f"sum by ({RULES_BY}) {grown(_FENCINGS, G, 10)} > 0",
        "Two drivers ran group {{ $labels.group }}.",
        "A newer driver took group {{ $labels.group }} over while the older one still ran, and fenced it. Unless this is a "
        "deploy, the job was started twice.",
    ),
    Alert(
        "CohortForeignMember",
        "page",
        "0m",
        f"max by ({RULES_BY}) (cohort_foreign_members{{{G}}}) > 0"
        f" or sum by ({RULES_BY}) {grown(f'cohort_foreign_members_total{{{G}}}', G, 3)} > 0",
        "A consumer of somebody else is in group {{ $labels.group }}.",
        "Another consumer takes partitions of group {{ $labels.group }}. If it stays, the query ends with an error that "
        "names it.",
    ),
    Alert(
        "CohortAgentRestarts",
        "ticket",
        "0m",
        # An executor that is new begins at 1; ids begin anew with a new driver.
        f"sum by ({RULES_BY}, executor) {grown(f'cohort_agent_starts_total{{{G}}}', G, 30)} > 0.5"
        f" and on ({RULES_BY}, executor) cohort_agent_starts_total{{{G}}} > 1",
        "The agent of executor-{{ $labels.executor }} in group {{ $labels.group }} was started again.",
        "Within half an hour executor-{{ $labels.executor }} of group {{ $labels.group }} had a new agent: the one before "
        "it died.",
    ),
    Alert(
        "CohortMemberCutOff",
        "ticket",
        "5m",
        f"max by ({RULES_BY}, executor) (cohort_member_cut_off_partitions{{{G}}}) > 0",
        "Member executor-{{ $labels.executor }} of group {{ $labels.group }} does not reach all brokers.",
        "For five minutes executor-{{ $labels.executor }} has not reached leaders that the driver reaches. Others read its "
        "partitions.",
    ),
    Alert(
        "CohortAssignorFails",
        "ticket",
        "0m",
        f"sum by ({RULES_BY}, assignor) {grown(f'cohort_assignor_failures_total{{{G}}}', G, 10)} > 0",
        "The assignor {{ $labels.assignor }} of group {{ $labels.group }} fails.",
        "Within ten minutes the assignor {{ $labels.assignor }} failed. Everybody keeps what they have.",
    ),
    Alert(
        "CohortAgentsTimeOut",
        "ticket",
        "0m",
        f"sum by ({RULES_BY}) {grown(f'cohort_agent_timeouts_total{{{G}}}', G, 10)} > 0",
        "Agents of group {{ $labels.group }} do not answer their tasks.",
        "Within ten minutes a task of group {{ $labels.group }} gave its agent up and read from Kafka itself.",
    ),
)
"""Every alert; docs/operate/monitoring.md has them as a table."""


def rules_file() -> str:
    """The file as Prometheus loads it."""
    lines = [HEAD.rstrip(), "groups:", "  - name: cohort-recordings", "    rules:"]
    for each in RECORDINGS:
        lines += [f"      # {each.meaning}", f"      - record: {each.name}", f"        expr: {_quoted(each.expr)}"]
    lines += ["  - name: cohort-alerts", "    rules:"]
    for alert in ALERTS:
        lines += [f"      - alert: {alert.name}", f"        expr: {_quoted(alert.expr)}", f"        for: {alert.wait}"]
        lines += ["        labels:", f"          severity: {alert.severity}", "        annotations:"]
        notes = {"summary": alert.summary, "description": alert.description}
        lines += [f"          {key}: {_quoted(text)}" for key, text in notes.items()]
        lines += [f"          {RUNBOOK}#{alert.name.lower()}'"]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A YAML string in single quotes, in which nothing but the quote itself has a meaning."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
