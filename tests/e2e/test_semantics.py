"""What user code does with a batch, however often and in whatever pieces it reads it, gives the rows that Kafka holds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  everybody's name for it

from tests.kit import delivery
from tests.kit.broker import Broker
from tests.kit.streams import FORMS, PLAIN_COLUMNS, Stream, options
from tests.kit.tier import of_tier

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a query slow

RECORDS, PARTITIONS = 900, 3
PER_BATCH = of_tier(quick=RECORDS, thorough=RECORDS // 2)


def actions(batch: DataFrame, folder: Path) -> dict[str, Any]:
    """What one foreachBatch may do: seven actions, three of which stop early, and a write."""
    plain = batch.select(*PLAIN_COLUMNS)
    seen: dict[str, Any] = {
        "empty": plain.isEmpty(),
        "count": plain.count(),
        "limited": plain.limit(5).count(),
        "head": len(plain.head(3)),
        "by partition": Counter(row.asDict()["partition"] for row in plain.select("partition").collect()),
        "once": Counter(plain.coalesce(1).collect()),
        "twice": Counter(plain.union(plain).collect()),
        "values": plain.agg(F.sum(F.length("value")), F.countDistinct("partition", "offset")).first(),
    }
    plain.write.mode("overwrite").parquet(str(folder))
    return seen


class Acting(Stream):
    """A query whose foreachBatch does all of ``actions``; ``seen`` is what they gave, by batch."""

    folder: Path
    seen: dict[int, dict[str, Any]]

    def _keep(self, batch: DataFrame, batch_id: int) -> None:
        self.seen[batch_id] = actions(batch, self.folder / f"batch_id={batch_id}")


def test_many_actions_of_one_batch(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """isEmpty, count, limit, head, coalesce, union and a write in one foreachBatch all see the batch's rows."""
    broker.fill(topic, RECORDS, PARTITIONS)
    seen = []
    for form in FORMS:
        source = options(broker, topic, maxOffsetsPerTrigger=PER_BATCH)
        run = Acting(spark, source, tmp_path / form / "checkpoint", form=form)
        run.folder, run.seen = tmp_path / form / "out", {}
        seen.append(run.finish().seen)
        delivered = delivery.from_parquet(run.folder)
        delivery.check(delivered, delivery.held(broker.bootstrap, [topic])).assert_exact()
    assert all(each == seen[0] for each in seen)
    for batch in seen[0].values():
        once, twice = batch["once"], batch["twice"]
        assert (batch["empty"], batch["count"], batch["limited"], batch["head"]) == (False, PER_BATCH, 5, 3)
        assert batch["by partition"] == Counter(dict.fromkeys(range(PARTITIONS), PER_BATCH // PARTITIONS))
        assert (len(once), set(once.values()), twice) == (PER_BATCH, {1}, once + once)
        assert batch["values"][1] == PER_BATCH
