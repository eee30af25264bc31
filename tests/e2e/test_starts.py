"""Queries on a broker with Kafka's own ``group.initial.rebalance.delay.ms``, which nobody waits for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kit.broker import Broker
from tests.kit.delivery import check, held
from tests.kit.produce import produce
from tests.kit.streams import ASAP, Stream, options
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a query slow

DELAY = "group.initial.rebalance.delay.ms"


@pytest.fixture(scope="module")
def defaults() -> Iterator[Broker]:
    """A broker with Kafka's default, three seconds."""
    with Broker(properties={DELAY: "3000"}) as broker:
        yield broker


@pytest.fixture(scope="module")
def slow_joins() -> Iterator[Broker]:
    """A broker with whom a group's first join takes five minutes: whoever waits for it fails."""
    with Broker(properties={DELAY: "300000"}) as broker:
        yield broker


def is_committed(broker: Broker, group: str, offsets: dict[tuple[str, int], int]) -> bool:
    """Whether that is what the group has."""
    return broker.admin.committed(group) == offsets


def test_a_bounded_query_ends_without_a_member(
    spark: SparkSession, slow_joins: Broker, topic: str, checkpoint: Path
) -> None:
    """All is read and committed, from where the group stood, and again from the checkpoint; nobody has joined."""
    slow_joins.admin.create_topic(topic, 2)
    for number in range(2):
        produce(slow_joins.bootstrap, topic, 200, partitions=2, first=number * 100)
        run = Stream(spark, options(slow_joins, topic, maxOffsetsPerTrigger=150), checkpoint).finish()
        assert len(run.delivered()) == 200
        assert is_committed(slow_joins, topic, {(topic, part): (number + 1) * 100 for part in range(2)})
        assert slow_joins.admin.members(topic) == []


def test_a_query_joins_while_it_runs(spark: SparkSession, defaults: Broker, topic: str, checkpoint: Path) -> None:
    """It is the group's one member after its first batch, commits what it has delivered, and goes on after a restart."""
    defaults.admin.create_topic(topic, 2)
    for number in range(2):
        produce(defaults.bootstrap, topic, 200, partitions=2, first=number * 100)
        with Stream(spark, options(defaults, topic), checkpoint, trigger=ASAP) as run:
            wait_until(lambda: defaults.admin.members(topic), 60, "the member")
            everything = {(topic, part): (number + 1) * 100 for part in range(2)}
            wait_until(partial(is_committed, defaults, topic, everything), 60, "all to be committed")
            assert len(defaults.admin.members(topic)) == 1
            if number == 0:
                check(run.delivered(), held(defaults.bootstrap, [topic])).assert_exact()
