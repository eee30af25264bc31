"""Structs into Kafka by ``value.format``, and back: with a registry, beside Spark's own ``to_json``, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import message_factory
from pyspark.sql import SparkSession

from tests.kit.batch_reads import load, told
from tests.kit.broker import Broker
from tests.kit.protobuf_schemas import ORDERS, descriptor
from tests.kit.registry import serving
from tests.kit.writes import LineStream, stored, values, write

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a query slow

ORDER = "struct(id, CAST(id AS STRING) AS name, timestamp_micros(id) AS at, array(id, NULL) AS list, CAST(id AS DECIMAL(9,2)) AS price)"


def test_avro_with_a_registry_is_read_back(spark: SparkSession, broker: Broker, topic: str) -> None:
    """Keys and values, a tombstone among them, by the same options as the read; a row that the schema can't hold ends the write."""
    rows = spark.range(100).selectExpr("struct(id % 7 AS n) AS key", f"IF(id = 5, NULL, {ORDER}) AS value")
    broker.admin.create_topic(topic)
    with serving(user_info="me:hidden") as registry:
        options: dict[str, Any] = {
            "key__format": "avro",
            "value__format": "avro",
            "schema__registry__url": registry.url,
            "schema__registry__basic__auth__user__info": "me:hidden",
        }
        write(rows, broker, "cohort", topic=topic, **options)
        found = load(spark, broker, topic, "cohort", **options).select("key", "value")
        assert sorted(map(repr, found.collect())) == sorted(map(repr, rows.collect()))
        schema = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}'
        nulls = spark.sql("SELECT struct(CAST(NULL AS BIGINT) AS id) AS value")
        text = told(lambda: write(nulls, broker, "cohort", topic=topic, value__format="avro", value__schema=schema))
        assert (
            f"rows for topic '{topic}' can't be written with option value.format=avro: value.id: 1 of 1 are null"
            in text
        )


def test_protobuf_is_read_back(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """By a registry's frame and without one, where Google's library reads it; a tombstone; what is no name of the enum ends the write."""
    file = tmp_path / "orders.desc"
    file.write_bytes(ORDERS)
    line = "named_struct('sku', CAST(id AS STRING), 'count', IF(id % 2 = 0, NULL, CAST(id AS INT)))"
    order = f"named_struct('id', id, 'state', 'B', 'lines', array({line}), 'at', timestamp_millis(id), 'took', make_dt_interval(0, 0, 0, id))"
    rows = spark.range(1, 50).selectExpr(f"IF(id = 5, NULL, {order}) AS value")
    options: dict[str, Any] = {"value__format": "protobuf", "value__schema": str(file), "value__message": "p.Order"}
    with serving() as registry:
        for target, more in ((f"{topic}-plain", {}), (f"{topic}-framed", {"schema__registry__url": registry.url})):
            broker.admin.create_topic(target)
            write(rows, broker, "cohort", topic=target, **options, **more)
            found = load(spark, broker, target, "cohort", **options, **more).select("value")
            assert sorted(map(repr, found.collect())) == sorted(map(repr, rows.collect()))
    google = message_factory.GetMessageClass(descriptor(ORDERS, "p.Order"))
    read = [google.FromString(bytes(row.value)) for row in stored(spark, broker, f"{topic}-plain") if row.value]
    assert sorted((each.id, each.state, each.lines[0].sku, each.at.nanos) for each in read) == [
        (number, 1, str(number), number * 1_000_000) for number in range(1, 50) if number != 5
    ]
    other = spark.range(1).selectExpr("named_struct('id', id, 'state', 'Z') AS value")
    text = told(lambda: write(other, broker, "cohort", topic=f"{topic}-plain", **options))
    assert f"rows for topic '{topic}-plain' can't be written with option value.format=protobuf: value.state" in text


def test_a_stream_of_json_is_that_of_to_json(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Byte for byte, in the session's time zone."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    struct = (
        "struct(value AS text, TIMESTAMP'2026-07-01 12:00:00.5' AS at, CAST(NULL AS INT) AS none, map('a', 1.5D) AS m)"
    )
    ways: dict[str, tuple[str, dict[str, str]]] = {
        "struct": (struct, {"value__format": "json"}),
        "text": (f"to_json({struct})", {}),
    }
    try:
        for name, (select, more) in ways.items():
            target = f"{topic}-{name}"
            broker.admin.create_topic(target)
            LineStream(
                spark, tmp_path / name, broker, "cohort", select=(f"{select} AS value",), topic=target, **more
            ).run('a "quoted" line', "ü")
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    ours, theirs = (values(spark, broker, f"{topic}-{name}") for name in ways)
    assert ours == theirs
    assert '"at":"2026-07-01T12:00:00.500-04:00"' in ours[0]
