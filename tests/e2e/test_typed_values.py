"""What is inside of the records, as columns, through Spark: beside ``from_json``, and with a registry."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf import message_factory
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.e2e.test_metrics import scraped
from tests.kit.batch_reads import load, told
from tests.kit.broker import Broker
from tests.kit.produce import FLUSH_TIMEOUT_S, producer
from tests.kit.protobuf_schemas import ORDERS, descriptor
from tests.kit.registry import serving
from tests.kit.streams import ASAP, FORMS, LIMIT_S, Stream, options
from tests.kit.tier import of_tier
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.timeout(240), pytest.mark.both_readers]  # a busy machine makes a query slow

FIELDS = (
    "id BIGINT, name STRING, price DECIMAL(9,2), tags ARRAY<STRING>, seen STRUCT<at: TIMESTAMP, by: MAP<STRING, INT>>"
)
RECORDS = [
    b'{"id": 1, "name": "a", "price": 1.25, "tags": ["x", null], "seen": {"at": "2026-11-23T12:00:00Z", "by": {"k": 7}}}',
    b'{"name": "\\u20ac \xc3\xbc", "id": 9223372036854775807, "more": [1, {"a": 2}]}',
    b"{}",
    None,
    b'{"id": 2, "name": "cut',
    b"[1, 2]",
    b"",
    b'{"id": "no number", "name": "kept"}',
    b'{"id": 3, "id": 4, "tags": []}',
    b'{"id": 5, "price": 123456789012.5}',
]
NO_OBJECT, WRONG_FIELD = {4, 5}, {7, 9}  # by their place; an empty value is null, and no fault
BAD = NO_OBJECT | WRONG_FIELD
ROUNDS = 12


def fill(broker: Broker, topic: str, records: list[bytes | None], rounds: int = ROUNDS) -> None:
    """The records, again and again, in two partitions."""
    broker.admin.create_topic(topic, 2)
    client = producer(broker.bootstrap)
    for number in range(rounds):
        for record in records:
            client.produce(topic, record, record, number % 2)
    assert client.flush(FLUSH_TIMEOUT_S) == 0


def rows(run: Stream) -> list[Any]:
    """All rows, in an order that does not depend on who delivered them."""
    return sorted((row.asDict(recursive=True) for row in run.rows), key=repr)


def by_place(run: Stream, of: str) -> dict[tuple[int, int], Any]:
    """What a column has, by partition and offset."""
    return {(row["partition"], row["offset"]): row[of] for row in rows(run)}


def bad_records(port: int) -> dict[str, float]:
    """How many there were of each reason, by a scrape."""
    return {
        reason: value for (name, reason), value in scraped(port).items() if name == "cohort_malformed_records_total"
    }


@pytest.mark.parametrize("of", of_tier(quick=["value"], thorough=["value", "key"]))
def test_json_is_what_from_json_makes_of_it(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, of: str
) -> None:
    """Row by row, bad records and tombstones among them, read directly and from agents."""
    fill(broker, topic, RECORDS)
    typed = {f"{of}__format": "json", f"{of}__schema": FIELDS}
    source = options(broker, topic, maxOffsetsPerTrigger=40, **typed)
    ours = Stream(spark, source, tmp_path / "ours", columns=(of, "partition", "offset"))
    found = by_place(ours.finish(), of)
    parsed = f"from_json(CAST({of} AS STRING), '{FIELDS}') AS {of}"
    theirs = load(spark, broker, topic, FORMS[-1]).selectExpr(parsed, "partition", "offset")
    wanted = {(row.partition, row.offset): row.asDict(recursive=True)[of] for row in theirs.collect()}
    assert len(found) == len(RECORDS) * ROUNDS
    for place in wanted:
        if place[1] % len(RECORDS) in NO_OBJECT:  # the one difference: Spark's is a struct of nulls
            wanted[place] = None
    assert found == wanted
    assert len(ours.batches) == 3


@pytest.mark.thorough("tests/shell decodes the same without Spark")
def test_timestamps_of_the_sessions_time_zone(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, session_conf: Callable[[str, str], None]
) -> None:
    """As from_json has them by value.timezone; without it a difference is refused, and so is one of the type."""
    texts = ("2026-07-01 12:00:00", "2026-11-01 01:30:00", "2026-03-08 02:30:00", "2026-07-01 12:00:00Z")
    fill(broker, topic, [json.dumps({"at": text}).encode() for text in texts], rounds=1)
    typed = {"value__format": "json", "value__schema": "at TIMESTAMP"}
    session_conf("spark.sql.session.timeZone", "America/New_York")
    theirs = load(spark, broker, topic, FORMS[-1]).selectExpr(
        "from_json(CAST(value AS STRING), 'at TIMESTAMP') AS value"
    )
    wanted = sorted(row.value.at for row in theirs.collect())

    def refusals(checkpoint: str) -> list[str]:
        stream = Stream(spark, options(broker, topic, **typed), tmp_path / checkpoint, columns=None)
        with pytest.raises(PySparkException) as failed:
            stream.finish()
        return [str(failed.value), told(lambda: load(spark, broker, topic, **typed))]

    for said in refusals("goes on with the option"):
        assert "set value.timezone to America/New_York, or to UTC" in said
    zone = typed | {"value__timezone": "America/New_York"}
    ours = (
        Stream(spark, options(broker, topic, **zone), tmp_path / "goes on with the option", columns=None).finish().rows
    )
    assert sorted(row.value.at for row in ours) == wanted
    assert sorted(row.value.at for row in load(spark, broker, topic, **zone).collect()) == wanted
    session_conf("spark.sql.timestampType", "TIMESTAMP_NTZ")
    for said in refusals("another"):
        assert "TIMESTAMP is TIMESTAMP_NTZ in this session" in said
    plain = typed | {"value__schema": "at TIMESTAMP_NTZ"}
    assert [row.value.at for row in load(spark, broker, topic, **plain).collect()].count(None) == 1


@pytest.fixture
def session_conf(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Sets a configuration of the session until the test is over."""
    before: dict[str, str | None] = {}

    def put(name: str, value: str) -> None:
        before.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    yield put
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


