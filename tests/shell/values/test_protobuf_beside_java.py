"""Protobuf beside Google's Java library with the rules of ``from_protobuf``; each difference is one that the page names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sparkcohort.runtime.shell.values.protobuf_decoder import ProtobufValues
from sparkcohort.runtime.values.protobuf_descriptor import parse_message
from sparkcohort.runtime.values.protobuf_steps import ProtobufReason
from sparkcohort.runtime.values.types import STRING, ColumnType, struct
from tests.kit.java_protobuf import JavaProtobuf
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
from tests.kit.spark_avro import shown
from tests.kit.tier import of_tier

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def java() -> Iterator[JavaProtobuf]:
    """One JVM for all of them."""
    with JavaProtobuf() as running:
        yield running


def read(schema: bytes, record: bytes, name: str = "p.M0", target: ColumnType | None = None) -> Any:
    """What we make of it: the value, or the reason."""
    values = ProtobufValues(parse_message(schema, name), target)
    rows, bad = values.decode(pa.array([record]))
    return bad[0].reason if bad else canonical(shown(plain(rows[0]), values.target))


def canonical(value: Any) -> Any:
    """The same with one NaN: Python and Java change its bits."""
    if isinstance(value, dict):
        return {name: canonical(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [canonical(inner) for inner in value]
    if not isinstance(value, str) or value[0] not in "fd":
        return value
    infinite, bits = (0x7F800000, 31) if value[0] == "f" else (0x7FF << 52, 63)
    return "NaN" if int(value[1:], 16) & (1 << bits) - 1 > infinite else value


@settings(max_examples=of_tier(quick=50, thorough=150), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_records_are_what_java_makes_of_them(java: JavaProtobuf, data: st.DataObject) -> None:
    """Drawn messages, good records and broken ones: the same values, bit by bit, and the same ones bad."""
    schema = data.draw(sets())
    of = descriptor(schema)
    assume(any(map(has_column, of.fields)))
    assert java.schema(schema) == "ok"
    good = data.draw(records(of))
    changed = bytearray(good)
    if changed:
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    garbage = data.draw(st.binary(max_size=20))
    for record in (good, good[: data.draw(st.integers(0, len(good)))], bytes(changed), garbage):
        ours, theirs = read(schema, record), canonical(java.record(record))
        if ours is ProtobufReason.UTF8:
            assert theirs is None or schema.endswith(b"proto2")
        elif isinstance(ours, ProtobufReason):
            assert theirs is None, (record.hex(), ours)
        elif theirs is None:
            assert _not_looked_at(schema, record), record.hex()
        else:
            assert ours == theirs, record.hex()


def _not_looked_at(schema: bytes, record: bytes) -> bool:
    """Whether the record may be bad in what has no column, or was replaced: a message without fields, or one of a oneof."""
    found = descriptor(schema)
    messages = [found, *(each.message_type for each in found.fields if each.message_type)]
    return bool(record) and any(
        not has_column(each) or (each.containing_oneof and each.message_type) for of in messages for each in of.fields
    )


NESTED = message("N", field("e", 1, Proto.TYPE_ENUM, type_name=".p.E"), field("n", 2, Proto.TYPE_INT32))
FIELDS = [
    field("e", 1, Proto.TYPE_ENUM, type_name=".p.E"),
    field("n", 2, Proto.TYPE_MESSAGE, type_name=".p.N"),
    field("text", 3, Proto.TYPE_STRING),
    field("f", 4, Proto.TYPE_FLOAT),
    field("at", 5, Proto.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp"),
    field("list", 6, Proto.TYPE_ENUM, Proto.LABEL_REPEATED, type_name=".p.E"),
    field("number", 7, Proto.TYPE_SINT32),
]
OLD = file_set(message("M", *FIELDS), NESTED, syntax="proto2", enums=(enum(),))
NEW = file_set(message("M", *FIELDS), NESTED, enums=(enum(),))
DEEP = b"\x9b\x06" * 100 + b"\x9c\x06" * 100


@pytest.mark.parametrize("schema", [OLD, NEW], ids=["proto2", "proto3"])
@pytest.mark.parametrize(
    "record",
    [
        b"",
        tagged(1, 0, b"\x00"),
        tagged(1, 0, b"\x63"),
        tagged(1, 0, varint(-7)),
        tagged(1, 0, varint(1 << 32)),
        tagged(2, 2, tagged(1, 0, b"\x63") + tagged(2, 0, b"\x05")),
        tagged(2, 2, tagged(1, 0, b"\x01") + tagged(1, 0, b"\x63")),
        tagged(2, 2, tagged(1, 0, b"\x01")) + tagged(2, 2, tagged(2, 0, b"\x05")),
        tagged(2, 2, tagged(2, 2, b"\x05")),
        tagged(2, 0, b"\x05"),
        tagged(3, 0, b"\x05"),
        tagged(3, 2, b"a") + tagged(3, 2, b""),
        tagged(4, 5, b"\x00\x00\x00\x80"),
        tagged(4, 5, b"\x00\x00\x00\x00"),
        tagged(4, 5, b"\x01\x00\xc0\x7f"),
        tagged(5, 2, b""),
        tagged(5, 2, tagged(1, 0, varint(-1)) + tagged(2, 0, varint(999_999_999))),
        tagged(5, 2, tagged(2, 0, varint(-1_999))),
        tagged(5, 2, tagged(1, 0, varint(9_223_372_036_854))),
        tagged(5, 2, tagged(1, 0, varint(9_223_372_036_855))),
        tagged(6, 2, b"\x00\x01\x63\x01"),
        tagged(6, 0, b"\x01") + tagged(6, 2, b"\x00\x01"),
        tagged(7, 0, varint((1 << 64) - 1)),
        tagged(7, 0, b"\xff" * 9 + b"\x7f"),
        tagged(7, 0, b"\xff" * 10 + b"\x01"),
        b"\xb8\x80\x80\x80\x80\x80\x80\x80\x80\x00\x02",
        b"\xb8\x80\x80\x80\x80\x80\x80\x80\x40\x02",
        b"\x00",
        b"\x04",
        b"\x0c",
        b"\x0f",
        b"\x9b\x06\x9c\x06",
        b"\x9b\x06\x0c",
        b"\x9b\x06",
        DEEP,
        b"\x9b\x06" + DEEP + b"\x9c\x06",
        tagged(2, 2, DEEP),
        b"\x1a\x80\x80\x80\x80\x08",
        b"\x1a\x81\x80\x80\x80\x10\x61",
        b"\x1a\x05a",
    ],
    ids=bytes.hex,
)
def test_the_edges_of_the_format(java: JavaProtobuf, schema: bytes, record: bytes) -> None:
    """Numbers that are too long, groups, times, enums, zeros, parts of messages, other types."""
    assert java.schema(schema, "p.M") == "ok"
    ours, theirs = read(schema, record, "p.M"), canonical(java.record(record))
    assert (None if isinstance(ours, ProtobufReason) else ours) == theirs, ours


def test_differences_that_the_page_names(java: JavaProtobuf) -> None:
    """Strings of proto2, and what nobody asked for."""
    java.schema(OLD, "p.M")
    assert java.record(tagged(3, 2, b"\xff"))["text"] == "t" + "\ufffd".encode().hex()
    assert read(OLD, tagged(3, 2, b"\xff"), "p.M") is ProtobufReason.UTF8
    java.schema(NEW, "p.M")
    broken = tagged(1, 2, b"a") + tagged(2, 2, b"\xff") + tagged(3, 2, b"a")
    assert java.record(broken) is None
    assert read(NEW, broken, "p.M", struct({"text": STRING})) == {"text": "t61"}
    fields = [field("a", 1, Proto.TYPE_MESSAGE, type_name=".p.N"), field("b", 2, Proto.TYPE_INT32)]
    for each in fields:
        each.oneof_index = 0
    made = message("M", *fields)
    made.oneof_decl.add(name="o")
    replaced = file_set(made, NESTED, enums=(enum(),))
    java.schema(replaced, "p.M")
    assert java.record(tagged(1, 2, b"\x08") + tagged(2, 0, b"\x01")) is None
    assert read(replaced, tagged(1, 2, b"\x08") + tagged(2, 0, b"\x01"), "p.M") == {"a": None, "b": 1}
