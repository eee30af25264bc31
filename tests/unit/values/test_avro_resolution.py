"""Avro's rules for reading what another schema has written; ``test_avro_beside_spark`` has Spark's reading."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkcohort.runtime.shell.values.avro_decoder import AvroValues
from sparkcohort.runtime.values.avro_resolution import resolve
from sparkcohort.runtime.values.avro_schema import parse_schema
from sparkcohort.runtime.values.avro_steps import AvroStep
from sparkcohort.runtime.values.steps import StepList
from sparkcohort.runtime.values.types import ColumnType, struct
from tests.kit import avro_schemas as drawn
from tests.kit.plain_rows import plain_rows
from tests.kit.tier import of_tier


def steps_for(writer: Any, reader: Any) -> StepList[AvroStep]:
    """The list of steps for two schemas in JSON."""
    return resolve(parse_schema(json.dumps(writer)), parse_schema(json.dumps(reader)))


def read(
    writer: Any, reader: Any, *records: bytes | None, target: ColumnType | None = None
) -> tuple[list[Any], list[str]]:
    """The rows that the records become, and what was wrong with those that became null."""
    values = AvroValues(parse_schema(json.dumps(reader)), target, writer=parse_schema(json.dumps(writer)))
    rows, bad = values.decode(pa.array(records, pa.binary()))
    return plain_rows(rows), [record.message for record in bad]


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    """A record's schema."""
    return {"type": "record", "name": name, "fields": list(fields)}


LONG_MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
LONG_MICROS = {"type": "long", "logicalType": "timestamp-micros"}


def test_a_writers_unit_counts() -> None:
    """Milliseconds stay milliseconds when the reader's schema says microseconds; a plain long is what the reader says."""
    assert read(LONG_MILLIS, LONG_MICROS, b"\x02") == ([1000], [])
    assert read(LONG_MICROS, LONG_MILLIS, b"\x02") == ([1], [])
    assert read("long", LONG_MILLIS, b"\x02") == ([1000], [])
    assert read("int", LONG_MICROS, b"\x02") == ([1], [])
    nanos = {"type": "long", "logicalType": "timestamp-nanos"}
    assert read(nanos, LONG_MICROS, b"\x02")[1] == [
        "the writer's schema does not fit the reader's: timestamp-nanos can't be read as a timestamp (at byte 0)"
    ]


def test_a_decimal_keeps_its_scale() -> None:
    """Digits may become more or fewer, as long as they fit; another scale would be another number."""

    def money(precision: int, scale: int) -> dict[str, Any]:
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}

    rows, errors = read(money(9, 2), money(3, 2), b"\x04\x03\xe7", b"\x04\x03\xe8", b"\x02\xff", b"\x00")
    assert [None if row is None else str(row) for row in rows] == ["9.99", None, "-0.01", None]
    assert errors == [
        "a decimal has more digits than its type, or no byte (at byte 3)",
        "a decimal has more digits than its type, or no byte (at byte 1)",
    ]
    assert "scale 2" in read(money(9, 2), money(9, 3), b"\x02\x01")[1][0]


def test_a_default_is_read_as_bytes_are() -> None:
    """Bytes as code points, nested ones, those of inner fields; one that does not fit fails the records."""
    inner = record({"name": "a", "type": "int"}, {"name": "b", "type": "string", "default": "x"}, name="Inner")
    reader = record(
        {"name": "raw", "type": "bytes", "default": "\x00\xff"},
        {"name": "all", "type": {"type": "array", "items": inner}, "default": [{"a": 1}, {"a": 2, "b": "y"}]},
        {"name": "either", "type": ["string", "int", "null"], "default": 5},
    )
    rows, errors = read(record(), reader, b"")
    assert errors == []
    assert rows == [
        {
            "raw": b"\x00\xff",
            "all": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}],
            "either": {"member0": None, "member1": 5},
        }
    ]
    assert (
        "at n: a default that is no int"
        in read(record(), record({"name": "n", "type": "int", "default": "1"}), b"")[1][0]
    )


