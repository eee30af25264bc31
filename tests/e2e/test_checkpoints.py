"""A checkpoint of Spark's own Kafka source goes on under ``format("cohort")``, and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.kit import delivery
from tests.kit.broker import Broker
from tests.kit.produce import produce
from tests.kit.streams import Batches, Stream, options
from tests.kit.tier import of_tier

pytestmark = [
    pytest.mark.timeout(240),  # a busy machine makes a query slow
    pytest.mark.usefixtures("sparks_checkpoint_files"),
]


TURNS = of_tier(quick=1, thorough=2)


class Failing(Stream):
    """A query whose sink fails at one batch: its range is in the offset log, and not in the commit log."""

    at: int

    @property
    def checkpoint(self) -> Path:
        """Where the query keeps its logs."""
        return self._checkpoint

    def _keep(self, batch: DataFrame, batch_id: int) -> None:
        if batch_id == self.at:
            raise RuntimeError(f"batch {batch_id} fails as it is told")
        super()._keep(batch, batch_id)


def logged(checkpoint: Path, batch_id: int) -> dict[str, int]:
    """The end of a batch in the offset log, of the only topic."""
    text = (checkpoint / "offsets" / str(batch_id)).read_text().splitlines()[-1]
    (ends,) = filter(None, json.loads(text).values())  # ours tell of the topic's id besides
    return {number: int(offset) for number, offset in ends.items()}


def test_there_and_back(spark: SparkSession, broker: Broker, topic: str, checkpoint: Path) -> None:
    """kafka, cohort, kafka, cohort on one checkpoint, each taking over a batch that failed: every record comes once."""
    broker.admin.create_topic(topic, 2)
    batches: Batches = {}
    source = options(broker, topic, maxOffsetsPerTrigger=300)
    written = 0
    for turn, form in enumerate(("kafka", "cohort") * TURNS):
        if turn == 2 * TURNS - 2:
            broker.admin.add_partitions(topic, 3)
        count = 3 if turn >= 2 * TURNS - 2 else 2
        produce(broker.bootstrap, topic, 400 * count, partitions=count, first=written)
        written += 400
        run = Failing(spark, source, checkpoint, form=form, batches=batches)
        run.at = max(batches, default=-1) + 3
        with pytest.raises(StreamingQueryException, match="fails as it is told"):
            run.finish()
        failed = logged(checkpoint, run.at)
        assert run.at not in batches
        following = {"kafka": "cohort", "cohort": "kafka"}[form]
        over = Stream(spark, source, checkpoint, form=following, batches=batches).finish()
        taken = {str(number): last + 1 for number, (_, last) in over.spans()[run.at].items()}
        assert taken == {number: failed[number] for number in taken}
    delivery.check(over.delivered(), delivery.held(broker.bootstrap, [topic])).assert_exact()


def fail_first(run: Failing) -> dict[str, int]:
    """Run a query until it fails in batch 0; returns the end that was planned."""
    run.at = 0
    assert "fails as it is told" in run.failure()
    return logged(run.checkpoint, 0)


@pytest.mark.thorough("a way back that Spark has to be told")
def test_back_with_a_first_batch_that_is_planned(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: Path
) -> None:
    """Where Cohort started is what its group has committed: as docs/migrate-from-spark-kafka.md says, Spark's source has to be told."""
    broker.fill(topic, 60, 2)
    at_20 = options(broker, topic, startingOffsets=json.dumps({topic: {"0": 20, "1": 20}}))
    assert fail_first(Failing(spark, at_20, checkpoint)) == {"0": 30, "1": 30}
    produce(broker.bootstrap, topic, 20, partitions=2, first=30)
    committed = {str(number): offset for (_, number), offset in broker.admin.committed(topic).items()}
    told = options(broker, topic, startingOffsets=json.dumps({topic: committed}))
    back = Stream(spark, told, checkpoint, form="kafka").finish()
    assert back.spans()[0] == {0: (20, 29), 1: (20, 29)}
    assert sorted((row.partition, row.offset) for row in back.rows) == [(p, at) for p in (0, 1) for at in range(20, 40)]
