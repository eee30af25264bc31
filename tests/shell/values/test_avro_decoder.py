"""Columns of Avro's records: rows, reasons with their places, and each bad record by itself."""

from __future__ import annotations

import json
import struct as struct_module
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkcohort.native._native import AvroDecoder
from sparkcohort.runtime.shell.values.avro_decoder import AvroValues
from sparkcohort.runtime.shell.values.schema_registry import (
    NotYetKnownError,
    RegisteredText,
)
from sparkcohort.runtime.values.avro_columns import column_type
from sparkcohort.runtime.values.avro_schema import AvroSchemaError, parse_schema
from sparkcohort.runtime.values.avro_steps import AvroReason, Op
from sparkcohort.runtime.values.types import STRING, packed, struct
from tests.kit import avro_schemas as drawn
from tests.kit.plain_rows import plain
from tests.kit.tier import of_tier

ORDER: dict[str, Any] = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
MORE: dict[str, Any] = {**ORDER, "fields": [*ORDER["fields"], {"name": "by", "type": "string", "default": "nobody"}]}


def framed(schema_id: int, record: bytes) -> bytes:
    """A record behind Confluent's five bytes."""
    return b"\0" + schema_id.to_bytes(4, "big") + record


def parsed(schema: Any) -> Any:
    """The schema that JSON describes."""
    return parse_schema(json.dumps(schema))


@settings(max_examples=of_tier(quick=40, thorough=300))
@given(st.data())
def test_no_record_costs_another_one(data: st.DataObject) -> None:
    """Drawn pairs of schemas, good and broken records, nulls, a part of the fields: each is what it is alone."""
    writer = data.draw(drawn.schemas())
    reader = data.draw(drawn.evolved(writer))
    good = [drawn.encode(writer, data.draw(drawn.values(writer))) for _ in range(3)]
    broken = [good[0][: data.draw(st.integers(0, len(good[0])))], data.draw(st.binary(max_size=30)), good[1] + b"\0"]
    records = data.draw(st.permutations([*good, *broken, None, *good]))
    full = column_type(parsed(reader))
    asked = {name: kind for name, kind in zip(full.names, full.children, strict=True) if data.draw(st.integers(0, 3))}
    values = AvroValues(parsed(reader), struct(asked), writer=parsed(writer))
    rows, bad = values.decode(pa.array([b"before", *records], pa.binary()).slice(1))
    rows.validate(full=True)
    for place, record in enumerate(records):
        row, alone = values.decode(pa.array([record], pa.binary()))
        assert repr(plain(rows[place])) == repr(plain(row[0]))  # NaN is itself
        assert [each._replace(row=0) for each in bad if each.row == place] == alone


def test_every_reason_is_told_with_its_place() -> None:
    """One record for each thing that can be wrong, good ones between them."""
    reader = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": ["null", "int", "boolean"]},
            {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "s", "type": {"type": "array", "items": "string"}},
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
            {"name": "n", "type": {"type": "array", "items": {"type": "record", "name": "N", "fields": []}}},
        ],
    }
    good = bytes.fromhex("00 02 02 02 61 00 00 00")
    wrong = {
        AvroReason.TRUNCATED: good[:-1],
        AvroReason.TRAILING: good + b"\0",
        AvroReason.VARINT: bytes.fromhex("02 ffffffffff"),
        AvroReason.RANGE: bytes.fromhex("00 ffffffffffffffffff01"),
        AvroReason.LENGTH: bytes.fromhex("00 02 02 01"),
        AvroReason.BOOLEAN: bytes.fromhex("04 02"),
        AvroReason.UTF8: bytes.fromhex("00 02 02 02 ff"),
        AvroReason.BRANCH: bytes.fromhex("06"),
        AvroReason.SYMBOL: bytes.fromhex("00 02 00 02"),
        AvroReason.ITEMS: bytes.fromhex("00 02 00 00 80897a"),
    }
    records = [each for bytes_ in wrong.values() for each in (bytes_, good)]
    rows, bad = AvroValues(parsed(reader)).decode(pa.array(records))
    assert {each.row: each.reason for each in bad} == {2 * place: reason for place, reason in enumerate(wrong)}
    assert all("(at byte " in each.message for each in bad)
    assert rows.to_pylist()[1::2] == [rows[1].as_py()] * len(wrong)
    assert rows[1].as_py()["s"] == ["a"]
    assert rows.null_count == len(wrong)


