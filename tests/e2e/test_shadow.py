"""``cohort shadow`` beside a query of ``format("kafka")``: what it says of each batch is what Spark's own source delivered."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kit.broker import Broker
from tests.kit.produce import abort, produce
from tests.kit.streams import Stream, options
from tests.shell.cli.test_rebalances import cohort


@pytest.mark.timeout(300)
def test_it_says_what_sparks_own_source_delivered(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Records and bytes of each batch and partition, from the very first batch on, with a transaction that was aborted."""
    broker.admin.create_topic(topic, 3)
    produce(broker.bootstrap, topic, 900, partitions=3, compression="lz4")
    abort(broker.bootstrap, topic, 50, partition=1)
    produce(broker.bootstrap, topic, 300, partitions=3, first=300)
    given = options(broker, topic, maxOffsetsPerTrigger="400", kafka__isolation__level="read_committed")
    stream = Stream(spark, given, tmp_path / "checkpoint", form="kafka").finish(180)
    delivered: Counter[tuple[int, int]] = Counter()
    sizes: Counter[tuple[int, int]] = Counter()
    for number, rows in stream.batches.items():
        for row in rows:
            delivered[number, row.partition] += 1
            sizes[number, row.partition] += len(row.key or b"") + len(row.value or b"")
    (tmp_path / "client").write_text(f"bootstrap.servers={broker.bootstrap}\nisolation.level=read_committed\n")
    said = cohort(
        "shadow", str(tmp_path / "checkpoint"), "--command-config", str(tmp_path / "client"), "--output", "json"
    )
    rows = json.loads(said.stdout)
    assert said.returncode == 0, said.stderr
    assert {row["verdict"] for row in rows} == {"equal"}
    assert len({row["batch"] for row in rows}) >= 3
    told = {(row["batch"], row["partition"]): (row["records"], row["bytes"]) for row in rows}
    assert {at: both for at, both in told.items() if both[0]} == {at: (delivered[at], sizes[at]) for at in delivered}
    assert sum(delivered.values()) == 1_200
