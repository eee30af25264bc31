"""Spark's types for Avro's, as ``from_avro`` of Spark 4.2 has them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sparkcohort.runtime.values.avro.columns import check_target, column_type
from sparkcohort.runtime.values.avro.schema import AvroSchemaError, parse_schema
from sparkcohort.runtime.values.types import BIGINT, BINARY, INT, STRING, ColumnType, array, mapping, struct


def columns(schema: Any, recursive_depth: int = -1) -> str:
    """Spark's type, in its words."""
    return str(column_type(parse_schema(json.dumps(schema)), recursive_depth))


def logical(kind: str, means: str, /, **more: Any) -> dict[str, Any]:
    """A type that stands for another."""
    return {"type": kind, "logicalType": means, **more}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "bigint"),
        ("float", "float"),
        ("double", "double"),
        ("bytes", "binary"),
        ("string", "string"),
        ({"type": "fixed", "name": "F", "size": 3}, "binary"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "array", "items": "long"}, "array<bigint>"),
        ({"type": "map", "values": ["null", "int"]}, "map<string,int>"),
        (logical("int", "date"), "date"),
        (logical("int", "time-millis"), "int"),
        (logical("long", "time-micros"), "bigint"),
        (logical("long", "timestamp-millis"), "timestamp"),
        (logical("long", "timestamp-micros"), "timestamp"),
        (logical("long", "timestamp-nanos"), "bigint"),
        (logical("long", "local-timestamp-millis"), "timestamp_ntz"),
        (logical("long", "local-timestamp-micros"), "timestamp_ntz"),
        (logical("string", "uuid"), "string"),
        (logical("fixed", "uuid", name="U", size=16), "binary"),
        (logical("fixed", "duration", name="D", size=12), "binary"),
        (logical("bytes", "decimal", precision=20, scale=4), "decimal(20,4)"),
        (logical("fixed", "decimal", name="D", size=8, precision=18), "decimal(18,0)"),
        (logical("fixed", "decimal", name="D", size=8, precision=19), "binary"),
        (["null", "string"], "string"),
        (["string"], "string"),
        (["int", "long"], "bigint"),
        (["long", "null", "int"], "bigint"),
        (["double", "float"], "double"),
        (["int", "string"], "struct<member0:int,member1:string>"),
        (["int", "null", "float"], "struct<member0:int,member1:float>"),
    ],
)
def test_types(schema: Any, expected: str) -> None:
    """One for each, unions included."""
    assert columns(schema) == expected


TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "v", "type": "int"}, {"name": "kids", "type": {"type": "array", "items": "Tree"}}],
}


def test_a_record_inside_of_itself_is_refused_unless_it_is_said_how_often() -> None:
    """As Spark's recursiveFieldMaxDepth: what would be one deeper is left out."""
    with pytest.raises(AvroSchemaError, match=r"at kids.items: record 'Tree' is inside of itself"):
        columns(TREE)
    assert columns(TREE, 1) == "struct<v:int>"
    assert columns(TREE, 2) == "struct<v:int,kids:array<struct<v:int>>>"
    with pytest.raises(AvroSchemaError, match="15 times at most"):
        columns(TREE, 16)


def test_what_spark_has_no_column_for_is_told_with_the_place() -> None:
    """Null alone, more digits than 38, more columns than anybody can read."""
    for schema, message in [
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "null"}]}, "at a: null alone"),
        (["null"], "null alone"),
        (logical("bytes", "decimal", precision=39), "a decimal of 39 digits"),
    ]:
        with pytest.raises(AvroSchemaError, match=message):
            columns(schema)
    doubling: Any = {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "int"}]}
    for level in range(1, 30):
        fields = [{"name": "a", "type": doubling}, {"name": "b", "type": f"R{level - 1}"}]
        doubling = {"type": "record", "name": f"R{level}", "fields": fields}
    with pytest.raises(AvroSchemaError, match="more than 10,000 columns"):
        columns(doubling)


WOOD: dict[str, Any] = {"type": "record", "name": "Wood", "fields": [{"name": "w", "type": "long"}]}
WOOD["fields"].append({"name": "kids", "type": {"type": "array", "items": "Wood"}})
FIELDS = {
    "id": "long",
    "by": ["null", "string"],
    "tags": {"type": "array", "items": WOOD},
    "marks": {"type": "map", "values": ["int", "string", "null"]},
    "sum": ["int", "long"],
}
ORDER = {"type": "record", "name": "O", "fields": [{"name": name, "type": kind} for name, kind in FIELDS.items()]}
MEMBERS = struct({"member0": INT, "member1": STRING})


@pytest.mark.parametrize(
    "target",
    [
        struct({}),
        struct({"by": STRING, "id": BIGINT}),
        struct({"tags": array(struct({"w": BIGINT}))}),
        struct({"tags": array(struct({"w": BIGINT, "kids": array(struct({"kids": array(struct({}))}))}))}),
        struct({"marks": mapping(MEMBERS)}),
        struct({"marks": mapping(struct({"member1": STRING})), "sum": BIGINT}),
    ],
    ids=str,
)
def test_what_is_left_of_a_type_may_be_asked_for(target: ColumnType) -> None:
    """Some of the fields, in any order, at every depth; a record inside of itself as deep as it is asked for."""
    check_target(parse_schema(json.dumps(ORDER)), target)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (BIGINT, "Avro schema: its column is struct, not bigint"),
        (struct({"ID": BIGINT}), "at ID: its field is 'id': names go by upper and lower case"),
        (struct({"idd": BIGINT}), "at idd: there is no such field"),
        (struct({"id": INT}), "at id: its column is bigint, not int"),
        (struct({"by": BINARY}), "at by: its column is string, not binary"),
        (struct({"tags": array(BIGINT)}), "at tags.items: its column is struct, not bigint"),
        (struct({"tags": array(struct({"x": INT}))}), "at tags.items.x: there is no such field"),
        (
            struct({"marks": mapping(INT)}),
            r"at marks.values: its column is struct<member0:int,member1:string>, not int",
        ),
        (struct({"marks": mapping(struct({"member2": INT}))}), "at marks.values.member2: there is no such field"),
        (struct({"marks": ColumnType("map", (INT, MEMBERS))}), "at marks: its column is map<string,"),
        (struct({"sum": INT}), "at sum: its column is bigint, not int"),
        (ColumnType("struct", (BIGINT, BIGINT), ("id", "id")), "at id: the column is there twice"),
    ],
    ids=str,
)
def test_what_is_no_part_of_a_type_is_refused_by_name(target: ColumnType, message: str) -> None:
    """Before any record is read, with the place."""
    with pytest.raises(AvroSchemaError, match=message):
        check_target(parse_schema(json.dumps(ORDER)), target)
