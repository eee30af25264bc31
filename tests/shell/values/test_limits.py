"""What a batch of values can't be: larger than its offsets can tell, larger than memory, of another type than BINARY."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from sparkcohort.native import _native
from sparkcohort.runtime.shell.values.avro_decoder import AvroValues
from sparkcohort.runtime.shell.values.json_decoder import JsonValues
from sparkcohort.runtime.shell.values.protobuf_decoder import ProtobufValues
from sparkcohort.runtime.values.avro_schema import parse_schema
from sparkcohort.runtime.values.protobuf_descriptor import parse_message
from sparkcohort.runtime.values.types import BINARY, INT, STRING, ColumnType, array, mapping, struct
from tests.kit.protobuf_schemas import Proto, field, file_set, message, tagged

MOST = 5000
TEN = '"0123456789"'
FULL = "more bytes or items than its offsets can tell"
SYMBOL = "S" * 100
Decoder = JsonValues | AvroValues | ProtobufValues


def json_of(kind: ColumnType) -> JsonValues:
    """A decoder whose columns are full with few bytes."""
    return JsonValues(struct({"f": kind}), most=MOST)


def avro_of(schema: Any) -> AvroValues:
    """The same; its records are of no byte but what the schema has."""
    return AvroValues(parse_schema(json.dumps(schema)), most=MOST)


RECORD: dict[str, Any] = {"type": "record", "name": "R", "fields": [{"name": "f", "type": "string"}]}
ENUM = {"type": "enum", "name": "E", "symbols": [SYMBOL]}
JSON = [
    (STRING, f'{{"f":{TEN}}}', 10),
    (STRING, '{"f":{"a":1.5}}', 9),
    (BINARY, '{"f":"QUJD"}', 3),
    (array(INT), '{"f":[1,2,3,4,5]}', 5),
    (array(STRING), f'{{"f":[{TEN},{TEN}]}}', 20),
    (mapping(INT), f'{{"f":{{{TEN}:1}}}}', 10),
    (struct({"g": STRING}), f'{{"f":{{"g":{TEN}}}}}', 10),
]
AVRO = [
    (RECORD, b"\x14" + b"0123456789", 10),
    (ENUM, b"\0", len(SYMBOL)),
    ({"type": "array", "items": "null"}, b"", 0),
    ({"type": "array", "items": "int"}, b"\x0a\2\4\6\x08\x0a\0", 5),
    ({"type": "map", "values": ENUM}, b"\2\x02a\0\0", len(SYMBOL)),
    ({"type": "fixed", "name": "F", "size": 25}, b"x" * 25, 25),
]


def full(decoder: Decoder, record: bytes, each: int) -> None:
    """As many rows as fit, to the byte; one more is an error; then as many again, as if nothing had been."""
    fits = MOST // each
    for _ in range(2):
        rows, bad = decoder.decode(pa.array([record] * fits))
        rows.validate(full=True)
        assert (len(rows), rows.null_count, bad) == (fits, 0, [])
        with pytest.raises(OverflowError, match=FULL):
            decoder.decode(pa.array([record] * (fits + 1)))
    assert decoder.decode(pa.array([record]))[0].to_pylist() == rows[:1].to_pylist()


@pytest.mark.parametrize(("kind", "record", "each"), JSON, ids=[f"{kind} {record}" for kind, record, _ in JSON])
def test_json_that_is_too_large_for_a_column(kind: ColumnType, record: str, each: int) -> None:
    """Strings, what stays JSON, base64, items, keys."""
    full(json_of(kind), record.encode(), each)


@pytest.mark.parametrize(("schema", "record", "each"), [each for each in AVRO if each[2]], ids=str)
def test_avro_that_is_too_large_for_a_column(schema: Any, record: bytes, each: int) -> None:
    """Strings, symbols of which a record has a byte only, items, keys."""
    full(avro_of(schema), record, each)


@pytest.mark.parametrize(("kind", "record", "each"), [("a", tagged(1, 2, b"0123456789"), 10), ("b", b"\x10\1" * 5, 5)])
def test_protobuf_that_is_too_large_for_a_column(kind: str, record: bytes, each: int) -> None:
    """Strings, items."""
    field_ = {"a": field("a", 1, Proto.TYPE_STRING), "b": field("b", 2, Proto.TYPE_INT64, Proto.LABEL_REPEATED)}[kind]
    found = parse_message(file_set(message("M", field_)), "M")
    full(ProtobufValues(found, most=MOST), record, each)


def test_a_default_that_is_too_large_for_a_column() -> None:
    """Records of no byte at all."""
    reader = {**RECORD, "fields": [{"name": "f", "type": "string", "default": "0123456789"}]}
    writer = parse_schema(json.dumps({**RECORD, "fields": []}))
    full(AvroValues(parse_schema(json.dumps(reader)), writer=writer, most=MOST), b"", 10)


def test_the_limit_is_that_of_arrows_offsets() -> None:
    """Where nobody says another one; and none that an offset can't have is taken."""
    fields = bytes(16)
    for most in (2**31, -1):
        with pytest.raises((OverflowError, ValueError)):
            _native.JsonDecoder(fields, b"\0", most)
        with pytest.raises((OverflowError, ValueError)):
            _native.AvroDecoder(bytes(8), most)
    assert _native.JsonDecoder(fields, b"\0", 2**31 - 1).decode(None, b"", b"", 0, 0, lambda _: "rows") == ("rows", [])


WIDE = [{"name": f"f{number}", "type": ["null", "long"], "default": None} for number in range(50)]


def wide_of(items: Any, read_as: Any) -> AvroValues:
    """A decoder of arrays, whose items are read as another type than they are written as."""
    written, wanted = ({"type": "array", "items": each} for each in (items, read_as))
    reader = parse_schema(json.dumps(wanted))
    return AvroValues(reader, writer=parse_schema(json.dumps(written)))


def test_a_few_bytes_that_become_gigabytes() -> None:
    """Nulls of a struct of many fields, and structs of which the writer has no field: an error long before memory is out."""
    item = {"type": "record", "name": "I", "fields": WIDE}
    empty = wide_of({**item, "fields": []}, item)
    record = b"\x80\x40\0"  # 4096 items of no byte: 1.6 MB
    rows, bad = empty.decode(pa.array([record] * 60))
    assert (len(rows), len(rows[59]), bad) == (60, 4096, [])
    with pytest.raises(OverflowError, match="more than is allowed"):
        empty.decode(pa.array([record] * 200))
    nulls = [b"\x80\x89\x7a" + bytes(1_000_000) + b"\0", b'{"f":[' + b"null," * 999_999 + b"null]}"]
    wide = struct({f"f{number}": INT for number in range(100)})
    decoders: list[Decoder] = [wide_of(["null", item], ["null", item]), json_of(array(wide))]
    for decoder, record in zip(decoders, nulls, strict=True):
        with pytest.raises(OverflowError, match="more than is allowed"):
            decoder.decode(pa.array([record]))


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.string(), pa.binary_view(), pa.int64()], ids=str)
def test_only_binary_is_read(kind: Any) -> None:
    """Offsets of another width would be read as others."""
    for decoder in (json_of(INT), avro_of("int")):
        with pytest.raises(TypeError, match="of type binary, not"):
            decoder.decode(pa.array([], kind))
