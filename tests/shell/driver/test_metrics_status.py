"""The status that a live coordinator builds, as metrics and the command use it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from sparkcohort.cli import views
from sparkcohort.runtime.batches.claims import Slot
from sparkcohort.runtime.batches.snapshot import Snapshot
from sparkcohort.runtime.protocol.calls import Delivered
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.messages import (
    CommittedPosition,
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    OffsetCommit,
    ProcessInfo,
    Reply,
    Subscription,
    SyncGroup,
    SyncGroupReply,
)
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.coordinator.coordinator import Coordinator
from sparkcohort.runtime.shell.coordinator.group_settings import GroupSettings
from sparkcohort.runtime.shell.coordinator.plan_registry import PlanRegistry
from sparkcohort.runtime.shell.driver import status
from sparkcohort.runtime.shell.driver.document import Document
from sparkcohort.runtime.shell.driver.flow_meter import FlowMeter
from sparkcohort.runtime.shell.driver.metric_values import values
from sparkcohort.runtime.shell.driver.problems import ProblemWatch
from tests.kit.status import a_status
from tests.kit.waiting import wait_until

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
TOPICS = {"orders": 2}


def ask(coordinator: Coordinator, request: Any) -> Reply:
    """The coordinator's reply."""
    return coordinator.request(request, 20)


@pytest.fixture
def coordinator() -> Iterator[Coordinator]:
    """A coordinator of two partitions with one agent-like member that owns both."""
    settings = GroupSettings("billing", "r1", 1000, 30_000, 3_000, 20_000, ("cooperative-sticky",))
    running = Coordinator(settings, lambda: TOPICS)
    running.start()
    join(running)
    yield running
    running.stop()


def join(coordinator: Coordinator, member_id: str = "") -> None:
    """Enter the group, or enter it again for a rebalance."""
    wants = Subscription(("orders",), process=ProcessInfo("2", "10.0.0.12", 2, 4002))
    request = JoinGroup(member_id, "i", "address", "10.0.0.12", 30_000, 20_000, ("cooperative-sticky",), wants)
    joined = ask(coordinator, request)
    assert isinstance(joined, JoinGroupReply)
    synced = ask(coordinator, SyncGroup(joined.member_id, "i", joined.generation))
    assert isinstance(synced, SyncGroupReply)
    assert (joined.error, synced.error) == (ErrorCode.NONE, ErrorCode.NONE)


def built(coordinator: Coordinator, plans: PlanRegistry | None = None) -> dict[str, Any]:
    """The status, once the rebalance is in it."""
    snapshot = Snapshot(
        ends={ZERO: 150}, unreachable={ONE: "broker 3 does not answer"}, partitions=frozenset({ZERO, ONE})
    )
    made = status.build(
        coordinator,
        plans or PlanRegistry(),
        status.LogView({ZERO: 100}, {ZERO: 120}, snapshot, {ZERO: 30}, {ZERO: 2_500}),
        instance_id="cohort-0a1b2c3d",
        driver=status.DriverFigures(a_status()["commits"]),
        late={ZERO: "its leader is slow"},
    )
    return status.with_problems(made, FlowMeter(), ProblemWatch(), 1_795_000_100.0)


def test_it_is_the_document_of_the_schema(coordinator: Coordinator) -> None:
    """What the page, ``describe()`` and ``cohort describe --whole`` give: of the run, and of the example in tests/kit."""
    for document in (built(coordinator), a_status()):
        msgspec.convert(json.loads(json.dumps(document)), Document)


def test_it_has_the_keys_that_the_tests_of_its_users_assume(coordinator: Coordinator) -> None:
    """The example in tests/kit has every key of the real one, at every level, and no other."""
    real, example = built(coordinator), a_status()
    assert set(real) == set(example)
    for name in ("audit", "rebalance_totals", "commits"):
        assert set(real[name]) == set(example[name])
    for name in ("members", "partitions"):
        assert set(real[name][0]) == set(example[name][0])