@pytest.mark.parametrize("asked", [["s", "d", "z"], ["d", "z"], ["s", "z"], ["z"]])
def test_blocks_with_sizes_are_read_or_passed_over(asked: list[str]) -> None:
    """A writer may tell a block's size, by a count below zero (Java's ``BlockingBinaryEncoder``): a list that is not read is jumped over."""
    lists = {"s": "string", "d": "double"}
    fields = [{"name": name, "type": {"type": "array", "items": kind}} for name, kind in lists.items()]
    schema = parsed({"type": "record", "name": "R", "fields": [*fields, {"name": "z", "type": "long"}]})
    record = bytes.fromhex("03 08 0261 026202 0263 0001 10 000000000000f03f000e")
    full = column_type(schema)
    columns = {name: kind for name, kind in zip(full.names, full.children, strict=True) if name in asked}
    rows, bad = AvroValues(schema, struct(columns)).decode(pa.array([record]))
    assert (rows.to_pylist(), bad) == (
        [{name: {"s": ["a", "b", "c"], "d": [1.0], "z": 7}[name] for name in asked}],
        [],
    )


def test_records_of_many_writers_and_of_none() -> None:
    """Old and new schemas in one column, other formats, unknown ids, no frame, no bytes, null."""
    known: dict[int | str, RegisteredText] = {
        1: RegisteredText("AVRO", json.dumps(ORDER)),
        2: RegisteredText("AVRO", json.dumps(MORE)),
        3: RegisteredText("PROTOBUF", ""),
        4: RegisteredText("AVRO", '{"type": "record"}'),
    }
    asked: list[int | str] = []

    def writers(schema_id: int | str) -> RegisteredText | str:
        asked.append(schema_id)
        return known.get(schema_id, f"nobody knows {schema_id}")

    values = AvroValues(parsed(MORE), writers=writers)
    new = drawn.encode(MORE, {"id": 7, "by": "me"})
    column = pa.array(
        [
            framed(1, b"\x02"),
            framed(2, new),
            framed(3, b""),
            None,
            framed(4, b""),
            framed(9, new),
            b"\0\0",
            b"",
            b"\1" + new,
            framed(2, new),
        ]
    )
    rows, bad = values.decode(column)
    assert rows.to_pylist() == [
        {"id": 1, "by": "nobody"},
        {"id": 7, "by": "me"},
        *[None] * 7,
        {"id": 7, "by": "me"},
    ]
    assert [(each.row, each.reason) for each in bad] == [
        *[(row, AvroReason.NO_SCHEMA) for row in (2, 4, 5)],
        *[(row, AvroReason.FRAME) for row in (6, 7, 8)],
    ]
    assert "schema 3 is PROTOBUF, not AVRO" in bad[0].message
    assert "schema 4 is broken: Avro schema: a record, enum or fixed without a name" in bad[1].message
    assert "nobody knows 9" in bad[2].message
    known[9] = known[2]
    rows, bad = values.decode(column)
    assert rows[5].as_py() == {"id": 7, "by": "me"}
    assert sorted(asked) == [1, 2, 3, 4, 9, 9]


def test_ids_that_are_not_known_yet_are_waited_for_at_the_same_time() -> None:
    """No row is read before all of them are known, or are unknown for good."""
    known: dict[int | str, RegisteredText | str] = {1: RegisteredText("AVRO", json.dumps(ORDER))}
    asked: list[int | str] = []

    def writers(schema_id: int | str) -> RegisteredText | str:
        asked.append(schema_id)
        if schema_id not in known:
            raise NotYetKnownError(f"no {schema_id} yet")
        return known[schema_id]

    values = AvroValues(parsed(ORDER), writers=writers)
    column = pa.array([framed(number, b"\x02") for number in (1, 2, 3)])
    with pytest.raises(NotYetKnownError):
        values.decode(column)
    assert sorted(asked) == [1, 2, 3]
    known[2], known[3] = known[1], "there is none"
    rows, bad = values.decode(column)
    assert rows.to_pylist() == [{"id": 1}, {"id": 1}, None]
    assert [(each.row, each.reason) for each in bad] == [(2, AvroReason.NO_SCHEMA)]


@pytest.mark.parametrize(
    "text", ["[]", "{}", "5", "null", '"', '{"type": 5}', '{"type": []}', "[[]]", '{"type": "record"}']
)
def test_whatever_a_registry_has_costs_the_records_that_have_it(text: str) -> None:
    """A schema that is none, or one that nobody foresaw."""
    texts: dict[int | str, RegisteredText] = {
        1: RegisteredText("AVRO", json.dumps(ORDER)),
        2: RegisteredText("AVRO", text),
    }
    values = AvroValues(parsed(ORDER), writers=texts.__getitem__)
    rows, bad = values.decode(pa.array([framed(2, b"\x02"), framed(1, b"\x02")]))
    assert rows.to_pylist() == [None, {"id": 1}]
    assert [each.row for each in bad] == [0]


