"""A checkpoint of Spark's own Kafka source goes on under ``format("cohort")``, and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.support import delivery
from tests.support.broker import Broker
from tests.support.produce import produce
from tests.support.streams import Batches, Stream, options

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a query slow


class Failing(Stream):
    """A query whose sink fails at one batch: its range is in the offset log, and not in the commit log."""

    at: int

    def _keep(self, batch: DataFrame, batch_id: int) -> None:
        if batch_id == self.at:
            raise RuntimeError(f"batch {batch_id} fails as it is told")
        super()._keep(batch, batch_id)


def logged(checkpoint: Path, batch_id: int) -> dict[str, int]:
    """The end of a batch in the offset log, of the only topic."""
    text = (checkpoint / "offsets" / str(batch_id)).read_text().splitlines()[-1]
    (ends,) = json.loads(text).values()
    return {number: int(offset) for number, offset in ends.items()}


def test_there_and_back(spark: SparkSession, broker: Broker, topic: str, checkpoint: Path) -> None:
    """kafka, cohort, kafka, cohort on one checkpoint, each taking over a batch that failed: every record comes once."""
    broker.admin.create_topic(topic, 2)
    batches: Batches = {}
    source = options(broker, topic, maxOffsetsPerTrigger=300)
    written = 0
    for turn, form in enumerate(["kafka", "cohort", "kafka", "cohort"]):
        if turn == 2:
            broker.admin.add_partitions(topic, 3)
        count = 3 if turn >= 2 else 2
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
    assert len(over.rows) == 2 * 800 + 2 * 1_200
    delivery.check(over.delivered(), delivery.held(broker.bootstrap, [topic])).assert_exact()
