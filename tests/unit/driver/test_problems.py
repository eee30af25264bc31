"""What is wrong, since when, and in whose words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkcohort.runtime.shell.driver.problems import LAST_S, ProblemWatch
from tests.kit.alert_rules import alerts
from tests.kit.scripted_group import ScriptedGroup
from tests.kit.status import IN_FLIGHT, a_cut, a_status

WORDS = json.loads((Path(__file__).resolve().parents[3] / "dashboards/page/runbook.json").read_text())
NOW = 1_795_000_000.0
FLOW = {"in": 0.0, "out": 0.0, "samples": []}
COMMITS = a_status()["commits"]
AUDIT = a_status()["audit"]
WRITES = a_status()["writes"]

WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], float]] = {
    "CohortFenced": ({"fenced": True}, {}, 0),
    "CohortForeignMember": ({"foreign_members": {"found": 1, "present": 1}}, {}, 0),
    "CohortPartitionHeld": ({}, {"unreachable": "broker 3 does not answer"}, 0),
    "CohortPartitionLate": ({}, {"late": "its leader is slow"}, 0),
    "CohortTransactionOpen": ({}, {"open_transaction": {"records": 4, "seconds": 90.0}}, 90),
    "CohortRetentionNear": ({}, {"lead": -5, "lag_seconds": 100}, 0),
    "CohortMemberCutOff": ({"cut_off": [a_cut("m-1", "1", 0)]}, {}, 12),
    "CohortAgentRestarts": ({"agent_starts": {"1": 2}}, {}, 0),
    "CohortGroupNotStable": ({"state": "PreparingRebalance", "state_age_ms": 11_000}, {}, 11),
    "CohortCommitsOld": ({"commits": {**COMMITS, "failures": 0, "pending_ms": 61_000}}, {}, 61),
    "CohortBatchHangs": ({"batches": {"in_flight": IN_FLIGHT}, "flow": FLOW}, {}, 123.4),
    "CohortAssignorFails": ({"assignor_failure": {"error": "mine raised"}}, {}, 0),
    "CohortBadRecords": ({"malformed": [{"topic": "t", "reason": "syntax", "count": 5}]}, {}, 0),
    "CohortCommitsFail": ({"commits": {**COMMITS, "failures": 1, "pending_ms": 0}}, {}, 0),
    "CohortAgentsTimeOut": ({"audit": {**AUDIT, "agent_timeouts": 1}}, {}, 0),
    "CohortSinkFailing": ({"writes": {**WRITES, "failed_batches": 1}}, {}, 0),
    "CohortSinkTransactionsOld": ({"writes": {**WRITES, "commits": {**WRITES["commits"], "open_ratio": 0.6}}}, {}, 0),
    "CohortSinkWaiting": ({"writes": {**WRITES, "last": {"waited_s": 3.0, "tasks_s": 5.0}}}, {"lag_seconds": 61}, 0),
}
NOT_OF_NOW = {"CohortDriverGone", "CohortLagGrows", "CohortRebalancesOften", "CohortMemberFlapping"}
"""The page shows the first itself, and the others as its charts and its time line."""


def document(changes: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """A status that is well but for this."""
    group = ScriptedGroup(2, 4)
    group.changes, group.rows = changes, {0: row}
    return group.status() | changes


@pytest.mark.parametrize("alert", WRONG)
def test_each_thing_that_is_wrong_has_one_row(alert: str) -> None:
    """By its alert, with its age where the status has one, and the runbook's words."""
    changes, row, age_s = WRONG[alert]
    (problem,) = ProblemWatch().rows(document(changes, row), NOW)
    assert problem == {"alert": alert, "text": problem["text"], "began_at": NOW - age_s, **WORDS[alert]}
    assert len(problem["text"]) > 15


def test_every_alert_is_a_problem_or_shown_otherwise() -> None:
    """None is forgotten."""
    assert {alert.name for alert in alerts()} == WRONG.keys() | NOT_OF_NOW == WORDS.keys()


def test_what_lasts_keeps_its_time_and_what_is_over_goes() -> None:
    """Pages come before tickets; an event is shown for ten minutes after its last time."""
    watch, well = ProblemWatch(), document({}, {})
    held = document({}, {"unreachable": "away"})
    bad = [{"topic": "t", "reason": "syntax", "count": 5}]
    assert watch.rows(well, NOW) == []
    watch.rows(held, NOW + 1)
    seen = watch.rows({**held, "malformed": bad}, NOW + 5)
    assert [(row["alert"], row["began_at"]) for row in seen] == [
        ("CohortPartitionHeld", NOW + 1),
        ("CohortBadRecords", NOW + 5),
    ]
    more = [{**bad[0], "count": 6}]
    assert [row["began_at"] for row in watch.rows({**well, "malformed": more}, NOW + 9)] == [NOW + 9]
    assert watch.rows({**well, "malformed": more}, NOW + 9 + LAST_S) == []
