"""Records that readers trip over: row for row and column for column what Spark's own Kafka source gives."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from tests.kit.admin import LOG_APPEND_TIME
from tests.kit.batch_reads import load, ordered
from tests.kit.broker import Broker
from tests.kit.produce import FLUSH_TIMEOUT_S, abort, producer, transact
from tests.kit.streams import FORMS, Stream, options
from tests.kit.tier import of_tier

pytestmark = [pytest.mark.timeout(240), pytest.mark.both_readers]  # a busy machine makes a query slow

MEGABYTE = 1 << 20
ANY_TIME = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**62)}


def nulls_and_headers(broker: Broker, topic: str) -> None:
    """Null and empty keys and values; headers that are many, doubled, empty and null; old and new timestamps."""
    broker.admin.create_topic(topic, 2, configs=ANY_TIME)
    client = producer(broker.bootstrap)
    client.produce(topic, None, None, 0)
    client.produce(topic, b"", b"", 0, headers=[])
    client.produce(topic, b"v", None, 0, headers=[("a", b"1"), ("a", b"2"), ("", b""), ("b", None)])
    client.produce(topic, None, b"k", 1, headers=[("bytes", bytes(range(256))), ("naïve", "é".encode())])
    client.produce(topic, bytes(range(256)), b"\xff\xfe", 1, timestamp=1)
    client.produce(topic, b"late", b"k", 1, timestamp=4_102_444_800_000)
    assert client.flush(FLUSH_TIMEOUT_S) == 0


def log_append_time(broker: Broker, topic: str) -> None:
    """Timestamps that the broker sets."""
    broker.fill(topic, 20, timestamp_ms=1, configs=LOG_APPEND_TIME)


def transactions(broker: Broker, topic: str) -> None:
    """Committed and aborted transactions, the aborted one last: the log ends with records that nobody sees."""
    broker.fill(topic, 10)
    transact(broker.bootstrap, topic, 15, first=10, transactional_id=f"{topic}-1")
    abort(broker.bootstrap, topic, 30)
    transact(broker.bootstrap, topic, 5, first=25, transactional_id=f"{topic}-2")
    abort(broker.bootstrap, topic, 3)


def large(broker: Broker, topic: str) -> None:
    """Values of a megabyte and more among small ones, which do not compress."""
    broker.admin.create_topic(topic, 2, configs={"max.message.bytes": str(8 * MEGABYTE)})
    client = producer(broker.bootstrap)
    for number in range(12):
        size = (3 * MEGABYTE, MEGABYTE, 10)[number % 3]
        client.produce(topic, os.urandom(size), b"%d" % number, number % 2)
    assert client.flush(FLUSH_TIMEOUT_S) == 0


Write = Callable[[Broker, str], None]


@pytest.fixture(scope="module")
def written(broker: Broker) -> Callable[[Write], str]:
    """The topic of a kind of records, written when it is first asked for; every case reads it as a group of its own."""
    topics: dict[Write, str] = {}

    def topic_of(write: Write) -> str:
        if write not in topics:
            topics[write] = f"odd-{write.__name__.replace('_', '-')}"
            write(broker, topics[write])
        return topics[write]

    return topic_of


def read(spark: SparkSession, form: str, source: dict[str, str], checkpoint: Path) -> tuple[str, list[Row]]:
    """Schema and rows of all columns, in order of partition and offset."""
    run = Stream(spark, source, checkpoint, form=form, columns=None)
    schema = run.load().schema.json()
    return schema, sorted(run.finish().rows, key=lambda row: (row.topic, row.partition, row.offset))


LARGE: list[Write] = of_tier(quick=[], thorough=[large])
OLDER: list[Write] = [nulls_and_headers, log_append_time, transactions, *LARGE]
CASES: dict[str, tuple[list[Write], dict[str, str], int]] = {
    "nulls and headers": (OLDER, {"includeHeaders": "true"}, 6 + 20 + 63 + 12 * len(LARGE)),
    "transactions, committed": ([transactions], {"kafka.isolation.level": "read_committed"}, 30),
    "transactions, all": ([transactions, nulls_and_headers], {}, 63 + 6),
    "transactions, read_uncommitted": ([transactions], {"kafka.isolation.level": "read_uncommitted"}, 63),
}
"""Topics that are read at a time, and how many records they have."""


@pytest.mark.parametrize("name", of_tier(quick=["nulls and headers", "transactions, committed"], thorough=list(CASES)))
def test_rows_are_those_of_sparks_own_source(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    written: Callable[[Write], str],
    name: str,
) -> None:
    """Same schema, and the same rows in all columns: of a batch read of ``format("kafka")``, of ours, and of a stream."""
    kinds, more, count = CASES[name]
    topics = ",".join(map(written, kinds))
    given = {name.replace(".", "__"): value for name, value in more.items()}
    theirs, ours = (load(spark, broker, topics, form, **given) for form in ("kafka", "cohort"))
    expected = (theirs.schema.json(), ordered(theirs))
    assert len(expected[1]) == count
    assert (ours.schema.json(), ordered(ours)) == expected
    source = {**options(broker, topics, group__id=topic), **more}
    for form in FORMS:
        assert read(spark, form, source, tmp_path / form) == expected
