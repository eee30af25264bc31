"""Many partitions with little data: a batch has as many tasks as there are cores, not as there are partitions."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest
from pyspark.sql import DataFrame, SparkSession

from sparkcohort.streaming.planner import SLOTS_WITHOUT_MEMBERS
from tests.kit import delivery
from tests.kit.broker import Broker
from tests.kit.produce import Steady
from tests.kit.streams import ASAP, Stream, options
from tests.kit.waiting import wait_until

CORES = 2  # of the session
PARTITIONS, RATE, BATCHES = 300, 900, 15


class Counting(Stream):
    """A query that counts the tasks of each batch."""

    tasks: list[int]

    def _keep(self, batch: DataFrame, batch_id: int) -> None:
        self.tasks.append(batch.rdd.getNumPartitions())
        super()._keep(batch, batch_id)


@pytest.mark.thorough("a trickle over 300 partitions")
@pytest.mark.timeout(300)
def test_a_trickle_over_many_partitions_takes_few_tasks(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: Path
) -> None:
    """No batch has more than eight tasks, most have no more than there are cores, and every record arrives once.

    Spark's own source runs a task per partition.  What a trigger takes is measured by the bench's part ``partitions``.
    """
    broker.admin.create_topic(topic, PARTITIONS)
    run = Counting(spark, options(broker, topic), checkpoint, trigger=ASAP)
    run.tasks = []
    with run:
        with Steady(broker.bootstrap, topic, partitions=PARTITIONS, rate=RATE) as steady:
            wait_until(lambda: len(run.tasks) >= BATCHES, 240, "batches")
        run.wait_for_rows(sum(steady.counts.values()))
    delivery.check(run.delivered(), delivery.held(broker.bootstrap, [topic])).assert_exact()
    assert max(run.tasks) <= SLOTS_WITHOUT_MEMBERS, run.tasks  # the first ones find no members yet
    assert median(run.tasks) <= CORES, run.tasks
