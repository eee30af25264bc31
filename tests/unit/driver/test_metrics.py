"""The status in Prometheus' words, and everything that is compared with the table of metrics."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.reasons import LABELS, Cause, Reason
from sparkcohort.runtime.shell.coordinator.totals import (
    REFUSALS,
    REFUSED_REQUESTS,
    RebalanceTotals,
)
from sparkcohort.runtime.shell.driver.metric_specs import METRICS
from sparkcohort.runtime.shell.driver.metric_values import values
from sparkcohort.runtime.shell.driver.metrics import StatusCollector
from tests.kit.group_desk import DESKS, beat, commit, join, leave, sync
from tests.kit.status import IN_FLIGHT, a_partition, a_status

ROOT = Path(__file__).resolve().parents[3]


def exposition(status: dict[str, Any]) -> list[str]:
    """The lines of a scrape."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatusCollector(lambda: status))
    return generate_latest(registry).decode().splitlines()


SCRAPE = """
cohort_up{group="billing"} 1.0
cohort_group_state{group="billing",state="Stable"} 1.0
cohort_group_generation{group="billing"} 7.0
cohort_group_members{group="billing"} 2.0
cohort_rebalances_total{group="billing",reason="member_joined"} 1.0
cohort_rebalance_duration_seconds_bucket{group="billing",le="0.025",reason="member_joined"} 1.0
cohort_rebalance_duration_seconds_sum{group="billing",reason="member_expired"} 0.7
cohort_rebalance_duration_seconds_count{group="billing",reason="topics_changed"} 0.0
cohort_commit_duration_seconds_bucket{group="billing",le="0.05"} 1.0
cohort_last_commit_timestamp_seconds{group="billing"} 1.7950000005e+09
cohort_commit_pending_seconds{group="billing"} 1.5
cohort_foreign_members_total{group="billing"} 3.0
cohort_foreign_members{group="billing"} 1.0
cohort_fenced{group="billing"} 0.0
cohort_take_overs_total{group="billing",how="fencing"} 1.0
cohort_group_lag_records{group="billing"} 50.0
cohort_group_lag_seconds{group="billing"} 7.5
cohort_topic_lag_records{group="billing",topic="orders"} 50.0
cohort_topic_lead_records{group="billing",topic="orders"} 60.0
cohort_partition_lag_seconds{group="billing",partition="0",topic="orders"} 7.5
cohort_partition_lead_records{group="billing",partition="0",topic="orders"} 60.0
cohort_partition_log_start_offset{group="billing",partition="0",topic="orders"} 40.0
cohort_partition_series_left_out{group="billing"} 0.0
cohort_batch_duration_seconds_bucket{group="billing",le="1.0"} 1.0
cohort_batch_in_flight_seconds{group="billing"} 0.0
cohort_last_batch_records{group="billing"} 500.0
cohort_member_info{executor="2",group="billing",host="10.0.0.12"} 1.0
cohort_agent_starts_total{executor="3",group="billing"} 2.0
cohort_throttled_seconds_total{executor="2",group="billing"} 0.5
cohort_process_resident_memory_bytes{group="billing",process="driver"} 1.5e+08
cohort_assignor_failures_total{assignor="range",group="billing"} 1.0
cohort_partitions_moved_total{group="billing"} 4.0
cohort_requests_refused_total{error="UNKNOWN_MEMBER_ID",group="billing",request="Heartbeat"} 0.0
cohort_requests_refused_total{error="ILLEGAL_GENERATION",group="billing",request="OffsetCommit"} 3.0
cohort_commits_total{group="billing"} 41.0
cohort_commit_failures_total{group="billing"} 2.0
cohort_partition_lag_records{group="billing",partition="0",topic="orders"} 50.0
cohort_partition_current_offset{group="billing",partition="1",topic="orders"} 90.0
cohort_partition_log_end_offset{group="billing",partition="0",topic="orders"} 150.0
cohort_partition_unreachable{group="billing",partition="2",topic="orders"} 1.0
cohort_offsets_behind_latest_max{group="billing",query="bills"} 50.0
cohort_partition_late{group="billing",partition="1",topic="orders"} 1.0
cohort_partition_open_transaction_seconds{group="billing",partition="1",topic="orders"} 123.4
cohort_records_consumed_total{group="billing",path="agent"} 9000.0
cohort_bytes_consumed_total{group="billing",path="direct"} 100000.0
cohort_malformed_records_total{group="billing",reason="syntax",topic="orders"} 5.0
cohort_ranges_read_again_total{group="billing"} 12.0
cohort_agent_timeouts_total{group="billing"} 1.0
cohort_sink_rows_total{group="billing",topic="bills"} 700.0
cohort_sink_wait_seconds_total{group="billing"} 1.5
cohort_sink_failed_batches_total{group="billing"} 0.0
cohort_member_heartbeat_age_seconds{executor="2",group="billing"} 1.5
cohort_member_partitions{executor="2",group="billing"} 2.0
cohort_member_cut_off_partitions{executor="2",group="billing"} 0.0
"""


def test_the_status_in_prometheus_words() -> None:
    """Each value of the status appears under its metric and labels."""
    assert sorted(set(SCRAPE.split("\n")[1:-1]) - set(exposition(a_status()))) == []


def test_the_batch_in_flight_has_an_age() -> None:
    """As long as it is in flight."""
    status = a_status()
    status["batches"]["in_flight"] = IN_FLIGHT
    assert 'cohort_batch_in_flight_seconds{group="billing"} 123.4' in exposition(status)
    status["batches"]["in_flight"] = {**IN_FLIGHT, "may_be_over": True}
    assert 'cohort_batch_in_flight_seconds{group="billing"} 0.0' in exposition(status)