def test_it_is_plain_values(coordinator: Coordinator) -> None:
    """It goes through JSON unchanged."""
    real = built(coordinator)
    assert json.loads(json.dumps(real)) == real


def test_it_tells_who_owns_what(coordinator: Coordinator) -> None:
    """The member with what it said of itself, the partitions with their owner, offsets and lag."""
    real = built(coordinator)
    (member,) = real["members"]
    assert [member[name] for name in ("executor", "host", "cores", "pid")] == ["2", "10.0.0.12", 2, 4002]
    assert member["owned"] == [["orders", 0], ["orders", 1]]
    first, second = real["partitions"]
    assert [first[name] for name in ("current_offset", "log_end_offset", "lag", "executor")] == [100, 150, 50, "2"]
    assert [first[name] for name in ("log_start_offset", "lead", "lag_seconds")] == [30, 70, 2.5]
    assert [second[name] for name in ("log_start_offset", "lead", "lag_seconds")] == [None] * 3
    assert (first["late"], second["late"]) == ("its leader is slow", None)
    assert (second["lag"], second["unreachable"]) == (None, "broker 3 does not answer")
    assert [row[:6] for row in views.offsets(real).rows] == [
        ("billing", "orders", 0, 100, 150, 50),
        ("billing", "orders", 1, None, None, None),
    ]


def test_rebalances_are_counted_by_why_they_happened(coordinator: Coordinator) -> None:
    """The driver's own join and the member's are two joins."""
    samples = dict(values(built(coordinator))["cohort_rebalances_total"])
    assert samples["member_joined",] == 2
    assert sum(samples.values()) == 2


def test_a_topic_change_is_its_own_reason(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the coordinator asks for itself falls into its class."""
    monkeypatch.setitem(TOPICS, "orders", 3)
    coordinator.topics_changed()
    (member_id,) = coordinator.members()
    heartbeat = Heartbeat(member_id, "i", coordinator.group.generation)
    began = HeartbeatReply(ErrorCode.REBALANCE_IN_PROGRESS)
    wait_until(lambda: ask(coordinator, heartbeat) == began, 20, "the rebalance to begin")
    join(coordinator, member_id)
    wait_until(
        lambda: built(coordinator)["rebalance_totals"]["by_reason"]["topics_changed"]["count"], 20, "a rebalance"
    )


def test_a_fenced_commit_is_counted(coordinator: Coordinator) -> None:
    """A commit under an old assignment generation shows as refused, by request and error."""
    (member,) = built(coordinator)["members"]
    stale = CommittedPosition("orders", 0, 10, 1)
    ask(coordinator, OffsetCommit(member["member_id"], "i", 1001, (stale,)))
    counted = dict(values(built(coordinator))["cohort_requests_refused_total"])
    assert {labels for labels, count in counted.items() if count} == {("OffsetCommit", "ILLEGAL_GENERATION")}
    assert counted["OffsetCommit", "ILLEGAL_GENERATION"] == 1
    assert counted["Heartbeat", "UNKNOWN_MEMBER_ID"] == 0


def test_what_tasks_report_is_counted_by_path(coordinator: Coordinator) -> None:
    """Records and bytes through the agent and directly; a range read again is not a new one."""
    plans = PlanRegistry()
    plans.register("p", [Slot(None, (Range("orders", 0, 0, 5),))])
    for timed_out in (False, True):
        ranges = (Range("orders", 0, 0, 5),)
        plans.record_report(Delivered("p", "", ranges, (3, 300), (2, 200), (500,), timed_out=timed_out))
    samples = values(built(coordinator, plans))
    assert dict(samples["cohort_records_consumed_total"]) == {("agent",): 6, ("direct",): 4}
    assert dict(samples["cohort_bytes_consumed_total"]) == {("agent",): 600, ("direct",): 400}
    assert samples["cohort_ranges_delivered_total"] == [((), 1)]
    assert samples["cohort_ranges_read_again_total"] == [((), 1)]
    assert samples["cohort_agent_timeouts_total"] == [((), 1)]
