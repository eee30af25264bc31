"""read(write(x)) = x: random rows by our sink, read by our source and by Spark's own."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from tests.kit.batch_reads import load
from tests.kit.broker import Broker
from tests.kit.writes import write

pytestmark = pytest.mark.timeout(900)

SCHEMA: Final = "id int, key binary, value binary, partition int, headers array<struct<key:string,value:binary>>, timestamp timestamp"
NOW_MS: Final = int(time.time() * 1000)


def _bytes(random_of: random.Random, most: int) -> bytearray | None:
    return None if random_of.random() < 0.2 else bytearray(random_of.randbytes(random_of.randrange(most)))


def _row(random_of: random.Random, number: int) -> tuple[Any, ...]:
    headers = [(f"h{random_of.randrange(3)}ü", _bytes(random_of, 20)) for _ in range(random_of.randrange(4))]
    at = datetime.fromtimestamp((NOW_MS - random_of.randrange(3_600_000)) / 1000, UTC)
    key, value = _bytes(random_of, 40), _bytes(random_of, random_of.choice((10, 200, 50_000)))
    return (number, key, value, random_of.randrange(3), [("id", bytearray(b"%d" % number)), *headers], at)


@pytest.mark.thorough("random rows by each codec")
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_read_is_what_was_written(spark: SparkSession, broker: Broker, topic: str, codec: str) -> None:
    """Keys, values, tombstones, headers, partitions and timestamps, in the order of each partition's rows."""
    broker.admin.create_topic(topic, 3)
    random_of = random.Random(codec)
    rows = [_row(random_of, number) for number in range(500)]
    frame = spark.createDataFrame(rows, SCHEMA).coalesce(1)
    write(frame, broker, "cohort", topic=topic, kafka__compression__type=codec)
    wanted = [tuple(row)[1:] for row in sorted(frame.collect(), key=lambda row: (row.partition, row.id))]
    for form in ("cohort", "kafka"):
        found = load(spark, broker, topic, form, includeHeaders="true").collect()
        found.sort(key=lambda row: (row.partition, row.offset))
        assert [(row.key, row.value, row.partition, row.headers, row.timestamp) for row in found] == wanted
