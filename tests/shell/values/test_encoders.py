"""Columns of structs become records: decode(encode(x)) = x, beside fastavro and Google's library, and what a schema can't hold."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import message_factory
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sparkcohort.runtime.errors import CohortError, OptionError
from sparkcohort.runtime.shell.values.arrow_types import arrow_type
from sparkcohort.runtime.shell.values.avro_decoder import AvroValues
from sparkcohort.runtime.shell.values.avro_encoder import AvroRecords
from sparkcohort.runtime.shell.values.json_decoder import JsonValues
from sparkcohort.runtime.shell.values.json_encoder import JsonRecords
from sparkcohort.runtime.shell.values.protobuf_decoder import ProtobufValues
from sparkcohort.runtime.shell.values.protobuf_encoder import ProtobufRecords
from sparkcohort.runtime.shell.values.records_by_format import encoded
from sparkcohort.runtime.values.avro_columns import column_type
from sparkcohort.runtime.values.avro_schema import parse_schema
from sparkcohort.runtime.values.encodings import Encoding, check_column
from sparkcohort.runtime.values.formats import Decoding, Format, with_schema
from sparkcohort.runtime.values.json_zone import zone_table
from sparkcohort.runtime.values.protobuf_descriptor import parse_message
from sparkcohort.runtime.values.types import BIGINT, INT, STRING, ColumnType, array, mapping, struct
from tests.kit import avro_schemas, json_records, protobuf_schemas
from tests.kit.plain_rows import plain_rows
from tests.kit.protobuf_schemas import Proto, field, file_set, message
from tests.kit.tier import of_tier

EXAMPLES = settings(
    max_examples=of_tier(quick=50, thorough=500), suppress_health_check=list(HealthCheck), deadline=None
)
TIMES = ("timestamp", "timestamp_ntz")


def column(kind: ColumnType, *rows: Any) -> pa.Array:
    """A column of structs."""
    return pa.array(rows, arrow_type(kind))


def avro(schema: Any, kind: ColumnType, *rows: Any) -> Encoding:
    """The encoding by a schema, checked."""
    made = Encoding("value", with_schema("value", Decoding(Format.AVRO), json.dumps(schema)), type=kind)
    check_column(made)
    return made


def refused(encoding: Encoding, *rows: Any) -> str:
    """What is said of rows that the schema can't hold."""
    with pytest.raises(CohortError) as caught:
        encoded(encoding, column(encoding.type, *rows), pa.array(["orders"] * len(rows)))
    return str(caught.value)


def comparable(value: Any, kind: ColumnType) -> Any:
    """A plain value with the milliseconds of its times, the last one of each of a map's keys, and NaN as itself."""
    if value is None:
        return None
    if kind.kind == "struct":
        return {name: comparable(value[name], child) for name, child in zip(kind.names, kind.children, strict=True)}
    if kind.kind == "array":
        return [comparable(each, kind.children[0]) for each in value]
    if kind.kind == "map":
        return {name: comparable(each, kind.children[1]) for name, each in value}
    if kind.kind in TIMES:
        return value // 1000 * 1000
    return repr(value) if kind.kind in ("float", "double") else value


# --- JSON -------------------------------------------------------------------------------------------


@EXAMPLES
@given(st.data())
def test_json_is_read_back(data: st.DataObject) -> None:
    """Drawn types and values, but for the microseconds of times."""
    kind = data.draw(json_records.types())
    records = data.draw(st.lists(json_records.objects(kind).map(str.encode), max_size=4))
    decoder = JsonValues(kind)
    rows, _ = decoder.decode(pa.array([*records, None], pa.binary()))
    again, bad = decoder.decode(JsonRecords("UTC").encode(rows))
    assert not bad
    assert [comparable(row, kind) for row in plain_rows(again)] == [comparable(row, kind) for row in plain_rows(rows)]
    part = JsonRecords("UTC").encode(rows.slice(1)).to_pylist()
    assert part == JsonRecords("UTC").encode(rows).to_pylist()[1:]