@pytest.mark.thorough("tests/shell decodes the same without Spark")
def test_bad_records_are_dropped_and_positions_move_on(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, port: int
) -> None:
    """DROPMALFORMED, with a whole batch of them at the end; the group has committed the end, and each is counted."""
    fill(broker, topic, [*RECORDS, *[b"bad"] * 30])
    source = options(
        broker,
        topic,
        value__format="json",
        value__schema=FIELDS,
        value__mode="DROPMALFORMED",
        maxOffsetsPerTrigger=100,
        metrics__port=port,
    )
    ours = Stream(spark, source, tmp_path / "ours", trigger=ASAP, columns=("value", "partition", "offset"))
    good = len(RECORDS) - len(BAD)
    ends = {(topic, number): (len(RECORDS) + 30) * ROUNDS // 2 for number in range(2)}
    with ours:
        ours.wait_for_rows(good * ROUNDS)
        wait_until(lambda: broker.admin.committed(topic) == ends, LIMIT_S, "the end to be committed")
        syntax = 31 * ROUNDS  # some decoded by an agent and, as it had just begun, by a task, too
        counted = wait_until(
            lambda: seen if (seen := bad_records(port))["syntax"] >= syntax else None, LIMIT_S, "counters"
        )
        assert counted["wrong_type"] >= ROUNDS
        assert counted["utf8"] == 0
    assert len(ours.rows) == good * ROUNDS
    left = [n for n in range(len(RECORDS)) if n not in BAD]
    assert {row.offset % (len(RECORDS) + 30) for row in ours.rows} == set(left)


OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]}
NEW = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "id", "type": "long"},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": ["none"]},
    ],
}


def avro(schema: Any, record: Any, schema_id: int | None = None) -> bytes:
    """A record, behind Confluent's frame if it has an id."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    return (b"" if schema_id is None else b"\0" + schema_id.to_bytes(4, "big")) + out.getvalue()


def test_avro_of_old_and_new_writers_comes_as_the_registrys_schema(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Framed records, some of a writer that appears while the query runs, and one whose schema nobody knows."""
    with serving(user_info="me:hidden") as registry:
        old = registry.register(f"{topic}-value", OLD)
        new = registry.register(f"{topic}-value", NEW)
        records = [avro(OLD, {"id": 1, "name": "a"}, old), avro(NEW, {"id": 2, "name": "b", "tags": []}, new), None]
        fill(broker, topic, [*records, avro(OLD, {"id": 1, "name": "a"}, 77)], rounds=2)
        source = options(
            broker,
            topic,
            value__format="avro",
            schema__registry__url=registry.url,
            schema__registry__basic__auth__user__info="me:hidden",
        )
        ours = Stream(spark, source, tmp_path / "checkpoint", columns=("value", "partition", "offset"))
        assert dict(ours.load().dtypes)["value"] == "struct<name:string,id:bigint,tags:array<string>>"
        values = [
            row["value"] for row in sorted(rows(ours.finish()), key=lambda row: (row["partition"], row["offset"]))
        ]
    wanted = [{"name": "a", "id": 1, "tags": ["none"]}, {"name": "b", "id": 2, "tags": []}, None, None]
    assert values == wanted * 2


def test_protobuf_by_its_descriptor_set(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """With a registry's frame and without one, all of the fields and a part of them, a tombstone and what is bad."""
    order = message_factory.GetMessageClass(descriptor(ORDERS, "p.Order"))()
    order.id, order.state = 7, 1
    order.lines.add(sku="a", count=2)
    order.lines.add(sku="b")
    order.at.seconds, order.took.nanos = 1_700_000_000, 1_500_000
    record = order.SerializeToString()
    file = tmp_path / "orders.desc"
    file.write_bytes(ORDERS)
    lines = [{"sku": "a", "count": 2}, {"sku": "b", "count": None}]
    whole = {"id": 7, "state": "B", "lines": lines, "took": timedelta(microseconds=1500)}
    some = {"lines": [{"count": 2}, {"count": None}], "id": 7}
    part = "value STRUCT<lines: ARRAY<STRUCT<count: INT>>, id: BIGINT>, bad BINARY"
    for frame, more, schema, wanted in [
        (b"", {}, None, whole),
        (b"\0\0\0\0\7\0", {"schema__registry__url": "http://127.0.0.1:1"}, part, some),
    ]:
        of = f"{topic}-{len(frame)}"
        fill(broker, of, [frame + record, None, frame + record[:-1]], rounds=2)
        source = options(
            broker,
            of,
            value__format="protobuf",
            value__schema=str(file),
            value__message="p.Order",
            value__corrupt__column="bad",
            **more,
        )
        run = Stream(spark, source, tmp_path / of, columns=("value", "bad"), schema=schema)
        if schema is None:
            kinds = "id:bigint,state:string,lines:array<struct<sku:string,count:int>>,at:timestamp"
            assert dict(run.load().dtypes)["value"] == f"struct<{kinds},took:interval day to second>"
        found = rows(run.finish())
        good = [row["value"] for row in found if row["value"]]
        assert [{name: row[name] for name in wanted} for row in good] == [wanted] * 2
        bad = [row["bad"] for row in found if row["value"] is None]
        assert bad == [None] * 2 + [bytearray(frame + record[:-1])] * 2
        assert all(row["bad"] is None for row in found if row["value"])
