"""Writers' schemas as nobody sane makes them, from a registry that anybody may write to: bad records, or good ones, at once."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from sparkcohort.runtime.shell.values.avro_decoder import AvroValues
from sparkcohort.runtime.shell.values.schema_registry import RegisteredText
from sparkcohort.runtime.values.avro_resolution import resolve
from sparkcohort.runtime.values.avro_schema import AvroSchemaError, parse_schema
from sparkcohort.runtime.values.avro_steps import AvroReason, Op

LARGEST = (1 << 31) - 1


def record(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """A record of these fields."""
    return {"type": "record", "name": name, "fields": [{"name": each, "type": kind} for each, kind in fields.items()]}


def fixed(name: str, size: int) -> dict[str, Any]:
    """A fixed of so many bytes."""
    return {"type": "fixed", "name": name, "size": size}


READER = record("T", {"x": "int"})
OPTIONAL: dict[str, Any] = {"l": ["null", fixed("F", LARGEST)]}


def decoded(writer: dict[str, Any], *bodies: bytes) -> tuple[list[Any], list[AvroReason]]:
    """What becomes of records that this writer's schema is told for."""
    text = json.dumps(writer)
    values = AvroValues(parse_schema(json.dumps(READER)), writers=lambda _: RegisteredText("AVRO", text, ()))
    rows, bad = values.decode(pa.array([b"\0\0\0\0\1" + body for body in bodies]))
    return rows.to_pylist(), [each.reason for each in bad]


def doubled(levels: int, smallest: dict[str, Any]) -> dict[str, Any]:
    """Records each of which has the one before it twice."""
    before: dict[str, Any] = {"f0": record("R0", smallest)}
    for level in range(1, levels):
        before[f"f{level}"] = record(f"R{level}", {"a": f"R{level - 1}", "b": f"R{level - 1}"})
    return record("T", {"x": "int", **before})


def test_records_of_no_byte_are_not_passed_over_one_by_one() -> None:
    """With 60 of them there would be no end, and the thread that reads holds no lock by which it could be stopped."""
    writer = doubled(60, {})
    steps = resolve(parse_schema(json.dumps(writer)), parse_schema(json.dumps(READER))).steps
    assert [step.op for step in steps] == [Op.STRUCT, Op.INT, Op.END]
    assert decoded(writer, b"\2", b"\2\0") == ([{"x": 1}, None], [AvroReason.TRAILING])


def test_records_of_more_bytes_than_there_are() -> None:
    """Sizes are added up to what a column can have, not beyond what a step can say."""
    for smallest in ({"i": "float"}, {"i": "int"}):
        assert decoded(doubled(60, smallest), b"\2" + b"\0" * 50) == ([None], [AvroReason.TRUNCATED])


@pytest.mark.parametrize(
    ("fields", "body", "found"),
    [
        ({"f": fixed("F", LARGEST)}, b"\2", AvroReason.TRUNCATED),
        ({"f": fixed("F", 1 << 30), "g": fixed("G", 1 << 30)}, b"\2", AvroReason.TRUNCATED),
        (OPTIONAL, b"\2\0", None),
        ({"l": {"type": "array", "items": fixed("F", LARGEST)}}, b"\2\0", None),
        ({"l": {"type": "array", "items": fixed("F", LARGEST)}}, b"\2\4", AvroReason.TRUNCATED),
        (
            {"l": {"type": "array", "items": record("I", {"f": fixed("F", LARGEST), "g": "F"})}},
            b"\2\2",
            AvroReason.TRUNCATED,
        ),
    ],
)
def test_the_largest_fixed(fields: dict[str, Any], body: bytes, found: AvroReason | None) -> None:
    """It is one that no record has: those that say so are bad, the others are read."""
    expected: tuple[list[Any], list[AvroReason]] = ([{"x": 1}], []) if found is None else ([None], [found])
    assert decoded(record("T", {"x": "int", **fields}), body) == expected


def test_the_largest_fixed_is_asked_for() -> None:
    """Also by the reader."""
    schema = parse_schema(json.dumps(record("T", {"f": fixed("F", LARGEST)})))
    _, bad = AvroValues(schema).decode(pa.array([b"\0" * 9]))
    assert [each.reason for each in bad] == [AvroReason.TRUNCATED]


def test_thousands_of_records_inside_of_each_other_by_name() -> None:
    """As text they stand beside each other; only the last one is written."""
    chain: dict[str, Any] = {"r0": ["null", record("R0", {"i": "int"})]}
    for level in range(1, 3_000):
        chain[f"r{level}"] = ["null", record(f"R{level}", {"a": f"R{level - 1}"})]
    writer = record("T", {"x": "int", **chain, "last": {"type": "array", "items": "R2999"}})
    assert decoded(writer, b"\2" + b"\0" * 3_001) == ([{"x": 1}], [])
    assert decoded(writer, b"\2" + b"\0" * 3_000 + b"\2\2\0") == ([None], [AvroReason.DEPTH])
    chained = parse_schema(json.dumps(record("T", {"last": "R2999"})), [json.dumps(record("All", chain))])
    with pytest.raises(AvroSchemaError, match="inside of each other"):
        AvroValues(chained)
