"""How much a batch takes and how evenly: limits of bytes and topics, slots by bytes, on a real broker."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kit import delivery
from tests.kit.broker import Broker
from tests.kit.streams import Stream, options

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a query slow

MOST = 2 << 20


def test_bytes_and_offsets_of_topics(spark: SparkSession, broker: Broker, topic: str, checkpoint: Path) -> None:
    """From two records, a mebibyte each for all that is known, to batches of nearly the limit and never more."""
    large, small = f"{topic}-large", f"{topic}-small"
    for name, records, size in ((large, 600, 10_000), (small, 1_200, 100)):
        broker.fill(name, records, 2, value_bytes=size)
    limits = {"maxBytesPerTrigger": "2m", "maxOffsetsPerTrigger__topics": f'{{"{small}":400}}'}
    source = options(broker, topic, subscribe=f"{large},{small}", maxOffsetsPerTrigger=1_000, **limits)
    run = Stream(spark, source, checkpoint).finish()
    batches = [run.batches[number] for number in sorted(run.batches)]
    sizes = [sum(len(row.key) + len(row.value) for row in rows) for rows in batches]
    assert len(batches[0]) == 2
    assert max(sizes) <= MOST
    assert sum(size > 0.8 * MOST for size in sizes) >= 2
    of_small = [Counter(row.topic for row in rows)[small] for rows in batches]
    assert max(of_small) == 400
    delivery.check(run.delivered(), delivery.held(broker.bootstrap, [large, small])).assert_exact()
