"""Bad records of streams in a dead letter topic, and the column that says what is wrong with them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import Row, SparkSession

from tests.kit.batch_reads import load
from tests.kit.broker import Broker, Cluster
from tests.kit.produce import FLUSH_TIMEOUT_S, producer
from tests.kit.shared_brokers import PASSWORD, Guarded
from tests.kit.streams import Stream, options
from tests.kit.waiting import wait_until
from tests.kit.writes import stored

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a query slow

AT_MS: Final = int(time.time() * 1000) - 60_000
HEADERS: Final[list[tuple[str, str | bytes | None]]] = [("trace", b"1"), ("trace", None)]
RECORDS: Final = 10
BAD: Final = {(0, 2): b'{"id": "secret', (1, 4): b'["secret"]'}
REASONS: Final = {(0, 2): "syntax", (1, 4): "not_object"}
TYPED: Final = {"value__format": "json", "value__schema": "id BIGINT", "value__error__column": "why"}
HASTY: Final = {"kafkaConsumer__pollTimeoutMs": 2_000}  # given up at the first poll that brought nothing


def fill(broker: Cluster, topic: str) -> None:
    """Five records in each of two partitions, one bad in each."""
    broker.admin.create_topic(topic, 2)
    client = producer(broker.bootstrap)
    for number in range(RECORDS):
        offset, partition = divmod(number, 2)
        value = BAD.get((partition, offset), b'{"id": %d}' % number)
        client.produce(topic, value, b"k%d" % number, partition, headers=HEADERS, timestamp=AT_MS + number)
    assert client.flush(FLUSH_TIMEOUT_S) == 0


def found_letters(spark: SparkSession, broker: Cluster, topic: str) -> dict[tuple[int, int], set[Any]]:
    """What the dead letter topic has, by the place that its headers name: at least once."""
    found: dict[tuple[int, int], set[Any]] = {}
    for row in stored(spark, broker, topic):
        headers = tuple((each.key, None if each.value is None else bytes(each.value)) for each in row.headers)
        places = {key: value for key, value in headers if value is not None}
        place = tuple(int(places[f"__connect.errors.{name}"]) for name in ("partition", "offset"))
        letter = bytes(row.key), bytes(row.value), int(row.timestamp.timestamp() * 1000), headers
        found.setdefault((place[0], place[1]), set()).add(letter)
    return found


def wanted_letters(topic: str, rows: list[Row]) -> dict[tuple[int, int], set[Any]]:
    """The bad records as they came, with what the error column says."""
    wanted: dict[tuple[int, int], set[Any]] = {}
    for row in rows:
        if (place := (row.partition, row.offset)) in BAD:
            number = 2 * row.offset + row.partition
            texts = {
                "topic": topic,
                "partition": str(row.partition),
                "offset": str(row.offset),
                "stage": "VALUE_CONVERTER",
                "exception.class.name": row.why.reason,
                "exception.message": row.why.message,
            }
            added = ((f"__connect.errors.{name}", text.encode()) for name, text in texts.items())
            wanted[place] = {(b"k%d" % number, BAD[place], AT_MS + number, (*HEADERS, *added))}
    return wanted


def test_a_batch_is_delivered_once_its_bad_records_are_written(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Without the topic the batch fails and says so; with it the query goes on, and every record has its place."""
    fill(broker, topic)
    dead = f"{topic}-dead"
    source = options(broker, topic, dead__letter__topic=dead, **TYPED, **HASTY)
    first = Stream(spark, source, tmp_path, columns=None)
    text = first.failure()
    assert f"bad records can't be written to {dead} (dead.letter.topic)" in text
    assert "there is no such topic: create it" in text
    assert "secret" not in text
    assert first.rows == []
    assert set(broker.admin.committed(topic).values()) <= {0}

    broker.admin.create_topic(dead)
    rows = Stream(spark, source, tmp_path, columns=None).finish().rows
    ids = {(row.partition, row.offset): row.value and row.value.id for row in rows}
    assert ids == {(n % 2, n // 2): None if (n % 2, n // 2) in BAD else n for n in range(RECORDS)}
    assert {(row.partition, row.offset): row.why.reason for row in rows if row.why} == REASONS
    assert found_letters(spark, broker, dead) == wanted_letters(topic, rows)
    assert broker.admin.committed(topic) == {(topic, number): RECORDS // 2 for number in range(2)}


@pytest.mark.thorough("tests/shell has the same error without Spark")
def test_no_right_to_write(spark: SparkSession, guarded: Guarded, topic: str, tmp_path: Path) -> None:
    """The error names the topic and the right; with the right the query goes on."""
    fill(guarded, topic)
    dead = f"{topic}-dead"
    guarded.admin.create_topic(dead)
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{PASSWORD}";'
    of_alice: dict[str, Any] = {
        "kafka__bootstrap__servers": guarded.sasl_bootstrap,
        "kafka__security__protocol": "SASL_PLAINTEXT",
        "kafka__sasl__mechanism": "PLAIN",
        "kafka__sasl__jaas__config": login,
    }
    guarded.admin.allow("alice", "topic", topic, "read", "describe")
    guarded.admin.allow("alice", "topic", dead, "describe")
    guarded.admin.allow("alice", "group", topic, "read", "describe")
    source = options(guarded, topic, dead__letter__topic=dead, **TYPED, **HASTY, **of_alice)
    text = Stream(spark, source, tmp_path, columns=None).failure()
    assert f"bad records can't be written to {dead} (dead.letter.topic)" in text
    assert "WRITE" in text
    assert PASSWORD not in text
    guarded.admin.allow("alice", "topic", dead, "write")

    def finished() -> list[Row]:  # not before the broker has heard of the right from its controller
        run = Stream(spark, source, tmp_path, columns=None)
        try:
            return run.finish().rows
        except Exception:  # noqa: BLE001  the next try says more
            return []

    rows = wait_until(finished, 120, "a run with the right")
    assert found_letters(spark, guarded, dead) == wanted_letters(topic, rows)


@pytest.mark.thorough("one reader in the first tier")
@pytest.mark.both_readers
def test_why_records_are_bad(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """As a column of a stream, named in a schema or not, whole or in part, and of a batch read."""
    fill(broker, topic)
    typed = {**TYPED, "value__corrupt__column": "bad"}
    by_schema = "why STRUCT<message: STRING>, offset BIGINT, value STRUCT<id: BIGINT>, partition INT"
    whole = Stream(spark, options(broker, topic, **typed), tmp_path / "whole", columns=None).finish().rows
    assert {(row.partition, row.offset): row.why.reason for row in whole if row.why} == REASONS
    assert {(row.partition, row.offset): bytes(row.bad) for row in whole if row.why} == BAD
    source = options(broker, topic, group__id=f"{topic}-part", **TYPED)
    part = Stream(spark, source, tmp_path / "part", columns=None, schema=by_schema).finish().rows
    messages = {(row.partition, row.offset): row.why.message for row in whole if row.why}
    assert {(row.partition, row.offset): row.why.asDict() for row in part if row.why} == {
        place: {"message": message} for place, message in messages.items()
    }
    batch = load(spark, broker, topic, **typed, reader=options(broker, topic).get("reader"))
    selected = batch.where("why is not null").select("partition", "offset", "why.message", "bad").collect()
    assert {(row.partition, row.offset): row.message for row in selected} == messages
    assert {(row.partition, row.offset): bytes(row.bad) for row in selected} == BAD