def test_json_is_what_to_json_writes() -> None:
    """Nulls, numbers as Java has them, escapes, times of a zone, years of five digits; test_json_beside_spark asks Spark."""
    kinds = {each: ColumnType(each) for each in ("float", "double", "string", "binary", "date", *TIMES)}
    inner = struct({"n": INT})
    kind = struct({**kinds, "l": array(inner), "m": mapping(inner)})
    at = int(datetime(2026, 7, 1, 10, 0, 0, 123999, UTC).timestamp() * 1_000_000)
    row = {
        "float": 0.1,
        "double": -1e22,
        "string": 'ü"\\\n\x01',
        "binary": b"abc",
        "date": 2932897,
        "timestamp": at,
        "timestamp_ntz": -1,
        "l": [{"n": 1}, {}, None],
        "m": [("a", {"n": None}), ("b", None)],
    }
    records = JsonRecords("Europe/Berlin").encode(column(kind, row, {}, None)).to_pylist()
    assert records[1:] == [b"{}", None]
    assert records[0].decode() == (
        r'{"float":0.1,"double":-1.0E22,"string":"ü\"\\\n\u0001","binary":"YWJj","date":"+10000-01-01",'
        r'"timestamp":"2026-07-01T12:00:00.123+02:00","timestamp_ntz":"1969-12-31T23:59:59.999",'
        r'"l":[{"n":1},{},null],"m":{"a":{},"b":null}}'
    )


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Pacific/Apia", "Africa/Casablanca", "-03:30"])
def test_times_of_a_zone_are_read_back(zone: str) -> None:
    """Each hour that a clock shows twice or leaves out, and those of centuries gone and to come."""
    kind = struct({"at": ColumnType("timestamp")})
    seconds = [
        -9_000_000_000,
        *range(-3_000_000_000, 4_000_000_000, 1_234_567),
        *range(1_793_000_000, 1_794_000_000, 1200),
        90_000_000_000,
    ]
    times = column(kind, *({"at": second * 1_000_000} for second in seconds))
    again, _ = JsonValues(kind, zone=zone_table(zone)).decode(JsonRecords(zone).encode(times))
    assert again.equals(times)
    assert (
        JsonRecords()
        .encode(times.cast(pa.struct([("at", pa.timestamp("us", zone))])))
        .equals(JsonRecords(zone).encode(times))
    )


def test_the_sessions_zone_may_be_unknown() -> None:
    """The option is named."""
    times = pa.array([{"at": 0}], pa.struct([("at", pa.timestamp("us", "Mars/Olympus"))]))
    with pytest.raises(OptionError, match=r"option value\.timezone, .* is no time zone of this host"):
        JsonRecords().encode(times)


# --- Avro -------------------------------------------------------------------------------------------


@EXAMPLES
@given(st.data())
def test_avro_is_read_back(data: st.DataObject) -> None:
    """Drawn schemas and values, by our decoder and by fastavro."""
    schema = data.draw(avro_schemas.schemas())
    records = [
        avro_schemas.encode(schema, value) for value in data.draw(st.lists(avro_schemas.values(schema), max_size=4))
    ]
    decoder = AvroValues(parse_schema(json.dumps(schema)))
    rows, _ = decoder.decode(pa.array(records, pa.binary()))
    written = AvroRecords(json.dumps(schema)).encode(rows)
    again, bad = decoder.decode(pa.array(written, pa.binary()))
    assert not bad
    assert again.equals(rows)
    assert [by_fastavro(schema, record) for record in written] == [by_fastavro(schema, record) for record in records]


def by_fastavro(schema: Any, record: bytes) -> Any:
    """What fastavro reads; NaN is never drawn."""
    return fastavro.schemaless_reader(io.BytesIO(record), schema, schema)


def record(*fields: tuple[str, Any], **defaults: Any) -> dict[str, Any]:
    """A record's schema."""
    plain = [{"name": name, "type": kind} for name, kind in fields]
    return {
        "type": "record",
        "name": "R",
        "fields": [
            {**each, **({"default": defaults[each["name"]]} if each["name"] in defaults else {})} for each in plain
        ],
    }


def test_avros_logical_types() -> None:
    """Times by their units, days, decimals on bytes and on fixed, and a field that only the schema has."""
    schema = record(
        ("day", {"type": "int", "logicalType": "date"}),
        ("ms", {"type": "long", "logicalType": "timestamp-millis"}),
        ("us", ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]),
        ("d", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}),
        ("f", {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 1}),
        ("more", "string"),
        ("none", ["int", "null"]),
        more="x",
    )
    kind = column_type(parse_schema(json.dumps(schema)))
    part = struct(
        {name: child for name, child in zip(kind.names, kind.children, strict=True) if name not in ("more", "none")}
    )
    row = {"day": -1, "ms": -1, "us": 5, "d": Decimal("-123.45"), "f": Decimal("1.5")}
    records = encoded(avro(schema, part), column(part, row, None), pa.array(["t", "t"])).to_pylist()
    rows, bad = AvroValues(parse_schema(json.dumps(schema))).decode(pa.array(records, pa.binary()))
    assert not bad
    assert plain_rows(rows) == [{**row, "ms": -1000, "more": "x", "none": None}, None]


