"""What the Avro interpreter is fed with; ``fuzz.py`` feeds it."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Any

from sparkcohort.runtime.values.avro_resolution import resolve
from sparkcohort.runtime.values.avro_schema import parse_schema
from sparkcohort.runtime.values.avro_steps import AvroStep
from sparkcohort.runtime.values.steps import StepList
from sparkcohort.runtime.values.types import ColumnType, packed
from sparkcohort.runtime.values.types import struct as struct_type
from tests.kit.fuzz import Fuzzed

SOURCES = (
    "values/avro.c",
    "values/avro_valid.c",
    "values/tree.c",
    "values/tree_export.c",
    "arrow/blocks.c",
    "arrow/utf8.c",
)

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


def plans() -> list[StepList[AvroStep]]:
    """Lists of steps that have every operation among them."""

    def parsed(schema: Any) -> Any:
        return parse_schema(json.dumps(schema))

    whole = {**EVERYTHING, "fields": [each for each in EVERYTHING["fields"] if each["name"] != "tree"]}
    everything, newer = parsed(EVERYTHING), parsed(NEWER)
    numbers = {"type": "record", "name": "N", "fields": [{"name": name, "type": "long"} for name in "abc"]}
    wider = {**numbers, "fields": [{"name": "a", "type": "float"}, {"name": "b", "type": "double"}]}
    ints = {**numbers, "fields": [{"name": name, "type": "int"} for name in "abc"]}
    wider_ints = {**wider, "fields": [*wider["fields"], {"name": "c", "type": "long"}]}
    return [
        resolve(parsed(whole), parsed(whole)),
        resolve(everything, newer),
        resolve(
            everything,
            everything,
            struct_type({"string": ColumnType("string"), "dots": ColumnType("array", (ColumnType("double"),))}),
        ),
        resolve(everything, everything, struct_type({})),
        resolve(parsed(numbers), parsed(wider)),
        resolve(parsed(ints), parsed(wider_ints)),
        resolve(parsed("float"), parsed("double")),
        resolve(parsed(["int", "string"]), parsed(["null", "long"])),
    ]


def packed_plans() -> bytes:
    """As the program reads them."""
    everything = plans()
    return struct.pack("=q", len(everything)) + b"".join(map(_written, everything))


def _written(steps: StepList[AvroStep]) -> bytes:
    columns, (numbers, table) = packed(steps.target), steps.packed()
    parts: list[int | bytes] = [
        len(columns) // 8,
        columns,
        len(numbers) // 32,
        numbers,
        len(table) // 8,
        table,
        len(steps.constants),
    ]
    for constant in steps.constants:
        parts += [len(constant), constant]
    return b"".join(struct.pack("=q", part) if isinstance(part, int) else part for part in parts)


FUZZED = Fuzzed("avro", SOURCES, packed_plans)
