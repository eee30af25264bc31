"""Avro beside Spark's own ``from_avro``: types, values and bad records; each difference is one that the page names."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkcohort.runtime.shell.values.avro_decoder import AvroValues
from sparkcohort.runtime.values.avro_columns import column_type
from sparkcohort.runtime.values.avro_resolution import resolve
from sparkcohort.runtime.values.avro_schema import AvroSchemaError, parse_schema
from sparkcohort.runtime.values.avro_steps import AvroReason, Op
from sparkcohort.runtime.values.types import BIGINT, struct
from tests.kit import avro_schemas as drawn
from tests.kit.plain_rows import plain
from tests.kit.spark_avro import SparkAvro, shown
from tests.kit.tier import of_tier

STRICTER = {
    AvroReason.TRAILING,
    AvroReason.VARINT,
    AvroReason.BOOLEAN,
    AvroReason.UTF8,
    AvroReason.ITEMS,
}
"""What we call a bad record and Spark reads all the same."""
SKIPS = {Op.SKIP_BYTES, Op.SKIP_LIST, Op.SKIP_ITEMS}
"""With these, so is a length below zero: Avro's Java library goes backwards when it passes over one."""

pytestmark = pytest.mark.timeout(300)


def parsed(schema: Any) -> Any:
    """The schema that JSON describes."""
    return parse_schema(json.dumps(schema))


def read(writer: Any, reader: Any, record: bytes) -> Any:
    """What we make of it: the value as Spark's is shown, or the reason."""
    values = AvroValues(parsed(reader), writer=parsed(writer))
    rows, bad = values.decode(pa.array([record]))
    return bad[0].reason if bad else shown(plain(rows[0]), values.target)


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
def test_types_are_sparks(sparks: SparkAvro, schema: Any) -> None:
    """Logical types, and unions that are one column."""
    assert str(column_type(parsed(schema))) == sparks.type_of(schema)


def test_types_that_are_not_sparks(sparks: SparkAvro) -> None:
    """Where Spark has a type that is switched off, or that nothing can be done with."""
    micros = {"type": "long", "logicalType": "time-micros"}
    assert (sparks.type_of(micros), str(column_type(parsed(micros)))) == ("time(6)", "bigint")
    for schema, theirs in [("null", "void"), (["null"], "struct<>")]:
        assert sparks.type_of(schema) == theirs
        with pytest.raises(AvroSchemaError, match="null alone has no column"):
            column_type(parsed(schema))


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_drawn_types_are_sparks(sparks: SparkAvro, data: st.DataObject) -> None:
    """Whatever is nested in what."""
    schema = data.draw(drawn.schemas())
    assert str(column_type(parsed(schema))) == sparks.type_of(schema)


@settings(max_examples=of_tier(quick=60, thorough=400), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_records_are_what_spark_makes_of_them(sparks: SparkAvro, data: st.DataObject) -> None:
    """Drawn pairs of schemas, good records and broken ones: the same values, bit by bit, and the same ones bad."""
    writer = data.draw(drawn.schemas())
    reader = data.draw(drawn.renamed(data.draw(drawn.evolved(writer))))
    assert sparks.schemas(writer, reader) == "ok"
    steps = resolve(parsed(writer), parsed(reader))
    skips = SKIPS & {step.op for step in steps.steps}
    good = drawn.encode(writer, data.draw(drawn.values(writer)))
    for record in (good, data.draw(st.binary(max_size=20)), good[: data.draw(st.integers(0, len(good)))]):
        ours, theirs = read(writer, reader, record), sparks.record(record)
        if not isinstance(ours, AvroReason):
            assert ours == theirs, record.hex()
        elif ours not in STRICTER | ({AvroReason.LENGTH} if skips else set()):
            assert theirs is None, (record.hex(), ours)


LARGE = {"type": "fixed", "name": "F", "size": 20, "logicalType": "decimal", "precision": 38}
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
    (LARGE, LARGE, "000000004b3b4ca85a86c47a098a223fffffffff"),
    (LARGE, LARGE, "ffffffffb4c4b357a5793b85f675ddc000000001"),
    (LARGE, LARGE, "000000004b3b4ca85a86c47a098a224000000000"),
    ("int", {"type": "long", "logicalType": "timestamp-millis"}, "04"),
    ("bytes", LOGICAL[10], "020a"),
    (LOGICAL[10], "bytes", "020a"),
    ("long", "float", "ffffffffffffffff7f"),
    ("int", "float", "ffffffff0f"),
    ("long", "double", "ffffffffffffffff7f"),
    ("float", "double", "cdcccc3d"),
]