def test_a_decoder_takes_only_steps_that_fit() -> None:
    """What would write to a column of another type, or jump out of the list, is refused before it runs."""
    target = struct({"s": STRING})
    broken: list[list[tuple[int, int, int, int]]] = [
        [(Op.INT, 1, 0, 0), (Op.END, 0, 0, 0)],
        [(Op.STRING, 2, 0, 0), (Op.END, 0, 0, 0)],
        [(Op.STRING, -1, 0, 0), (Op.END, 0, 0, 0)],
        [(Op.JUMP, 0, 0, 0), (Op.END, 0, 0, 0)],
        [(Op.JUMP, 0, 2, 0), (Op.END, 0, 0, 0)],
        [(Op.UNION, 0, 0, 1), (Op.END, 0, 0, 0)],
        [(Op.ENUM, 1, 0, 2), (Op.END, 0, 0, 0)],
        [(Op.DEFAULT, 0, 1, 0), (Op.END, 0, 0, 0)],
        [(Op.SKIP_FIXED, 0, -1, 0), (Op.END, 0, 0, 0)],
        [(99, 0, 0, 0), (Op.END, 0, 0, 0)],
        [(Op.STRUCT, 0, 0, 0)],
        [],
    ]
    for steps in broken:
        numbers = [number for step in steps for number in step]
        decoder = AvroDecoder(packed(target))
        with pytest.raises(ValueError, match="can't be run on these columns"):
            decoder.add(-1, struct_module.pack(f"={len(numbers)}q", *numbers), b"\0" * 8, (b"",))
    with pytest.raises(ValueError, match="these are no columns"):
        AvroDecoder(struct_module.pack("=2i", 0, 5))
    with pytest.raises(ValueError, match="shorter than their column"):
        AvroDecoder(packed(target)).decode(None, b"\0" * 8, b"", 0, 5, False, lambda _: None)


def test_a_type_that_is_none_of_the_readers_is_refused_at_once() -> None:
    """One error by name, before any record: not one of each record, nor of memory."""
    for target in (struct({"ID": STRING}), struct({"id": STRING}), STRING):
        with pytest.raises(AvroSchemaError, match=r"there is no value.ID|instead of"):
            AvroValues(parsed(ORDER), target)
    tree = {**ORDER, "fields": [*ORDER["fields"], {"name": "next", "type": ["null", "Order"]}]}
    with pytest.raises(AvroSchemaError, match="at next: record 'Order' is inside of itself"):
        AvroValues(parsed(tree))


def test_offsets_that_lie_are_no_way_out() -> None:
    """Rows whose offsets point behind the bytes, or backwards, have no bytes."""
    decoder = AvroDecoder(packed(STRING))
    steps = struct_module.pack("=8q", Op.STRING, 0, 0, 0, Op.END, 0, 0, 0)
    decoder.add(-1, steps, b"", ())
    offsets = struct_module.pack("=5i", 0, 100, 2, -3, 1)
    found, bad, _ = decoder.decode(
        None, offsets, b"\x02a", 0, 4, False, lambda address: pa.Array._import_from_c(address, pa.string())
    )
    assert found.to_pylist() == [None] * 4
    assert [each[:2] for each in bad] == [(row, AvroReason.TRUNCATED) for row in range(4)]


@settings(max_examples=of_tier(quick=40, thorough=300))
@given(st.lists(st.text(max_size=9).map(str.encode) | st.binary(max_size=3) | st.just(b"eight chars"), max_size=6))
def test_utf8_is_what_python_takes(parts: list[bytes]) -> None:
    """Wherever in a text it breaks off or goes wrong."""
    text = b"".join(parts)
    _, bad = AvroValues(parsed("string")).decode(pa.array([drawn.encode("bytes", text)]))
    try:
        text.decode()
    except UnicodeDecodeError:
        assert [each.reason for each in bad] == [AvroReason.UTF8]
    else:
        assert bad == []


def test_a_batch_beyond_the_ordinary_leaves_nothing() -> None:
    """Its room goes with it; the next rows find their own."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "all", "type": {"type": "array", "items": "int"}}]}
    schema["fields"].append({"name": "text", "type": ["null", "string"]})  # type: ignore[attr-defined]
    decoder = AvroValues(parsed(schema))
    large = drawn.encode(schema, {"all": [7] * 700_000, "text": "x" * 5_000_000})
    small = drawn.encode(schema, {"all": [8], "text": None})
    for _ in range(2):
        rows, bad = decoder.decode(pa.array([small, large, small]))
        assert bad == []
        assert rows.field(0).value_lengths().to_pylist() == [1, 700_000, 1]
        rows, bad = decoder.decode(pa.array([small, b"\x02", None, small]))
        rows.validate(full=True)
        assert rows.to_pylist() == [{"all": [8], "text": None}, None, None, {"all": [8], "text": None}]
