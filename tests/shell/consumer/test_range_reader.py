"""RangeReader against librdkafka's mock cluster: rows, positions, and what goes wrong on the way."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.kafka.fetch import arrow_rows
from sparkcohort.runtime.shell.kafka.fetch.range_reader import FetchError, RangeReader
from sparkcohort.runtime.values.columns import KAFKA_ROW, KAFKA_ROW_WITH_HEADERS, Columns
from tests.kit.mock import MockCluster
from tests.kit.produce import produce, value_of
from tests.kit.ranges import direct, offsets, rows_of
from tests.kit.record_sources import SOURCES, read_by
from tests.kit.tier import of_tier

SPARKS_ROW = (
    ("key", BinaryType()),
    ("value", BinaryType()),
    ("topic", StringType()),
    ("partition", IntegerType()),
    ("offset", LongType()),
    ("timestamp", TimestampType()),
    ("timestampType", IntegerType()),
)

pytestmark = pytest.mark.usefixtures("impatience")


def conf(mock: MockCluster) -> dict[str, Any]:
    """The settings of a reader."""
    return {"bootstrap.servers": mock.bootstrap, "log_level": 0}


@pytest.mark.parametrize("columns", [KAFKA_ROW, KAFKA_ROW_WITH_HEADERS])
def test_schema_is_sparks(columns: Columns) -> None:
    """The Arrow schema is the one that PySpark demands of Spark's Kafka row."""
    row = StructType([StructField(name, kind) for name, kind in SPARKS_ROW])
    if columns == KAFKA_ROW_WITH_HEADERS:
        row.add(
            "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
        )
    assert arrow_rows.schema(columns).equals(to_arrow_schema(row, timezone="UTC"))


def test_empty_ranges_need_no_broker() -> None:
    """Ranges without offsets end at once, and a range that runs backwards is refused."""
    reader = RangeReader({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    assert list(reader.read([Range("t", 0, 5, 5)])) == []
    with pytest.raises(ValueError, match="not a range"):
        list(reader.read([Range("t", 0, 6, 5)]))
    reader.close()


@pytest.mark.usefixtures("each_source")
def test_an_abandoned_read_leaves_nothing_behind(mock_broker: MockCluster, topic: str) -> None:
    """A reader whose last read stopped early reads the next ranges from their start."""
    produce(mock_broker.bootstrap, topic, 20_000)
    reader = RangeReader(conf(mock_broker))
    for _ in range(3):
        pieces = reader.read([Range(topic, 0, 0, 20_000)])
        _, _, first = next(pieces)
        assert first is not None
        assert first.column("offset")[0].as_py() == 0
        del pieces
    got = [offset for rows in rows_of(reader.read([Range(topic, 0, 7, 9)])).values() for offset in offsets(rows)]
    assert got == [7, 8]
    reader.close()


RECORDS = 3_000
PARTITIONS = 3
POINTS = st.lists(st.integers(0, RECORDS), min_size=2, max_size=8, unique=True).map(sorted)


@pytest.fixture(scope="module")
def filled() -> Any:
    """A mock cluster with two topics of three full partitions."""
    with MockCluster() as mock:
        for name in ("one", "two"):
            mock.create_topic(name, PARTITIONS)
            produce(mock.bootstrap, name, RECORDS * PARTITIONS, partitions=PARTITIONS)
        yield mock


@settings(max_examples=of_tier(quick=12, thorough=24))
@given(
    source=st.sampled_from(SOURCES),
    cuts=st.dictionaries(
        st.tuples(st.sampled_from(["one", "two"]), st.integers(0, PARTITIONS - 1)), POINTS, min_size=1
    ),
)
def test_any_ranges_give_exactly_their_rows(
    filled: MockCluster, source: str, cuts: dict[tuple[str, int], list[int]]
) -> None:
    """Ranges cut anywhere, several per partition, with holes between them, give their records once each and in order."""
    spans = {TopicPartition(*tp): list(zip(at[::2], at[1::2], strict=False)) for tp, at in cuts.items()}
    ranges = [Range(*tp, start, end) for tp, pairs in spans.items() for start, end in pairs]
    with read_by(source):
        rows = direct(conf(filled), ranges)
    for tp, pairs in spans.items():
        expected = [offset for start, end in pairs for offset in range(start, end)]
        assert offsets(rows[tp]) == expected
        assert [row["value"] for row in rows[tp]] == [value_of(tp.partition, offset) for offset in expected]


@pytest.mark.usefixtures("each_source")
def test_no_broker_within_the_poll_timeout(mock_broker: MockCluster, topic: str) -> None:
    """Without progress for kafkaConsumer.pollTimeoutMs the error names partition, offsets and that option."""
    produce(mock_broker.bootstrap, topic, 10)
    mock_broker.broker_down()
    with pytest.raises(FetchError, match=rf"{topic} partition 0 offsets \[0, 10\).*700 ms .*pollTimeoutMs"):
        direct(conf(mock_broker), [Range(topic, 0, 0, 10)], poll_timeout_ms=700)


@pytest.mark.usefixtures("each_source")
@pytest.mark.parametrize("error", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN])
def test_errors_that_pass(mock_broker: MockCluster, topic: str, error: int) -> None:
    """Errors that Kafka calls retriable, and odd ones, are tried again."""
    produce(mock_broker.bootstrap, topic, 10)
    mock_broker.fail("Fetch", error, times=3)
    rows = direct(conf(mock_broker), [Range(topic, 0, 0, 10)], poll_timeout_ms=10_000)
    assert offsets(rows[TopicPartition(topic, 0)]) == list(range(10))


@pytest.mark.usefixtures("each_source")
def test_a_topic_deleted_under_way(mock_broker: MockCluster, topic: str) -> None:
    """Without failOnDataLoss a missing partition is passed over and reported; the others give their rows."""
    produce(mock_broker.bootstrap, topic, 10)
    losses: list[str] = []
    ranges = [Range("gone", 0, 3, 5), Range(topic, 0, 0, 10), Range(topic, 900, 0, 1)]
    rows = direct(conf(mock_broker), ranges, fail_on_data_loss=False, on_data_loss=losses.append)
    assert offsets(rows[TopicPartition(topic, 0)]) == list(range(10))
    assert [loss.partition(": ")[2] for loss in losses] == ["the partition is gone"] * 2
