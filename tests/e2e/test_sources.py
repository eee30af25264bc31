"""Where a query starts, how much a batch takes, what is subscribed: option by option, on a real broker."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.support import consumer_groups, delivery
from tests.support.broker import Broker
from tests.support.produce import produce
from tests.support.streams import Stream, options


def test_available_now_ends_with_lag_zero(spark: SparkSession, broker: Broker, topic: str, checkpoint: Path) -> None:
    """After an AvailableNow run Kafka's own tool shows lag 0 on every partition, and each record came once."""
    broker.admin.create_topic(topic, 4)
    produce(broker.bootstrap, topic, 2_000, partitions=4)
    run = Stream(spark, options(broker, topic, maxOffsetsPerTrigger=700), checkpoint).finish()
    delivery.check(run.delivered(), delivery.held(broker.bootstrap, [topic])).assert_exact()
    assert sorted(run.batches) == [0, 1, 2]
    assert [(row.partition, row.lag) for row in consumer_groups.describe(broker.bootstrap, topic)] == [
        (number, 0) for number in range(4)
    ]