@pytest.mark.parametrize(("writer", "reader", "record"), VALUES)
def test_values_at_their_limits(sparks: SparkAvro, writer: Any, reader: Any, record: str) -> None:
    """Dates, times, decimals and promotions."""
    assert sparks.schemas(writer, reader) == "ok"
    ours = read(writer, reader, bytes.fromhex(record))
    assert (None if isinstance(ours, AvroReason) else ours) == sparks.record(bytes.fromhex(record)), ours


def record(*names: str) -> dict[str, Any]:
    """A record of longs."""
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": "long"} for name in names]}


def named(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    """A record of one field."""
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind, **more}]}


def colours(*symbols: str, **more: Any) -> dict[str, Any]:
    """An enum."""
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


POINT = {**named("x", "int"), "name": "Point"}
SHAPES = [POINT, {**named("r", "double"), "name": "Round"}, "string"]
EVOLVED: list[tuple[Any, Any, str]] = [
    (named("id", "long"), named("ID", "long", default=7), "02"),
    (named("id", "long"), named("ID", "long", aliases=["id"]), "02"),
    (named("id", "long"), named("ID", "long", aliases=["Id"], default=7), "02"),
    (named("id", ["null", "long"]), named("Id", ["null", "long"], default=None), "0202"),
    (colours("A", "B"), colours("A", default="A"), "02"),
    (colours("A", "B"), colours("C", "A", default="C"), "00"),
    (colours("A", "B"), colours("A"), "00"),
    (colours("A", "B"), colours("A"), "02"),
    (colours("A"), colours("a", default="a"), "00"),
    (named("e", colours("A", "B")), named("e", colours("A", default="A"), default="A"), "02"),
    (SHAPES, ["null", *reversed(SHAPES)], "0008"),
    (SHAPES, SHAPES, "02000000000000f03f"),
    (SHAPES, [SHAPES[1], "string"], "0008"),
    (SHAPES, [SHAPES[1], "string"], "040261"),
    ("string", ["null", "int", "bytes"], "0261"),
    (["null", "int", "string"], ["null", "string", "long", "double"], "0204"),
    (["int", "string", "boolean"], "long", "0004"),
    (["int", "string", "boolean"], "long", "0201"),
    (POINT, {**POINT, "name": "Spot", "aliases": ["Point"]}, "04"),
    (["null", POINT], ["null", {**POINT, "name": "Spot", "aliases": ["Point"]}], "0204"),
    (["null", POINT], ["null", {**POINT, "name": "Spot"}], "0204"),
]


@pytest.mark.parametrize(("writer", "reader", "data"), EVOLVED, ids=str)
def test_evolution_is_sparks(sparks: SparkAvro, writer: Any, reader: Any, data: str) -> None:
    """Letters of names, aliases of fields and of types, an enum's default symbol, unions of several branches."""
    if isinstance(
        reader, list
    ):  # a column of its own is none that Spark's deserializer takes without a record around it
        writer, reader = ({**named("v", kind), "name": "Outer"} for kind in (writer, reader))
    assert sparks.schemas(writer, reader) == "ok"
    ours = read(writer, reader, bytes.fromhex(data))
    assert (None if isinstance(ours, AvroReason) else ours) == sparks.record(bytes.fromhex(data)), ours


def test_a_record_inside_of_itself_is_refused_by_both(sparks: SparkAvro) -> None:
    """By its name, wherever it comes again."""
    tree = named("kids", {"type": "array", "items": "R"})
    assert "recursi" in sparks.type_of(tree)
    with pytest.raises(AvroSchemaError, match=r"at kids.items: record 'R' is inside of itself"):
        column_type(parsed(tree))


def test_where_spark_reads_something_else(sparks: SparkAvro) -> None:
    """A frame that nobody cut off, a unit or a scale that has changed: Spark has another value, we the right one or none."""
    order = {"type": "record", "name": "O", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}]}
    framed = b"\0\0\0\0\7" + drawn.encode(order, {"a": 5, "b": 6})
    sparks.schemas(order, order)
    assert sparks.record(framed) == {"a": 0, "b": 0}
    rows, bad = AvroValues(parsed(order)).decode(pa.array([framed]))
    assert rows.to_pylist() == [None]
    assert [each.reason for each in bad] == [AvroReason.TRAILING]

    sparks.schemas(LOGICAL[2], LOGICAL[3])
    assert sparks.record(b"\x02") == 1
    rows, _ = AvroValues(parsed(LOGICAL[3]), writer=parsed(LOGICAL[2])).decode(pa.array([b"\x02"]))
    assert rows.cast(pa.int64()).to_pylist() == [1000]

    coarse, fine = ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": scale} for scale in (2, 3))
    sparks.schemas(coarse, fine)
    assert sparks.record(b"\x02\x0a") == "n0.010"
    _, bad = AvroValues(parsed(fine), writer=parsed(coarse)).decode(pa.array([b"\x02\x0a"]))
    assert [each.reason for each in bad] == [AvroReason.UNRESOLVED]


