"""Columns of Protobuf's records: rows, reasons with their places, and each bad record by itself."""

from __future__ import annotations

import struct as struct_module
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sparkcohort.native._native import ProtobufDecoder
from sparkcohort.runtime.shell.values.protobuf_decoder import ProtobufValues
from sparkcohort.runtime.values.protobuf_columns import column_type
from sparkcohort.runtime.values.protobuf_compilation import compile_steps
from sparkcohort.runtime.values.protobuf_descriptor import MessageDescriptor, parse_message
from sparkcohort.runtime.values.protobuf_steps import FieldFlag, ProtobufOp, ProtobufReason
from sparkcohort.runtime.values.types import BIGINT, STRING, ColumnType, array, packed, struct
from tests.kit.plain_rows import plain
from tests.kit.protobuf_schemas import (
    Proto,
    descriptor,
    enum,
    field,
    file_set,
    has_column,
    message,
    records,
    sets,
    tagged,
    varint,
)
from tests.kit.tier import of_tier


def part_of(data: st.DataObject, kind: ColumnType) -> ColumnType:
    """Some of the fields of a struct, at any depth, in any order."""
    if kind.kind in ("array", "map"):
        return kind._replace(children=(*kind.children[:-1], part_of(data, kind.children[-1])))
    if kind.kind != "struct":
        return kind
    fields = list(zip(kind.names, kind.children, strict=True))
    chosen = data.draw(st.lists(st.sampled_from(fields), unique=True, min_size=1))
    return struct({name: part_of(data, child) for name, child in chosen})


def part_of_value(value: Any, kind: ColumnType) -> Any:
    """The same part of a value that has all fields."""
    if value is None:
        return None
    if kind.kind == "array":
        return [part_of_value(item, kind.children[0]) for item in value]
    if kind.kind == "map":
        return [(key, part_of_value(item, kind.children[1])) for key, item in value]
    if kind.kind != "struct":
        return value
    return {name: part_of_value(value[name], child) for name, child in zip(kind.names, kind.children, strict=True)}


@settings(max_examples=of_tier(quick=20, thorough=100))
@given(st.data())
def test_no_record_costs_another_one(data: st.DataObject) -> None:
    """Drawn messages, good and broken records, nulls: each is what it is alone, and a part of it what it is in the whole."""
    schema = data.draw(sets())
    of = descriptor(schema)
    assume(any(map(has_column, of.fields)))
    good = [data.draw(records(of)) for _ in range(3)]
    cut = data.draw(st.integers(0, len(good[0])))
    changed = bytearray(good[1])
    if changed:
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    rest = [good[0][:cut], bytes(changed), data.draw(st.binary(max_size=30)), None, good[0] + good[2]]
    column = pa.array([b"before", *data.draw(st.permutations([*good, *rest]))], pa.binary()).slice(1)
    found = parse_message(schema, "p.M0")
    framed = data.draw(st.integers(0, 5)) == 0
    values = ProtobufValues(found, framed=framed)
    part = ProtobufValues(found, part_of(data, values.target), framed=framed)
    (rows, bad), (fewer, _) = values.decode(column), part.decode(column)
    rows.validate(full=True)
    fewer.validate(full=True)
    for place in range(len(column)):
        row, alone = values.decode(column.slice(place, 1))
        assert repr(plain(rows[place])) == repr(plain(row[0]))  # NaN is itself
        assert [each._replace(row=0) for each in bad if each.row == place] == alone
        if not alone:
            assert repr(plain(fewer[place])) == repr(part_of_value(plain(row[0]), part.target))


