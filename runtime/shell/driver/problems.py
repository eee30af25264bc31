"""What is wrong with a run now, a row each, in the runbook's words (docs/operate/on-call.md): the page shows it first.

A row is named by the alert that fires when it lasts.  The limits are lower than the alerts': who looks wants to see it begin.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from sparkcohort import dashboards
from sparkcohort.runtime.group.summary import ranges
from sparkcohort.runtime.group.table import GroupState
from sparkcohort.runtime.text import counted

Status = Mapping[str, Any]
LAST_S: Final = 600.0
"""How long an event that is counted is shown after its last time."""
UNSTABLE_MS, OVERDUE_MS, HANGING_MS, OLD_S = 10_000, 60_000, 60_000, 60
NEAR_TIMEOUT: Final = 0.5
"""Of a sink's transactions, how much of their time-out has passed."""


class Finding(NamedTuple):
    """One thing that is wrong; ``age_s`` None: as long as it has been seen.  ``events`` counts what was over at once."""

    alert: str
    subject: str
    words: str
    age_s: float | None = None
    events: int | None = None


@cache
def _runbook() -> dict[str, dict[str, str]]:
    runbook: dict[str, dict[str, str]] = json.loads(dashboards.text(dashboards.RUNBOOK_WORDS))
    return runbook


