"""Queries on a broker with Kafka's own ``group.initial.rebalance.delay.ms``, which nobody waits for."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kit.broker import Broker
from tests.kit.produce import produce
from tests.kit.streams import Stream, options

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a query slow


@pytest.mark.thorough("a broker of its own, slow to let members join")
def test_a_bounded_query_ends_without_a_member(spark: SparkSession, topic: str, checkpoint: Path) -> None:
    """All is read and committed where a group's first join takes five minutes, twice; nobody has joined."""
    with Broker(properties={"group.initial.rebalance.delay.ms": "300000"}) as slow_joins:
        _read_twice(spark, slow_joins, topic, checkpoint)


def _read_twice(spark: SparkSession, slow_joins: Broker, topic: str, checkpoint: Path) -> None:
    slow_joins.admin.create_topic(topic, 2)
    for number in range(2):
        produce(slow_joins.bootstrap, topic, 200, partitions=2, first=number * 100)
        run = Stream(spark, options(slow_joins, topic, maxOffsetsPerTrigger=150), checkpoint).finish()
        assert len(run.delivered()) == 200
        assert slow_joins.admin.committed(topic) == {(topic, part): (number + 1) * 100 for part in range(2)}
        assert slow_joins.admin.members(topic) == []
