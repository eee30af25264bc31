"""Avro schemas as text: what the specification allows, and what is said about the rest."""

from __future__ import annotations

import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.values.avro_schema import AvroSchemaError, LogicalType, most_digits, parse_schema
from tests.kit import avro_schemas as drawn


def parsed(schema: Any) -> Any:
    """The schema that JSON describes."""
    return parse_schema(json.dumps(schema))


@given(st.data())
def test_what_fastavro_takes_is_taken(data: st.DataObject) -> None:
    """Drawn schemas, whose fields keep their order."""
    schema = data.draw(drawn.schemas())
    fastavro.parse_schema(schema)
    assert [each.name for each in parsed(schema).fields] == [each["name"] for each in schema["fields"]]


def test_names_live_in_namespaces() -> None:
    """A name takes the namespace around it, its own, or the one it is written with; references do so too."""
    schema = parsed(
        {
            "type": "record",
            "name": "Order",
            "namespace": "shop",
            "aliases": ["Sale", "old.Order"],
            "fields": [
                {"name": "a", "type": {"type": "fixed", "name": "Id", "size": 4}},
                {"name": "b", "type": {"type": "enum", "name": "geo.Side", "symbols": ["L", "R"]}},
                {
                    "name": "c",
                    "type": {
                        "type": "record",
                        "name": "Line",
                        "namespace": "",
                        "fields": [{"name": "up", "type": ["null", "shop.Order"]}, {"name": "id", "type": "shop.Id"}],
                    },
                },
                {"name": "d", "type": "Id"},
                {"name": "e", "type": "geo.Side"},
            ],
        }
    )
    assert schema.aliases == ("shop.Sale", "old.Order")
    a, b, c, d, e = (each.schema for each in schema.fields)
    assert [a.name, b.name, c.name] == ["shop.Id", "geo.Side", "Line"]
    assert a is d is c.fields[1].schema
    assert b is e
    assert c.fields[0].schema.branches[1] is schema


def test_references_bring_names() -> None:
    """What a schema uses may be defined by other texts, in their order."""
    customer = json.dumps({"type": "record", "name": "Customer", "namespace": "shop", "fields": []})
    order = {"type": "record", "name": "shop.Order", "fields": [{"name": "by", "type": "Customer"}]}
    assert parse_schema(json.dumps(order), [customer]).fields[0].schema.name == "shop.Customer"
    with pytest.raises(AvroSchemaError, match=r"at by: the type 'shop.Customer' is not defined"):
        parsed(order)


@pytest.mark.parametrize(
    ("schema", "logical"),
    [
        ({"type": "int", "logicalType": "date"}, LogicalType("date")),
        ({"type": "int", "logicalType": "time-millis"}, LogicalType("time-millis")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, LogicalType("local-timestamp-micros")),
        ({"type": "string", "logicalType": "uuid"}, LogicalType("uuid")),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, LogicalType("uuid")),
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, LogicalType("duration")),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, LogicalType("decimal", 9, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, LogicalType("decimal", 9, 0)),
        # What the specification says to ignore.
        ({"type": "int", "logicalType": "timestamp-millis"}, None),
        ({"type": "fixed", "name": "D", "size": 11, "logicalType": "duration"}, None),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, None),
        ({"type": "bytes", "logicalType": "decimal"}, None),
        ({"type": "fixed", "name": "D", "size": 2, "logicalType": "decimal", "precision": 5}, None),
        ({"type": "string", "logicalType": "of-my-own"}, None),
    ],
)
def test_logical_types(schema: Any, logical: LogicalType | None) -> None:
    """Those that Avro knows, where they fit their type."""
    assert parsed(schema).logical == logical


def test_digits_of_a_fixed_are_what_it_can_hold() -> None:
    """The largest number of so many digits fits, one digit more does not."""
    for size in range(1, 17):
        digits = most_digits(size)
        assert 10**digits - 1 < 1 << 8 * size - 1 <= 10 ** (digits + 1) - 1


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "strin"}]}, "at a: the type 'strin' is not"),
        ({"type": "record", "name": "R", "fields": [{"name": "a"}]}, "a field of 'R' is no object with"),
        ({"type": "record", "name": "R"}, "record 'R' has no list 'fields'"),
        ({"type": "record", "fields": []}, "without a name"),
        ({"type": "record", "name": "1st", "fields": []}, '"1st" is no name'),
        ({"type": "record", "name": "long", "fields": []}, "'long' is the name of a primitive type"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]},
            "at a: the field is there twice",
        ),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "enum 'E' has no symbols, or one twice"),
        ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, "the default of enum 'E'"),
        ({"type": "fixed", "name": "F", "size": -1}, "fixed 'F' has no 'size'"),
        ({"type": "array"}, "array has no 'items'"),
        ({"type": "map", "values": {"type": "array"}}, "at values: array has no 'items'"),
        (["int", "int"], "a union that has 'int' twice"),
        (["int", ["null", "long"]], "a union right inside of a union"),
        ({"name": "x"}, "an object without 'type'"),
        (7, "a type is a name, a list or an object, not 7"),
        (
            [{"type": "fixed", "name": "F", "size": 1}, {"type": "enum", "name": "F", "symbols": ["A"]}],
            "the name 'F' is defined twice",
        ),
    ],
)
def test_a_broken_schema_is_told_with_the_place(schema: Any, message: str) -> None:
    """One error, naming the field."""
    with pytest.raises(AvroSchemaError) as raised:
        parsed(schema)
    assert message in str(raised.value)


def test_text_that_is_no_json_and_types_without_end_are_refused() -> None:
    """Whoever registers a schema can't bring the process down with it."""
    with pytest.raises(AvroSchemaError, match="it is not JSON"):
        parse_schema("syntax = 'proto3'")
    with pytest.raises(AvroSchemaError, match="it is not JSON"):
        parse_schema("[" * 100_000)
    deep: Any = "int"
    for _ in range(100):
        deep = {"type": "array", "items": deep}
    with pytest.raises(AvroSchemaError, match="more than 64 types inside of each other"):
        parsed(deep)