def test_rows_that_avros_schema_cant_hold() -> None:
    """The error names topic, field, option and how many rows, never a value."""
    colour = {"type": "enum", "name": "E", "symbols": ["RED"]}
    schema = record(("id", "long"), ("tags", {"type": "array", "items": "string"}), ("c", ["null", colour]))
    made = avro(schema, struct({"id": BIGINT, "tags": array(STRING), "c": STRING}))
    good = {"id": 1, "tags": [], "c": None}
    text = refused(made, good, {**good, "id": None})
    assert text.startswith(
        "rows for topic 'orders' can't be written with option value.format=avro: value.id: 1 of 2 are null"
    )
    assert "value.schema" in text
    assert "value.tags[]: 1 of 2 are null" in refused(made, {**good, "tags": ["secret", None]})
    text = refused(made, {**good, "c": "secret"}, {**good, "c": "RED"})
    assert "value.c: 1 of 2 are no symbol of the enum" in text
    assert "secret" not in text
    part = avro(schema, struct({"id": BIGINT}))
    assert "value.tags: there is no such field, and in the schema it has neither a default nor null" in refused(
        part, {"id": 1}
    )
    fixed = avro(record(("f", {"type": "fixed", "name": "F", "size": 2})), struct({"f": ColumnType("binary")}))
    assert "value.f: 1 of 1 have not 2 bytes" in refused(fixed, {"f": b"abc"})
    members = struct({"member0": INT, "member1": STRING})
    union = avro(record(("u", ["int", "string"])), struct({"u": members}))
    assert "value.u: 1 of 2 have not exactly one member" in refused(
        union, {"u": {"member0": 1}}, {"u": {"member0": 1, "member1": "secret"}}
    )


# --- Protobuf ---------------------------------------------------------------------------------------


@EXAMPLES
@given(st.data())
def test_protobuf_is_read_back(data: st.DataObject) -> None:
    """Drawn messages, but for numbers that their enums lack."""
    schema = data.draw(protobuf_schemas.sets())
    of = protobuf_schemas.descriptor(schema)
    assume(any(map(protobuf_schemas.has_column, of.fields)))
    decoder = ProtobufValues(parse_message(schema, "p.M0"))
    drawn = data.draw(st.lists(protobuf_schemas.records(of), max_size=4))
    rows, _ = decoder.decode(pa.array(drawn, pa.binary()))
    rows = rows.drop_null()
    assume("UNKNOWN_ENUM_VALUE" not in str(rows.to_string(window=10_000)))
    written = ProtobufRecords(parse_message(schema, "p.M0"), schema).encode(rows)
    again, bad = decoder.decode(pa.array(written, pa.binary()))
    assert not bad
    first, second = ([comparable(row, decoder.target) for row in plain_rows(each)] for each in (rows, again))
    assert first == second


def test_rows_that_a_message_cant_hold() -> None:
    """A name that the enum lacks, a null in a list, a field that is required: by path, without a value."""
    schema = file_set(
        message(
            "M",
            field("e", 1, Proto.TYPE_ENUM, type_name=".p.E"),
            field("l", 2, Proto.TYPE_INT32, Proto.LABEL_REPEATED),
            field("r", 3, Proto.TYPE_INT32, Proto.LABEL_REQUIRED),
        ),
        syntax="proto2",
        enums=(protobuf_schemas.enum(),),
    )
    values = ProtobufRecords(parse_message(schema, "p.M"), schema)
    kind = struct({"e": STRING, "l": array(INT), "r": INT})
    for row, text in [
        ({"e": "secret", "r": 1}, r"value\.e: 1 of 1 are no name of the enum p\.E"),
        ({"l": [1, None], "r": 1}, r"value\.l\[\]: 1 of 2 are null"),
        ({"l": []}, r"value\.r: 1 of 1 are null"),
    ]:
        with pytest.raises(ValueError, match=text):
            values.encode(column(kind, row))
    with pytest.raises(ValueError, match=r"value\.r: there is no such field, and the message requires it"):
        values.encode(column(struct({"e": STRING}), {}))
    made = message_factory.GetMessageClass(protobuf_schemas.descriptor(schema, "p.M"))
    assert made.FromString(values.encode(column(kind, {"e": "MINUS", "l": [1], "r": 0}))[0]) == made(
        e="MINUS", l=[1], r=0
    )
