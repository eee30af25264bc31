"""Records beside Spark's own ``to_json`` and ``to_avro``: the same bytes; each difference is one that the page names."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import types as spark_types

from sparkcohort.runtime.shell.values.avro_encoder import AvroRecords
from sparkcohort.runtime.shell.values.json_decoder import JsonValues
from sparkcohort.runtime.shell.values.json_encoder import JsonRecords
from sparkcohort.runtime.values.avro_of_spark import avro_schema
from sparkcohort.runtime.values.avro_schema import AvroSchema, parse_schema
from sparkcohort.runtime.values.json_zone import zone_table
from sparkcohort.runtime.values.types import ColumnType, struct
from sparkcohort.streaming.data_types import data_type
from tests.kit import json_records as drawn
from tests.kit.spark_avro import SparkAvro

pytestmark = [pytest.mark.thorough("Spark's own functions, in a JVM of their own"), pytest.mark.timeout(300)]

NUMBER = re.compile(rb"-?[0-9]+\.[0-9]+(?:E-?[0-9]+)?")


def ddl(kind: ColumnType) -> str:
    """The columns of a struct."""
    return ", ".join(f"`{name}` {child}" for name, child in zip(kind.names, kind.children, strict=True))


def by_value(record: bytes | None) -> bytes | None:
    """The same with numbers by their values: Java before 19 writes some with more digits than are needed."""
    return record and NUMBER.sub(lambda number: repr(float(number[0])).encode(), record)


def without_numbers(record: bytes | None) -> bytes | None:
    """The text around the numbers."""
    return record and NUMBER.sub(b"#", record)


@settings(max_examples=300, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.data())
def test_json_is_that_of_to_json(sparks: SparkAvro, data: st.DataObject) -> None:
    """Drawn types, and values of all kinds."""
    kind = data.draw(drawn.types(rare=False))
    record = data.draw(drawn.objects(kind, rare=False)).encode()
    rows, _ = JsonValues(kind).decode(pa.array([record], pa.binary()))
    sparks.columns(ddl(kind) or "_corrupt STRING")
    ours, theirs = JsonRecords("UTC").encode(rows)[0].as_py(), sparks.to_json(record)
    assert without_numbers(ours) == without_numbers(theirs)
    read, _ = JsonValues(kind).decode(pa.array([theirs], pa.binary()))
    assert JsonRecords("UTC").encode(read)[0].as_py() == ours  # a FLOAT's digits are those of a FLOAT


@pytest.mark.parametrize("kind", ["float", "double"])
def test_numbers_are_javas(sparks: SparkAvro, kind: str) -> None:
    """The limits of Java's plain form, the smallest and the largest, and what is no number."""
    numbers = "0 -0.0 1 1e-3 0.00099999 9999999 1e7 12345678 1e22 1e23 4.9e-324 1e-45 3.4e38 1.7976931348623157e308 0.1 16777216"
    of = struct({"n": ColumnType(kind)})
    sparks.columns(ddl(of))
    for number in [*numbers.split(), '"NaN"', '"Infinity"', '"-Infinity"']:
        record = f'{{"n":{number}}}'.encode()
        rows, _ = JsonValues(of).decode(pa.array([record], pa.binary()))
        ours, theirs = JsonRecords().encode(rows)[0].as_py(), sparks.to_json(record)
        assert ours == theirs or (len(ours) < len(theirs or b"") and by_value(ours) == by_value(theirs)), number


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata", "Pacific/Apia", "Africa/Casablanca", "-03:30"])
def test_times_are_those_of_the_session(sparks: SparkAvro, zone: str) -> None:
    """Of all centuries."""
    of = struct({"at": ColumnType("timestamp"), "day": ColumnType("date")})
    years = (
        "-0044",
        "0000",
        "0001",
        "1850",
        "1911",
        "1969",
        "2011",
        "2026",
        "2040",
        "2436",
        "2437",
        "9999",
        "+12345",
        "+200000",
    )
    texts = [
        f"{year}-{rest}"
        for year in years
        for rest in ("03-08 02:30:00.123456Z", "12-30 23:59:59.999Z", "07-01 00:00:00Z")
    ]
    sparks.zone(zone)
    try:
        sparks.columns(ddl(of))
        for text in texts:
            record = f'{{"at":"{text}","day":"{text[:-4]}"}}'.encode()
            rows, _ = JsonValues(of, zone=zone_table(zone)).decode(pa.array([record], pa.binary()))
            assert JsonRecords(zone).encode(rows)[0].as_py() == sparks.to_json(record), text
    finally:
        sparks.zone("UTC")


def tree(schema: AvroSchema) -> Any:
    """All of a schema."""
    inside = [(each.name, tree(each.schema)) for each in schema.fields]
    return schema.kind, schema.name, schema.logical, schema.size, schema.items and tree(schema.items), inside, [
        tree(each) for each in schema.branches
    ]  # fmt: skip


def _as_stored(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema whose values are read as they are stored: Python's dates begin with the year 1."""
    return {name: value for name, value in schema.items() if name != "logicalType"}


@settings(max_examples=150, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.data())
def test_avro_is_that_of_to_avro(sparks: SparkAvro, data: st.DataObject) -> None:
    """Drawn types: the schema that Spark has for them, and what fastavro reads of both records."""
    kind = data.draw(drawn.types(rare=False))
    record = data.draw(drawn.objects(kind, rare=False)).encode()
    columns = ddl(kind)
    schema = json.dumps(avro_schema(data_type(kind).jsonValue()))
    if columns:
        assert tree(parse_schema(schema)) == tree(parse_schema(json.dumps(sparks.avro_type(columns))))
        rows, _ = JsonValues(kind).decode(pa.array([record], pa.binary()))
        sparks.columns(columns)
        ours, theirs = (
            fastavro.schemaless_reader(io.BytesIO(written), json.loads(schema, object_hook=_as_stored), None)
            for written in (*AvroRecords(schema).encode(rows), sparks.to_avro(record, schema))
        )
        assert ours == theirs  # Java's maps have no order


def test_what_is_not_null_has_no_union(sparks: SparkAvro) -> None:
    """In structs, lists and maps."""
    whole, text = spark_types.IntegerType(), spark_types.StringType()
    kind = spark_types.StructType(
        [
            spark_types.StructField("a", whole, nullable=False),
            spark_types.StructField("l", spark_types.ArrayType(text, containsNull=False)),
            spark_types.StructField("d", spark_types.DecimalType(38, 2), nullable=False),
        ]
    )
    ours = avro_schema(kind.jsonValue())
    theirs = sparks.avro_type("a INT NOT NULL, l ARRAY<STRING>, d DECIMAL(38,2) NOT NULL")
    assert tree(parse_schema(json.dumps(ours))).__repr__().count("null") == 1
    ours["fields"][1]["type"][0]["items"] = ["string", "null"]  # DDL can't say NOT NULL of an element
    assert tree(parse_schema(json.dumps(ours))) == tree(parse_schema(json.dumps(theirs)))