def test_a_default_that_holds_itself_ends() -> None:
    """A record inside of itself by its defaults is told as such."""
    text = record({"name": "self", "type": "R", "default": {}})
    writer, reader = parse_schema(json.dumps(record(name="Old"))), parse_schema(json.dumps(text))
    target = struct({"self": struct({})})
    assert b"a default that never ends" in resolve(writer, reader, target).constants[0]


def test_only_what_is_asked_for_is_read() -> None:
    """Other fields become skips, neighbours one skip, lists by their blocks' sizes, and records a routine each."""
    tree = record(
        {"name": "kids", "type": {"type": "array", "items": "Tree"}}, {"name": "weight", "type": "float"}, name="Tree"
    )
    schema = record(
        {"name": "a", "type": "double"},
        {"name": "b", "type": "float"},
        {"name": "c", "type": "int"},
        {"name": "d", "type": "int"},
        {"name": "id", "type": ["null", "string"]},
        {"name": "tree", "type": tree},
        {"name": "spots", "type": {"type": "array", "items": "double"}},
        {"name": "any", "type": ["null", "string", {"type": "map", "values": "bytes"}]},
    )
    reader = record({"name": "id", "type": ["null", "string"]})
    assert len(steps_for(schema, reader).steps) == 22
    value = {
        "a": 1.0,
        "b": 1.0,
        "c": 1,
        "d": 1,
        "id": "me",
        "tree": {"kids": [{"kids": [], "weight": 1.0}] * 3, "weight": 2.0},
        "spots": [1.0, 2.0],
        "any": {"k": b"v"},
    }
    assert read(schema, reader, drawn.encode(schema, value)) == ([{"id": "me"}], [])


@settings(max_examples=of_tier(quick=25, thorough=200))
@given(st.data())
def test_any_part_of_a_record_can_be_asked_for(data: st.DataObject) -> None:
    """What is left of the columns has the values that it has among all."""
    schema = data.draw(drawn.schemas())
    full = steps_for(schema, schema).target
    asked = [name for name in full.names if data.draw(st.booleans())]
    fields = dict(zip(full.names, full.children, strict=True))
    part = struct({name: fields[name] for name in asked})
    encoded = drawn.encode(schema, data.draw(drawn.values(schema)))
    (whole,), _ = read(schema, schema, encoded)
    assert read(schema, schema, encoded, target=part) == ([{name: whole[name] for name in asked}], [])


def test_items_without_bytes_are_bounded() -> None:
    """Three bytes that say a million nulls are a bad record, not a million rows; so are they where nobody asked."""
    empty = {"type": "array", "items": record(name="Empty")}
    rows, wrong = read(empty, empty, bytes.fromhex("80897a00"), b"\x04\x00")
    assert (rows, len(wrong)) == ([None, [{}, {}]], 1)


def test_a_writer_that_does_not_fit_is_told_by_its_records() -> None:
    """With the field and the reason."""
    number = record({"name": "a", "type": "int"})
    for writer, reason in (
        (record({"name": "a", "type": "string"}), "a: string can't be read as int"),
        (record(), "a: the writer has no such field, and it has no default"),
    ):
        assert reason in read(writer, number, b"\2")[1][0]


def test_schemas_that_double_at_every_level_are_no_way_to_hold_us_up() -> None:
    """Each record has the one before it twice: what is skipped, counted or a default has no end that anybody sees."""
    inner: Any = record(name="R0")
    for level in range(1, 31):
        again = {"name": "b", "type": f"R{level - 1}", "default": {}}
        inner = record({"name": "a", "type": inner, "default": {}}, again, name=f"R{level}")
    old = record({"name": "a", "type": {"type": "array", "items": inner}}, {"name": "id", "type": "int"}, name="Old")
    steps = resolve(parse_schema(json.dumps(old)), parse_schema(json.dumps(record({"name": "id", "type": "int"}))))
    assert len(steps.steps) < 200
    new = parse_schema(json.dumps(record({"name": "a", "type": inner, "default": {}}, name="New")))
    failing = resolve(parse_schema(json.dumps(record(name="New"))), new, struct({"a": struct({})}))
    assert b"a default that never ends" in failing.constants[0]