def fixed(name: str) -> dict[str, Any]:
    """A type with a name."""
    return {"type": "fixed", "name": name, "size": 1}


TEXTS = {"type": "map", "values": "int"}
EMPTY = {"type": "array", "items": {"type": "record", "name": "Empty", "fields": []}}


@pytest.mark.parametrize(
    ("writer", "reader", "data", "theirs", "ours"),
    [
        ("string", "string", b"\x02\xff", "tff", AvroReason.UTF8),
        ("int", "int", bytes.fromhex("8080808070"), 0, AvroReason.VARINT),
        ("boolean", "boolean", b"\x02", False, AvroReason.BOOLEAN),
        (EMPTY, EMPTY, bytes.fromhex("824000"), [{}] * 4097, AvroReason.ITEMS),
        (fixed("a.F"), ["null", fixed("b.F")], b"x", None, "x78"),
        (TEXTS, TEXTS, bytes.fromhex("040261020261 0400"), [["t61"], [2]], [["t61", "t61"], [1, 2]]),
    ],
    ids=["no UTF-8", "too long a number", "no boolean", "items of no byte", "another namespace", "a key twice"],
)
def test_differences_that_the_page_names(
    sparks: SparkAvro, writer: Any, reader: Any, data: bytes, theirs: Any, ours: Any
) -> None:
    """What Spark makes of it, and what we do: a value, or a reason."""
    assert sparks.schemas(writer, reader) == "ok"
    assert sparks.record(data) == theirs
    assert read(writer, reader, data) == ours


def test_what_is_not_asked_for_is_not_looked_at(sparks: SparkAvro) -> None:
    """A field without a value and without a default fails all of Spark's records; here those who ask for it."""
    writer, reader = record("a"), record("a", "b")
    sparks.schemas(writer, reader)
    assert sparks.record(b"\x02") is None
    rows, bad = AvroValues(parsed(reader), writer=parsed(writer)).decode(pa.array([b"\x02"]))
    assert (rows.to_pylist(), [each.reason for each in bad]) == ([None], [AvroReason.UNRESOLVED])
    rows, bad = AvroValues(parsed(reader), struct({"a": BIGINT}), writer=parsed(writer)).decode(pa.array([b"\x02"]))
    assert (rows.to_pylist(), bad) == ([{"a": 1}], [])


def test_names_that_differ_in_case_only_are_two(sparks: SparkAvro) -> None:
    """Spark finds them one by the other, and refuses both."""
    assert "Cannot convert Avro" in sparks.schemas(record("a", "A"), record("A", "a"))
    rows, bad = AvroValues(parsed(record("A", "a")), writer=parsed(record("a", "A"))).decode(pa.array([b"\2\4"]))
    assert (rows.to_pylist(), bad) == ([{"A": 2, "a": 1}], [])


def test_a_length_below_zero_is_no_way_back(sparks: SparkAvro) -> None:
    """Where a field is passed over, Avro's Java library goes backwards."""
    writer = {**record("b"), "fields": [{"name": "a", "type": "bytes"}, *record("b")["fields"]]}
    sparks.schemas(writer, record("b"))
    assert sparks.record(b"\x01\x06") is not None
    _, bad = AvroValues(parsed(record("b")), writer=parsed(writer)).decode(pa.array([b"\x01\x06"]))
    assert [each.reason for each in bad] == [AvroReason.LENGTH]


def test_an_int_that_is_passed_over_is_an_int(sparks: SparkAvro) -> None:
    """A sixth byte of one is a bad record for both, also where nobody asked for it; of a long it is none."""
    for kind, bad in (("int", True), ("long", False)):
        writer = {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}
        sparks.schemas(writer, record())
        assert (sparks.record(b"\x80\x80\x80\x80\x80\x00") is None) == bad
        _, found = AvroValues(parsed(record()), writer=parsed(writer)).decode(pa.array([b"\x80\x80\x80\x80\x80\x00"]))
        assert bool(found) == bad