def test_what_is_unknown_is_left_out() -> None:
    """A partition without a committed offset has no lag: no sample rather than a wrong zero."""
    lines = exposition(a_status(partitions=[a_partition(5, None, 10, None)], query=None))
    assert 'cohort_partition_log_end_offset{group="billing",partition="5",topic="orders"} 10.0' in lines
    unknown = ("cohort_partition_lag", "cohort_partition_current", "cohort_offsets_behind")
    assert not [line for line in lines if line.startswith(unknown)]


def test_the_table_names_every_metric_once() -> None:
    """Names are unique and prefixed, help says something, counters end in _total, and all but histograms have values."""
    names = [spec.name for spec in METRICS]
    assert len(set(names)) == len(names)
    assert all(name.startswith("cohort_") for name in names)
    assert all(spec.help for spec in METRICS)
    assert all(spec.name.endswith("_total") == (spec.kind == "counter") for spec in METRICS)
    assert set(values(a_status())) == {spec.name for spec in METRICS}


@pytest.mark.parametrize(("most", "left_out"), [(3, 0), (2, 3)])
def test_the_parts_are_the_whole(most: int, left_out: int) -> None:
    """With too many partitions each has no series of its own; topics and the group have theirs, and what is wrong is named."""
    samples = values(a_status(), most)
    assert samples["cohort_partition_series_left_out"] == [((), left_out)]
    assert samples["cohort_topic_lag_records"] == [(("orders",), 50)]
    assert samples["cohort_group_lag_records"] == [((), 50)]
    lag = sum(value for _, value in samples["cohort_partition_lag_records"])
    assert lag == (0 if left_out else 50)
    assert (("orders", "2"), 1.0) in samples["cohort_partition_unreachable"]
    assert (("orders", "1"), 1.0) in samples["cohort_partition_late"]
    assert (("orders", "1"), 457) in samples["cohort_partition_open_transaction_records"]


def test_records_add_up_and_ages_do_not() -> None:
    """The group and a topic lag by all records of their partitions, since the oldest; the lead is the shortest."""
    parts = [a_partition(0, 100, 150, "1", start=30, age_s=7.5), a_partition(1, 90, 97, "1", start=80, age_s=2.5)]
    samples = values(a_status(partitions=parts))
    for labels, scope in (((), "group"), (("orders",), "topic")):
        assert samples[f"cohort_{scope}_lag_records"] == [(labels, 57)]
        assert samples[f"cohort_{scope}_lag_seconds"] == [(labels, 7.5)]
    assert samples["cohort_topic_lead_records"] == [(("orders",), 10)]


def test_a_restart_makes_no_new_series() -> None:
    """Members are labelled by their executors; one that is being replaced gives its place to the one heard of last."""
    before = a_status()
    first, second = before["members"]
    again = [{**first, "member_id": "m-9", "heartbeat_age_ms": 10}, first, {**second, "member_id": "m-10"}]
    series = [
        {name: [labels for labels, _ in rows] for name, rows in values(each).items()}
        for each in (before, a_status(members=again))
    ]
    assert series[0] == series[1]
    assert dict(values(a_status(members=again))["cohort_member_heartbeat_age_seconds"])["2",] == 0.01


def test_every_class_of_reason_is_known() -> None:
    """Each cause has one of the labels, whatever is said with it; none of its words needs what a reason hasn't got."""
    assert len(LABELS) == 13
    for cause, said in product(Cause, ("", "an operator asked", ": ", " left: for good", "\x00", "{members}")):
        reason = Reason(cause, said=said)
        assert reason.label in LABELS
        assert str(reason).endswith(said)


def test_every_counter_is_there_from_the_first_scrape() -> None:
    """Where nothing has happened yet, each counter has the series that it has when something has."""
    busy, quiet = a_status(), a_status(refused=[], failed_rebalances={})
    for spec in METRICS:
        if spec.kind == "counter":
            before = {labels for labels, _ in values(quiet)[spec.name]}
            assert before >= {labels for labels, _ in values(busy)[spec.name]} > set(), spec.name


def test_whatever_the_group_refuses_has_a_counter() -> None:
    """Nobody that speaks to a group, in whatever state, is refused by a request or an error that isn't counted from 0."""
    who = [("b-3", "", 2), ("b-3", "", 9), ("x-9", "", 2), ("a-1", "i", 2), ("", "", -1)]
    asked: list[p.Request] = [join("x-9", "x"), join("a-1", "a", "i"), join(client="c", protocols=("other",))]
    for name, instance, generation in who:
        asked += [sync(name, generation, instance=instance or None), beat(name, generation, instance or None)]
        asked += [leave(name), commit(name, generation, "t2@2=1", instance=instance or None)]
    refused: set[tuple[str, str]] = set()
    for make, request in product(DESKS.values(), asked):
        actions = make().step(p.Received(99, request))
        refused |= {(seen.request, seen.error.name) for seen in actions if isinstance(seen, p.Refused)}
    assert {request for request, _ in refused} == set(REFUSED_REQUESTS) - {"Loads"}
    assert {error for _, error in refused} <= set(REFUSALS)
    assert len(refused) > 12


def test_totals_outlive_the_history() -> None:
    """A thousand rebalances are a thousand in the totals, whatever the history keeps."""
    totals = RebalanceTotals()
    for _ in range(1000):
        totals.add(Reason(Cause.MEMBER_JOINED, ("x",)), 3, 0)
    value = totals.as_value()
    joined = value["by_reason"]["member_joined"]
    assert (value["count"], joined["count"], joined["sum_ms"], joined["buckets"][0]) == (1000, 1000, 3000, [5, 1000])
