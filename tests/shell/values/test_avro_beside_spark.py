"""Avro beside Spark's own ``from_avro``: types, values and bad records; each difference is one that the page names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkcohort.runtime.shell.values.avro_decoder import AvroValues
from sparkcohort.runtime.values.avro.columns import column_type
from sparkcohort.runtime.values.avro.interpreter import AvroReader
from sparkcohort.runtime.values.avro.resolution import resolve
from sparkcohort.runtime.values.avro.schema import AvroSchemaError, parse_schema
from sparkcohort.runtime.values.avro.steps import AvroReason
from tests.kit import avro_schemas as drawn
from tests.kit.spark_avro import SparkAvro, shown

STRICTER = {
    AvroReason.TRAILING,
    AvroReason.VARINT,
    AvroReason.BOOLEAN,
    AvroReason.UTF8,
    AvroReason.ITEMS,
}
"""What we call a bad record and Spark reads all the same."""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkAvro]:
    """One JVM for all of them."""
    with SparkAvro() as running:
        yield running


def parsed(schema: Any) -> Any:
    """The schema that JSON describes."""
    return parse_schema(json.dumps(schema))


LOGICAL = [
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "timestamp-nanos"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
    {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3},
    {"type": "fixed", "name": "D", "size": 8, "logicalType": "decimal", "precision": 18, "scale": 18},
    {"type": "fixed", "name": "D", "size": 8, "logicalType": "decimal", "precision": 19},
    ["null", {"type": "map", "values": ["long", "int", "null"]}],
    ["float", "double", "null"],
    ["float", "long"],
]


@pytest.mark.parametrize("schema", LOGICAL, ids=str)
def test_types_are_sparks(spark: SparkAvro, schema: Any) -> None:
    """Logical types, and unions that are one column."""
    assert str(column_type(parsed(schema))) == spark.type_of(schema)


def test_types_that_are_not_sparks(spark: SparkAvro) -> None:
    """Where Spark has a type that is switched off, or that nothing can be done with."""
    micros = {"type": "long", "logicalType": "time-micros"}
    assert (spark.type_of(micros), str(column_type(parsed(micros)))) == ("time(6)", "bigint")
    for schema, theirs in [("null", "void"), (["null"], "struct<>")]:
        assert spark.type_of(schema) == theirs
        with pytest.raises(AvroSchemaError, match="null alone has no column"):
            column_type(parsed(schema))


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_drawn_types_are_sparks(spark: SparkAvro, data: st.DataObject) -> None:
    """Whatever is nested in what."""
    schema = data.draw(drawn.schemas())
    assert str(column_type(parsed(schema))) == spark.type_of(schema)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_records_are_what_spark_makes_of_them(spark: SparkAvro, data: st.DataObject) -> None:
    """Drawn pairs of schemas, good records and broken ones: the same values, bit by bit, and the same ones bad."""
    writer = data.draw(drawn.schemas())
    reader = data.draw(drawn.evolved(writer))
    assert spark.schemas(writer, reader) == "ok"
    steps = resolve(parsed(writer), parsed(reader))
    good = drawn.encode(writer, data.draw(drawn.values(writer)))
    for record in (good, data.draw(st.binary(max_size=20)), good[: data.draw(st.integers(0, len(good)))]):
        ours = AvroReader(steps.target)
        error = ours.read(record, steps)
        theirs = spark.record(record)
        if error is None:
            assert shown(ours.root.rows()[0], steps.target) == theirs, (record.hex(), str(steps))
        elif error.reason not in STRICTER:
            assert theirs is None, (record.hex(), str(error), str(steps))


VALUES: list[tuple[Any, Any, str]] = [
    (LOGICAL[0], LOGICAL[0], "8901"),
    (LOGICAL[2], LOGICAL[2], "f0cce9d5dc5c"),
    (LOGICAL[2], LOGICAL[2], "ffffffffffffffffff01"),
    (LOGICAL[3], LOGICAL[3], "ffffffffffffffffff01"),
    (LOGICAL[5], LOGICAL[5], "0f"),
    (LOGICAL[6], LOGICAL[6], "0f"),
    (LOGICAL[10], LOGICAL[10], "0400ff"),
    (LOGICAL[10], LOGICAL[10], "02ff"),
    (LOGICAL[10], LOGICAL[10], "00"),
    (LOGICAL[10], LOGICAL[10], "08773593ff"),
    (LOGICAL[12], LOGICAL[12], "00000000000000ff"),
    ("int", {"type": "long", "logicalType": "timestamp-millis"}, "04"),
    ("bytes", LOGICAL[10], "020a"),
    (LOGICAL[10], "bytes", "020a"),
    ("long", "float", "ffffffffffffffff7f"),
    ("int", "float", "ffffffff0f"),
    ("long", "double", "ffffffffffffffff7f"),
    ("float", "double", "cdcccc3d"),
]


@pytest.mark.parametrize(("writer", "reader", "record"), VALUES)
def test_values_at_their_limits(spark: SparkAvro, writer: Any, reader: Any, record: str) -> None:
    """Dates, times, decimals and promotions, in C."""
    assert spark.schemas(writer, reader) == "ok"
    decoder = AvroValues(parsed(reader), writer=parsed(writer))
    rows, _ = decoder.decode(pa.array([bytes.fromhex(record)]))
    plain = rows.cast(
        {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_ntz": pa.int64()}.get(decoder.target.kind, rows.type)
    )
    assert shown(plain[0].as_py(), decoder.target) == spark.record(bytes.fromhex(record))


def test_where_spark_reads_something_else(spark: SparkAvro) -> None:
    """A frame that nobody cut off, a unit or a scale that has changed: Spark has another value, we the right one or none."""
    order = {"type": "record", "name": "O", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}]}
    framed = b"\0\0\0\0\7" + drawn.encode(order, {"a": 5, "b": 6})
    spark.schemas(order, order)
    assert spark.record(framed) == {"a": 0, "b": 0}
    rows, bad = AvroValues(parsed(order)).decode(pa.array([framed]))
    assert rows.to_pylist() == [None]
    assert [each.reason for each in bad] == [AvroReason.TRAILING]

    spark.schemas(LOGICAL[2], LOGICAL[3])
    assert spark.record(b"\x02") == 1
    rows, _ = AvroValues(parsed(LOGICAL[3]), writer=parsed(LOGICAL[2])).decode(pa.array([b"\x02"]))
    assert rows.cast(pa.int64()).to_pylist() == [1000]

    coarse, fine = ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": scale} for scale in (2, 3))
    spark.schemas(coarse, fine)
    assert spark.record(b"\x02\x0a") == "n0.010"
    _, bad = AvroValues(parsed(fine), writer=parsed(coarse)).decode(pa.array([b"\x02\x0a"]))
    assert [each.reason for each in bad] == [AvroReason.UNRESOLVED]