class ProblemWatch:
    """Remembers since when each thing has been wrong; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._beginnings: dict[
            tuple[str, str], tuple[float, int | None]
        ] = {}  # first seen at, or last counted at and the count

    def rows(self, status: Status, now: float) -> list[dict[str, Any]]:
        """What is wrong, pages before tickets; ``now`` in seconds since 1970."""
        order, rows = {"page": 0, "ticket": 1}, []
        with self._lock:
            former, self._beginnings = self._beginnings, {}
            for finding in _findings(status):
                key = finding.alert, finding.subject
                began, count = former.get(key, (now, finding.events))
                began = began if count == finding.events else now
                self._beginnings[key] = began, finding.events
                if finding.events is None or now - began < LAST_S:
                    began = began if finding.age_s is None else now - finding.age_s
                    rows.append(
                        {"alert": finding.alert, "text": finding.words, "began_at": began, **_runbook()[finding.alert]}
                    )
        return sorted(rows, key=lambda row: order[row["severity"]])


def _findings(status: Status) -> Iterator[Finding]:
    if status["fenced"]:
        yield Finding("CohortFenced", "", "A newer driver has taken the group over: this query ends.")
    if fencings := status["take_overs"]["fencing"]:
        yield Finding(
            "CohortFenced", "older", "This driver took the group from another one that still ran.", None, fencings
        )
    if present := status["foreign_members"]["present"]:
        yield Finding("CohortForeignMember", "", f"{counted(present, 'foreign consumer')} in the Kafka group.")
    yield from _partitions(status["partitions"])
    yield from _members(status)
    yield from _group(status)
    yield from _writes(status)
    yield from _events(status)


def _partitions(rows: list[Mapping[str, Any]]) -> Iterator[Finding]:
    texts = {"unreachable": ("CohortPartitionHeld", "held"), "late": ("CohortPartitionLate", "late")}
    for key, (alert, word) in texts.items():
        by_reason: dict[str, list[tuple[str, int]]] = {}
        for row in rows:
            if row[key] is not None:
                by_reason.setdefault(row[key], []).append((row["topic"], row["partition"]))
        for reason, partitions in sorted(by_reason.items()):
            yield Finding(alert, str(partitions[0]), f"{ranges(partitions)} {word}: {reason}")
    if rows_open := [row for row in rows if row["open_transaction"]]:
        age_s = max(row["open_transaction"]["seconds"] for row in rows_open)
        names = ranges((row["topic"], row["partition"]) for row in rows_open)
        yield Finding("CohortTransactionOpen", "", f"{names} held by an open transaction.", age_s)
    passed = [row for row in rows if (row["lead"] or 0) < 0 and (row["lag_seconds"] or 0) > OLD_S]
    if passed:
        names = ranges((row["topic"], row["partition"]) for row in passed)
        yield Finding("CohortRetentionNear", "", f"Retention has taken records of {names} that were not read.")


def _members(status: Status) -> Iterator[Finding]:
    by_executor: dict[str, list[Mapping[str, Any]]] = {}
    for row in status["cut_off"]:
        by_executor.setdefault(f"executor-{row['executor']} on {row['host']}", []).append(row)
    for member, rows in sorted(by_executor.items()):
        names = ranges((row["topic"], row["partition"]) for row in rows)
        age_s = max(row["age_ms"] for row in rows) / 1000
        yield Finding("CohortMemberCutOff", member, f"{member} can't fetch {names}: {rows[0]['why']}", age_s)
    for executor, starts in status["agent_starts"].items():
        if starts > 1:
            words = f"The agent of executor-{executor} was started again ({starts - 1} so far)."
            yield Finding("CohortAgentRestarts", executor, words, None, starts)


def _group(status: Status) -> Iterator[Finding]:
    restless = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.DEAD)
    if status["state"] in restless and status["state_age_ms"] > UNSTABLE_MS:
        missing = [row["client_id"] or row["member_id"] for row in (status["rebalance"] or {"missing": ()})["missing"]]
        waits = f", waits for {', '.join(missing)}" if missing else ""
        yield Finding(
            "CohortGroupNotStable", "", f"The group is {status['state']}{waits}.", status["state_age_ms"] / 1000
        )
    if (overdue_ms := status["commits"]["pending_ms"]) > OVERDUE_MS:
        yield Finding("CohortCommitsOld", "", "A commit to the Kafka group is overdue.", overdue_ms / 1000)
    batch, lagging = status["batches"]["in_flight"], any(row["lag"] for row in status["partitions"])
    idle = batch is not None and not batch["may_be_over"] and status["flow"]["out"] == 0
    if idle and lagging and batch["age_ms"] > HANGING_MS:
        words = f"The batch in flight delivers nothing; it waits for {batch['waits_for']}."
        yield Finding("CohortBatchHangs", "", words, batch["age_ms"] / 1000)
    if failure := status["assignor_failure"]:
        yield Finding("CohortAssignorFails", "", f"{failure['error']}; every member keeps its partitions.")


def _writes(status: Status) -> Iterator[Finding]:
    if (writes := status["writes"]) is None:
        return
    if failed := writes["failed_batches"]:
        words = f"Batches that were not written whole, since they failed or the query was stopped: {failed:,} so far."
        yield Finding("CohortSinkFailing", "", words, None, failed)
    last, behind_s = writes["last"], max((row["lag_seconds"] or 0 for row in status["partitions"]), default=0)
    if last["waited_s"] > last["tasks_s"] / 2 and behind_s > OLD_S:
        words = f"The tasks of the last batch waited {last['waited_s']:.1f} s of {last['tasks_s']:.1f} s for brokers."
        yield Finding("CohortSinkWaiting", "", words)
    if (ratio := writes["commits"]["open_ratio"]) > NEAR_TIMEOUT:
        words = f"The last batch's transactions were open for {ratio:.0%} of kafka.transaction.timeout.ms."
        yield Finding("CohortSinkTransactionsOld", "", words)


def _events(status: Status) -> Iterator[Finding]:
    for row in status["malformed"]:
        if row["count"]:
            words = f"{counted(row['count'], 'record')} of {row['topic']} so far could not be decoded: {row['reason']}."
            yield Finding("CohortBadRecords", f"{row['topic']} {row['reason']}", words, None, row["count"])
    if failures := status["commits"]["failures"]:
        yield Finding("CohortCommitsFail", "", f"{counted(failures, 'commit')} so far failed.", None, failures)
    if timeouts := status["audit"]["agent_timeouts"]:
        words = f"{counted(timeouts, 'task')} so far gave an agent up and read from Kafka."
        yield Finding("CohortAgentsTimeOut", "", words, None, timeouts)