NESTED = message("N", field("text", 1, Proto.TYPE_STRING), field("e", 2, Proto.TYPE_ENUM, type_name=".p.E"))
EVERYTHING = message(
    "M",
    field("e", 1, Proto.TYPE_ENUM, type_name=".p.E"),
    field("text", 2, Proto.TYPE_STRING),
    field("nested", 3, Proto.TYPE_MESSAGE, type_name=".p.N"),
    field("at", 4, Proto.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp"),
    field("took", 5, Proto.TYPE_MESSAGE, Proto.LABEL_REPEATED, type_name=".google.protobuf.Duration"),
    field("id", 6, Proto.TYPE_INT64, Proto.LABEL_REQUIRED),
    field("list", 7, Proto.TYPE_FIXED32, Proto.LABEL_REPEATED),
    field("texts", 8, Proto.TYPE_STRING, Proto.LABEL_REPEATED),
)
ID = tagged(6, 0, b"\x01")


def everything() -> MessageDescriptor:
    """A message of proto2, where enums are closed."""
    return parse_message(file_set(EVERYTHING, NESTED, syntax="proto2", enums=(enum(),)), "p.M")


BROKEN: list[tuple[ProtobufReason, bytes, str]] = [
    (ProtobufReason.TRUNCATED, ID + b"\x08", "value.e (at byte 2)"),
    (ProtobufReason.TRUNCATED, ID + tagged(2, 2, b"abc")[:-1], "value.text (at byte 2)"),
    (ProtobufReason.TRUNCATED, ID + tagged(7, 2, b"12345"), "value.list (at byte 2)"),
    (ProtobufReason.TRUNCATED, ID + varint(99 << 3 | 3) + ID, "(at byte 2)"),
    # Each part of a message is whole by itself, as Google's libraries have it: the next one makes up for nothing.
    (ProtobufReason.TRUNCATED, ID + tagged(3, 2, b"\x10") + tagged(3, 2, b"\x01"), "value.nested (at byte 2)"),
    (ProtobufReason.TRUNCATED, ID + tagged(3, 2, b"\x0a\x02") + tagged(3, 2, b"ab"), "value.nested (at byte 2)"),
    (ProtobufReason.TRUNCATED, ID + tagged(3, 2, b"\x9b\x06") + tagged(3, 2, b"\x9c\x06"), "value.nested (at byte 2)"),
    (ProtobufReason.TRUNCATED, ID + tagged(4, 2, b"\x08") + tagged(4, 2, b"\x01"), "value.at (at byte 2)"),
    (ProtobufReason.VARINT, ID + b"\x08" + b"\xff" * 10 + b"\x01", "value.e (at byte 2)"),
    (ProtobufReason.LENGTH, ID + b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "value.text (at byte 2)"),
    (ProtobufReason.NUMBER, ID + b"\x00", "(at byte 2)"),
    (ProtobufReason.NUMBER, ID + tagged(3, 2, b"\x00"), "value.nested (at byte 2)"),
    (ProtobufReason.WIRE_TYPE, ID + b"\xa6\x06", "(at byte 2)"),
    (ProtobufReason.GROUP, ID + b"\xa4\x06", "(at byte 2)"),
    (ProtobufReason.OTHER_TYPE, ID + tagged(2, 0, b"\x01"), "value.text (at byte 2)"),
    (ProtobufReason.ENUM, ID + tagged(1, 0, b"\x02"), "value.e (at byte 2)"),
    (ProtobufReason.UTF8, ID + tagged(2, 2, b"\xff"), "value.text (at byte 2)"),
    (ProtobufReason.UTF8, ID + tagged(3, 2, tagged(1, 2, b"\xed\xa0\x80")), "value.nested.text (at byte 2)"),
    (ProtobufReason.UTF8, ID + tagged(8, 2, b"a") + tagged(8, 2, b"\xc0\x80"), "value.texts (at byte 2)"),
    (ProtobufReason.REQUIRED, tagged(2, 2, b"a"), "value.id (at byte 3)"),
    (ProtobufReason.REQUIRED, b"", "value.id (at byte 0)"),
    (ProtobufReason.RANGE, ID + tagged(4, 2, tagged(1, 0, varint(1 << 62))), "value.at (at byte 2)"),
    (ProtobufReason.RANGE, ID + tagged(5, 2, tagged(1, 0, varint(1 << 63))), "value.took (at byte 2)"),
    (ProtobufReason.DEPTH, ID + b"\x9b\x06" * 101 + b"\x9c\x06" * 101, "(at byte 2)"),
]


def test_every_reason_is_told_with_its_place() -> None:
    """One record for each thing that can be wrong, good ones between them."""
    good = ID + tagged(2, 2, b"a")
    column = pa.array([each for _, record, _ in BROKEN for each in (record, good)])
    rows, bad = ProtobufValues(everything()).decode(column)
    assert [(each.row, each.reason) for each in bad] == [(2 * at, reason) for at, (reason, _, _) in enumerate(BROKEN)]
    for each, (_, _, place) in zip(bad, BROKEN, strict=True):
        assert each.message.endswith(place), each.message
    assert rows.null_count == len(BROKEN)
    assert {row["text"] for row in rows.to_pylist()[1::2]} == {"a"}
    assert {reason for reason, _, _ in BROKEN} == set(ProtobufReason) - {
        ProtobufReason.FRAME,
        ProtobufReason.OTHER_MESSAGE,
    }


def test_what_is_no_fault() -> None:
    """Unknown fields and groups, as deep as may be; other types, and numbers of no enum, inside of a message; parts of one."""
    deep = b"\x9b\x06" * 100 + b"\x9c\x06" * 100
    parts = tagged(3, 2, tagged(1, 2, b"a") + tagged(2, 0, b"\x01")) + tagged(
        3, 2, tagged(2, 0, b"\x63") + tagged(1, 0, b"\x01")
    )
    rows, bad = ProtobufValues(everything()).decode(
        pa.array([None, ID + deep, ID + parts, ID + tagged(3, 2, tagged(1, 2, b"b")) + parts[-9:]])
    )
    assert bad == []
    assert [row and row["nested"] for row in rows.to_pylist()] == [
        None,
        None,
        {"text": "a", "e": "B"},
        {"text": "b", "e": None},
    ]


@pytest.mark.parametrize(
    ("frame", "good"),
    [
        (b"\x00\x00\x00\x00\x07\x00", True),
        (b"\x00\xff\xff\xff\xff\x00", True),
        (b"\x00\x00\x00\x00\x07\x02\x00", True),
        (b"\x00\x00\x00\x00\x07\x04\x02\x80\x01", True),
        (b"\x01\x00\x00\x00\x07\x00", False),
        (b"\x00\x00\x00\x00\x07\x01", False),
        (b"\x00\x00\x00\x00\x07\x02\x01", False),
        (b"\x00\x00\x00\x00\x07\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", False),
        (b"\x00\x00\x00\x00\x07", False),
        (b"", False),
    ],
    ids=str,
)
def test_the_frame_of_a_registry_is_cut_off(frame: bytes, good: bool) -> None:
    """A zero, an id, and the place of the message in its schema, whose short form is one zero."""
    found = parse_message(file_set(message("M", field("text", 1, Proto.TYPE_STRING))), "M")
    record = frame + (tagged(1, 2, b"a") if good else b"")
    rows, bad = ProtobufValues(found, framed=True, any_index=True).decode(pa.array([record, None]))
    assert rows.to_pylist() == [{"text": "a"} if good else None, None]
    assert [each.reason for each in bad] == ([] if good else [ProtobufReason.FRAME])


MESSAGES = {"Order": (0,), "Refund": (1,), "Order.Line": (0, 1), "Order.Line.Part": (0, 1, 0)}


@pytest.mark.parametrize("asked", MESSAGES)
def test_a_record_of_another_message_is_bad(asked: str) -> None:
    """By the index in its frame, in both spellings of the first message; and read all the same where any will do."""
    part = message("Part", field("text", 1, Proto.TYPE_STRING))
    inside = [message(name, field("text", 1, Proto.TYPE_STRING)) for name in ("Address", "Line")]
    inside[1].nested_type.append(part)
    order, refund = (message(name, field("text", 1, Proto.TYPE_STRING)) for name in ("Order", "Refund"))
    order.nested_type.extend(inside)
    found = parse_message(file_set(order, refund), f"p.{asked}")
    assert found.index == MESSAGES[asked]
    indexes = [b"\0", *(bytes([2 * len(index), *(2 * each for each in index)]) for index in MESSAGES.values())]
    records = pa.array([b"\0\0\0\0\7" + index + tagged(1, 2, b"a") for index in indexes])
    good = [index == MESSAGES[asked] for index in ((0,), *MESSAGES.values())]
    rows, bad = ProtobufValues(found, framed=True).decode(records)
    assert rows.to_pylist() == [{"text": "a"} if each else None for each in good]
    assert [(each.row, each.reason) for each in bad] == [
        (row, ProtobufReason.OTHER_MESSAGE) for row, each in enumerate(good) if not each
    ]
    assert "value.message.index=any" in bad[0].message
    rows, bad = ProtobufValues(found, framed=True, any_index=True).decode(records)
    assert (rows.to_pylist(), bad) == ([{"text": "a"}] * len(records), [])


TARGET = struct({"s": STRING, "l": array(BIGINT)})
WRONG: list[list[tuple[int, ...]]] = [
    [],
    [(ProtobufOp.BOOL, 0, 1, 0, 0, 0, 0)],
    [(ProtobufOp.MESSAGE, -1, 0, 0, 0, 0, 0)],
    [(ProtobufOp.MESSAGE, 0, 0, 0, 0, 2, 0), (ProtobufOp.STRING, 1, 1, 0, 0, 0, 0)],
    [(ProtobufOp.MESSAGE, 0, 0, 0, 0, 1, 0), (ProtobufOp.INT64, 1, 1, 0, 0, 0, 0)],
    [(ProtobufOp.MESSAGE, 0, 0, 0, 0, 1, 0), (ProtobufOp.STRING, 4, 1, 0, 0, 0, 0)],
    [(ProtobufOp.MESSAGE, 0, 0, 0, 0, 1, 0), (ProtobufOp.STRING, 1, 0, 0, 0, 0, 0)],
    [(ProtobufOp.MESSAGE, 0, 0, 0, 0, 1, 0), (ProtobufOp.STRING, 1, 1, FieldFlag.DEFAULT, 0, 0, 9)],
    [(ProtobufOp.MESSAGE, 0, 0, 0, 0, 1, 0), (ProtobufOp.ENUM, 1, 1, 0, 0, 5, 0)],
    [(ProtobufOp.MESSAGE, 0, 0, 0, 0, 1, 0), (ProtobufOp.ENUM, 1, 1, 0, 0, 0, 0)],
    [(ProtobufOp.MESSAGE, 0, 0, 0, 0, 1, 0), (ProtobufOp.INT64, 2, 1, 0, 0, 0, 0)],
    [(ProtobufOp.MESSAGE, 0, 0, 0, 0, 1, 0), (ProtobufOp.INT64, 1, 1, FieldFlag.REPEATED, 0, 0, 0)],
    [(ProtobufOp.MESSAGE, 0, 0, 0, 0, 1, 0), (ProtobufOp.SUBMESSAGE, 0, 1, 0, 0, 0, 0)],
    [
        (ProtobufOp.MESSAGE, 0, 0, 0, 0, 1, 0),
        (ProtobufOp.TIME, 3, 1, 0, 0, 2, 0),
        (ProtobufOp.MESSAGE, -1, 0, 0, 0, 0, 0),
    ],
    [
        (ProtobufOp.MESSAGE, 0, 0, 0, 0, 2, 0),
        (ProtobufOp.STRING, 1, 2, 0, 0, 0, 0),
        (ProtobufOp.STRING, 1, 2, 0, 0, 0, 0),
    ],
    [(ProtobufOp.MESSAGE, 0, 0, 0, 0, 1, 0), (99, 1, 1, 0, 0, 0, 0)],
]


@pytest.mark.parametrize("steps", WRONG, ids=str)
def test_a_decoder_takes_only_steps_that_fit(steps: list[tuple[int, ...]]) -> None:
    """What would write to a column of another type, or run out of the list, is refused before it runs."""
    numbers = [number for step in steps for number in step]
    table = struct_module.pack("=4q", 1, 7, 0, 0)  # its prefix is no constant
    with pytest.raises(ValueError, match="can't be run on these columns"):
        ProtobufDecoder(packed(TARGET), struct_module.pack(f"={len(numbers)}q", *numbers), table, (b"",))


def test_buffers_that_lie_are_no_way_out() -> None:
    """Steps, columns or rows that are cut off; offsets that point behind the bytes, or backwards."""
    found = parse_message(file_set(message("M", field("s", 1, Proto.TYPE_STRING))), "M")
    made = compile_steps(found, column_type(found))
    columns, (steps, table) = packed(made.target), made.packed()
    for wrong in (
        (columns, steps[:-1], table),
        (columns[:-1], steps, table),
        (columns, steps, b"1"),
        (b"", steps, table),
    ):
        with pytest.raises(ValueError, match="these are no columns"):
            ProtobufDecoder(*wrong, made.constants)
    decoder = ProtobufDecoder(columns, steps, table, made.constants)
    with pytest.raises(ValueError, match="shorter than their column"):
        decoder.decode(None, b"\0" * 8, b"", 0, 5, False, lambda _: None)
    with pytest.raises(RuntimeError, match="made once"):
        decoder.__init__(columns, steps, table, made.constants)  # type: ignore[misc]
    offsets = struct_module.pack("=5i", 0, 100, 2, -3, 1)
    kind = pa.struct([("s", pa.string())])
    rows, bad = decoder.decode(None, offsets, b"\x0a\x00", 0, 4, False, lambda at: pa.Array._import_from_c(at, kind))
    assert (rows.to_pylist(), bad) == ([{"s": None}] * 4, [])
