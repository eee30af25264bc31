"""The names of kafka_exporter and Burrow: each figure as those programs would show it, and only on request."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from sparkcohort.runtime.shell.observe.metrics import StatusCollector
from sparkcohort.runtime.shell.observe.other_names import OTHER_METRICS, STOPPED_S
from sparkcohort.runtime.shell.options.table import BY_KEY
from tests.kit.status import a_status

BOTH = ("kafka_exporter", "burrow")
STATUS_OF_GROUP = 'burrow_kafka_consumer_status{cluster="kafka",consumer_group="billing"}'


def exposition(status: dict[str, Any], *names: str, most: int = 2_000) -> list[str]:
    """The lines of a scrape."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatusCollector(lambda: status, most, names))
    return generate_latest(registry).decode().splitlines()


def others(*names: str, most: int = 2_000, **changes: Any) -> list[str]:
    """The samples by others' names."""
    return [
        line for line in exposition(a_status(**changes), *names, most=most) if line.startswith(("kafka_", "burrow_"))
    ]


@pytest.mark.parametrize(
    "line",
    [
        'kafka_consumergroup_current_offset{consumergroup="billing",partition="0",topic="orders"} 100.0',
        'kafka_consumergroup_current_offset_sum{consumergroup="billing",topic="orders"} 190.0',
        'kafka_consumergroup_lag{consumergroup="billing",partition="0",topic="orders"} 50.0',
        'kafka_consumergroup_lag{consumergroup="billing",partition="1",topic="orders"} 0.0',
        'kafka_consumergroup_lag_sum{consumergroup="billing",topic="orders"} 50.0',
        'kafka_consumergroup_members{consumergroup="billing"} 2.0',
        'kafka_topic_partitions{topic="orders"} 3.0',
        'kafka_topic_partition_current_offset{partition="0",topic="orders"} 150.0',
        'kafka_topic_partition_oldest_offset{partition="0",topic="orders"} 40.0',
        'burrow_kafka_consumer_lag_total{cluster="kafka",consumer_group="billing"} 50.0',
        f"{STATUS_OF_GROUP} 1.0",
        'burrow_kafka_consumer_current_offset{cluster="kafka",consumer_group="billing",partition="1",topic="orders"} 90.0',
        'burrow_kafka_consumer_partition_lag{cluster="kafka",consumer_group="billing",partition="0",topic="orders"} 50.0',
        'burrow_kafka_topic_partition_offset{cluster="kafka",partition="1",topic="orders"} 90.0',
    ],
)
def test_a_figure_by_its_other_name(line: str) -> None:
    """With the labels of that program, and not with ours."""
    assert line in others(*BOTH)


def test_only_what_was_asked_for() -> None:
    """Nothing without the option; each program's own names by its own."""
    assert others() == []
    assert {line.partition("_")[0] for line in others("burrow")} == {"burrow"}
    assert {line.partition("_")[0] for line in others("kafka_exporter")} == {"kafka"}
    assert {each.program for each in OTHER_METRICS} == set(BY_KEY["metrics.names"].choices) == set(BOTH)


def test_what_is_unknown_is_left_out() -> None:
    """A partition without a commit has no lag, and none is made up for it."""
    assert not [line for line in others(*BOTH) if 'partition="2"' in line]


def test_too_many_partitions_leave_the_sums() -> None:
    """As with our own names: no series of a partition beyond the limit."""
    lines = others(*BOTH, most=2)
    assert not [line for line in lines if "partition=" in line]
    assert 'kafka_consumergroup_lag_sum{consumergroup="billing",topic="orders"} 50.0' in lines
    assert 'burrow_kafka_consumer_lag_total{cluster="kafka",consumer_group="billing"} 50.0' in lines


def test_burrows_stop() -> None:
    """A driver that commits no more, for whatever reason."""
    assert f"{STATUS_OF_GROUP} 4.0" in others("burrow", fenced=True)
    late = {**a_status()["commits"], "pending_ms": 1000 * STOPPED_S + 1}
    assert f"{STATUS_OF_GROUP} 4.0" in others("burrow", commits=late)


def test_a_coordinator_that_does_not_answer_has_none() -> None:
    """As of our own names: nothing but ``cohort_up`` 0."""
    assert [line for line in exposition({}, *BOTH) if not line.startswith("#")] == ['cohort_up{group=""} 0.0']
