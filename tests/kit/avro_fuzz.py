"""Avro's records as a target of ``targets``: schemas that have all there is."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import cache
from typing import Any

from sparkcohort.runtime.shell.values.avro_decoder import AvroValues
from sparkcohort.runtime.shell.values.schema_registry import RegisteredText
from sparkcohort.runtime.values.avro_schema import AvroSchema, parse_schema
from sparkcohort.runtime.values.types import ColumnType, struct
from tests.kit.avro_schemas import encode
from tests.kit.plain_rows import decode
from tests.kit.targets import Target

TREE: dict[str, Any] = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "w", "type": "float"}, {"name": "kids", "type": {"type": "array", "items": "Tree"}}],
}
INNER: dict[str, Any] = {
    "type": "record",
    "name": "Inner",
    "fields": [
        {"name": "x", "type": ["null", "string"]},
        {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": ["int", "null", "bytes"]}}},
    ],
}


def _money(name: str, size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, "logicalType": "decimal", "precision": 9, "scale": 2}


EVERYTHING: dict[str, Any] = {
    "type": "record",
    "name": "Everything",
    "fields": [
        {"name": name, "type": kind}
        for name, kind in {
            "bool": "boolean",
            "int": "int",
            "long": {"type": "long", "logicalType": "timestamp-millis"},
            "float": "float",
            "double": "double",
            "bytes": "bytes",
            "string": "string",
            "fixed": {"type": "fixed", "name": "Fixed", "size": 3},
            "money": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2},
            "coins": _money("Coins", 20),
            "enum": {"type": "enum", "name": "Enum", "symbols": ["A", "B", "C"]},
            "inner": {"type": "array", "items": ["null", INNER, "string"]},
            "nested": {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": "long"}}},
            "nothing": {"type": "array", "items": {"type": "record", "name": "Nothing", "fields": []}},
            "tree": TREE,
            "dots": {"type": "array", "items": "double"},
        }.items()
    ],
}
NEWER: dict[str, Any] = {
    "type": "record",
    "name": "Everything",
    "fields": [
        {"name": "dots", "type": {"type": "array", "items": "double"}},
        {"name": "int", "type": "double"},
        {"name": "long", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "enum", "type": {"type": "enum", "name": "Enum", "symbols": ["B", "C"]}},
        {"name": "inner", "type": {"type": "array", "items": ["string", {**INNER, "name": "Inner"}, "null", "long"]}},
        {
            "name": "added",
            "type": {"type": "array", "items": INNER["name"]},
            "default": [{"x": None, "m": {"k": [1, None]}}],
        },
    ],
}


LEAF = {"w": 1.5, "kids": []}
VALUE = {
    "bool": True,
    "int": -5,
    "long": 1 << 40,
    "float": 0.5,
    "double": -0.5,
    "bytes": b"ab",
    "string": "häh",
    "fixed": b"123",
    "money": Decimal("-123456789012.34"),
    "coins": Decimal("12.34"),
    "enum": "B",
    "inner": [None, ("Inner", {"x": "y", "m": {"k": [1, None, b"z"]}}), ("string", "s")],
    "nested": [[[1], []], [], [[2, 3]]],
    "nothing": [{}, {}],
    "tree": {"w": 2.5, "kids": [LEAF, {"w": 3.5, "kids": [LEAF]}]},
    "dots": [1.0, 2.0],
}


def plans() -> list[tuple[AvroSchema, AvroSchema, ColumnType | None]]:
    """Schemas of writers and readers, and what is asked for of these; to read them takes every operation."""

    def parsed(schema: Any) -> AvroSchema:
        return parse_schema(json.dumps(schema))

    whole = {**EVERYTHING, "fields": [each for each in EVERYTHING["fields"] if each["name"] != "tree"]}
    everything, newer, plain = (
        parsed(EVERYTHING),
        parsed(NEWER),
        parsed(whole),
    )  # a tree has no columns, and is passed over
    numbers = {"type": "record", "name": "N", "fields": [{"name": name, "type": "long"} for name in "abc"]}
    wider = {**numbers, "fields": [{"name": "a", "type": "float"}, {"name": "b", "type": "double"}]}
    ints = {**numbers, "fields": [{"name": name, "type": "int"} for name in "abc"]}
    wider_ints = {**wider, "fields": [*wider["fields"], {"name": "c", "type": "long"}]}
    some = struct({"string": ColumnType("string"), "dots": ColumnType("array", (ColumnType("double"),))})
    return [
        (plain, plain, None),
        (everything, newer, None),
        (everything, plain, some),
        (everything, plain, struct({})),
        (parsed(numbers), parsed(wider), None),
        (parsed(ints), parsed(wider_ints), None),
        (parsed("float"), parsed("double"), None),
        (parsed(["int", "string"]), parsed(["null", "long"]), None),
    ]


@cache
def decoders() -> tuple[list[AvroValues], AvroValues]:
    """Those of the plans; one of framed records, of schemas 1 and 2, the second of which is none."""
    plain = [AvroValues(reader, target, writer=writer) for writer, reader, target in plans()]
    texts: dict[int | str, str] = {1: json.dumps(EVERYTHING), 2: "{"}

    def schema(number: int | str) -> RegisteredText | str:
        return RegisteredText("AVRO", texts[number]) if number in texts else "there is none"

    return plain, AvroValues(parse_schema(json.dumps(NEWER)), writers=schema)


def check(data: bytes) -> None:
    """The number of a plan, then a record: read by the plan, and in frames."""
    plain, framed = decoders()
    if data:
        decode(plain[data[0] % len(plain)], data[1:])
        decode(framed, *(b"\0" + number.to_bytes(4) + data[1:] for number in (1, 2, 3)), data[1:])


TARGET = Target("avro", check, lambda: [b"\2" + encode(EVERYTHING, VALUE)])
