"""Descriptor sets and the columns of their messages."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from sparkcohort.runtime.values.protobuf_columns import column_type
from sparkcohort.runtime.values.protobuf_compilation import compile_steps
from sparkcohort.runtime.values.protobuf_descriptor import DescriptorError, parse_message
from sparkcohort.runtime.values.types import BIGINT, INT, STRING, array, mapping, struct
from tests.kit.protobuf_schemas import KNOWN, Proto, enum, field, file_set, message

NESTED = message("Line", field("sku", 1, Proto.TYPE_STRING), field("count", 2, Proto.TYPE_UINT32))
EMPTY = message("Empty")


def order(*more: Any) -> bytes:
    """A message with something of everything."""
    entry = message("ByEntry", field("key", 1, Proto.TYPE_STRING), field("value", 2, Proto.TYPE_MESSAGE))
    entry.field[1].type_name = ".p.Line"
    entry.options.map_entry = True
    fields = [
        field("id", 1, Proto.TYPE_UINT64),
        field("state", 2, Proto.TYPE_ENUM, type_name="E"),
        field("lines", 3, Proto.TYPE_MESSAGE, Proto.LABEL_REPEATED, type_name="Line"),
        field("by", 4, Proto.TYPE_MESSAGE, Proto.LABEL_REPEATED, type_name=".p.Order.ByEntry"),
        field("at", 5, Proto.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp"),
        field("took", 6, Proto.TYPE_MESSAGE, type_name=".google.protobuf.Duration"),
        field("note", 7, Proto.TYPE_MESSAGE, type_name=".google.protobuf.StringValue"),
        field("nothing", 8, Proto.TYPE_MESSAGE, type_name=".p.Empty"),
        field("raw", 9, Proto.TYPE_BYTES, Proto.LABEL_REPEATED),
    ]
    return file_set(message("Order", *fields, *more, nested_type=[entry]), NESTED, EMPTY, enums=(enum(),))


def test_types_are_those_of_from_protobuf() -> None:
    """Unsigned numbers, enums, lists, maps, Google's own messages; a message without fields is left out."""
    line = "struct<sku:string,count:int>"
    assert str(column_type(parse_message(order(), "p.Order"))) == (
        f"struct<id:bigint,state:string,lines:array<{line}>,by:map<string,{line}>,at:timestamp,"
        "took:interval day to second,note:struct<value:string>,raw:array<binary>>"
    )


def test_a_message_is_found_by_its_full_name_or_by_its_own() -> None:
    """Also one inside of another; entries of maps are none."""
    inner = message("Outer", nested_type=[message("Inner", field("a", 1, Proto.TYPE_INT32))])
    data = file_set(inner, message("Inner", field("b", 1, Proto.TYPE_INT32)), NESTED)
    assert parse_message(data, "Line").name == "p.Line"
    assert [each.name for each in parse_message(data, "p.Outer.Inner").fields] == ["a"]
    with pytest.raises(DescriptorError, match=r"'Inner' are several: p.Inner, p.Outer.Inner"):
        parse_message(data, "Inner")
    for name in ("Nobody", "", "ByEntry"):
        with pytest.raises(DescriptorError, match=r"there is no message .* it has p.Empty, p.Line, p.Order"):
            parse_message(order(), name)


def test_imports_that_are_missing_are_named() -> None:
    """With what protoc has to be told."""
    found = descriptor_pb2.FileDescriptorSet.FromString(order())
    del found.file[: len(found.file) - 1]
    with pytest.raises(
        DescriptorError,
        match=r"\.google\.protobuf\.Timestamp of p\.Order\.at.*google/protobuf/timestamp.*--include_imports",
    ):
        parse_message(found.SerializeToString(), "p.Order")


@pytest.mark.parametrize(
    "data", [b"", b"syntax = 'proto3';", b"\xff" * 20, order()[:-3], b"\x0a\x02\x08\x01", b"\x08\x01"]
)
def test_what_is_no_descriptor_set_is_told(data: bytes) -> None:
    """Among it the text of a .proto file."""
    with pytest.raises(DescriptorError, match="it is no descriptor set"):
        parse_message(data, "p.Order")


def test_a_part_of_the_fields_is_all_that_is_read() -> None:
    """And what is none of the message's is refused by name."""
    found = parse_message(order(), "p.Order")
    target = struct({"lines": array(struct({"count": INT})), "id": BIGINT})
    paths = ("value", "value.id", "value.lines", "value.lines", "value.lines.count")
    assert compile_steps(found, target).paths == paths
    for wrong in (
        struct({"ID": BIGINT}),
        struct({"id": INT}),
        struct({"lines": struct({"count": INT})}),
        struct({"lines": array(struct({"Count": INT}))}),
        struct({"by": array(STRING)}),
        struct({"by": mapping(struct({"sku": INT}))}),
        struct({"at": struct({"seconds": BIGINT})}),
        STRING,
    ):
        with pytest.raises(DescriptorError, match="value"):
            compile_steps(found, wrong)


def test_features_of_editions() -> None:
    """Presence, groups and closed enums, as the file, the message, the enum or the field says."""
    file = descriptor_pb2.FileDescriptorProto(name="e.proto", package="p", syntax="editions", edition="EDITION_2023")
    features = descriptor_pb2.FeatureSet
    fields = [field(name, number, Proto.TYPE_INT32) for number, name in enumerate(("plain", "implicit", "required"), 1)]
    fields[1].options.features.field_presence = features.IMPLICIT
    fields[2].options.features.field_presence = features.LEGACY_REQUIRED
    fields += [field("group", 4, Proto.TYPE_MESSAGE, type_name=".p.Line")]
    fields[3].options.features.message_encoding = features.DELIMITED
    fields += [
        field("open", 5, Proto.TYPE_ENUM, type_name=".p.E"),
        field("closed", 6, Proto.TYPE_ENUM, type_name=".p.C"),
    ]
    closed = enum("C", {"ONE": 1})
    closed.options.features.enum_type = features.CLOSED
    file.message_type.extend([message("M", *fields), NESTED])
    file.enum_type.extend([enum(), closed])
    made = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    found = {each.name: each for each in parse_message(made, "p.M").fields}
    assert [name for name, each in found.items() if each.implicit] == ["implicit"]
    assert [name for name, each in found.items() if each.required] == ["required"]
    assert [name for name, each in found.items() if each.delimited] == ["group"]
    assert [name for name, each in found.items() if each.closed] == ["closed"]
    file.options.features.field_presence = features.IMPLICIT
    made = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    assert [each.name for each in parse_message(made, "p.M").fields if each.implicit] == [
        "plain",
        "implicit",
        "open",
        "closed",
    ]
    file.syntax, file.edition = "editions", 99999
    with pytest.raises(DescriptorError, match="a syntax that is not known"):
        parse_message(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(), "p.M")


def test_defaults_that_are_none_of_their_type() -> None:
    """Refused by the field's name."""
    for kind, text in [(Proto.TYPE_INT32, "x"), (Proto.TYPE_BOOL, "1"), (Proto.TYPE_ENUM, "C"), (Proto.TYPE_FLOAT, "")]:
        more = {"type_name": ".p.E"} if kind == Proto.TYPE_ENUM else {}
        data = file_set(message("M", field("f", 1, kind, default_value=text, **more)), syntax="proto2", enums=(enum(),))
        found = parse_message(data, "M")
        with pytest.raises(DescriptorError, match="the default of f is none of its type"):
            compile_steps(found, column_type(found))


def test_a_timestamp_of_your_own_is_one_if_it_looks_like_googles() -> None:
    """By its name and its fields, in their order; anything else is a struct."""
    seconds, nanos = field("seconds", 1, Proto.TYPE_INT64), field("nanos", 2, Proto.TYPE_INT32)
    at = field("at", 1, Proto.TYPE_MESSAGE, type_name=".p.Timestamp")
    for fields, kind in [
        ([seconds, nanos], "timestamp"),
        ([nanos, seconds], "struct<nanos:int,seconds:bigint>"),
        ([seconds], "struct<seconds:bigint>"),
        ([field("seconds", 1, Proto.TYPE_INT32), nanos], "struct<seconds:int,nanos:int>"),
    ]:
        found = parse_message(file_set(message("M", at), message("Timestamp", *fields)), "p.M")
        assert str(column_type(found)) == f"struct<at:{kind}>"


def test_every_known_message_is_in_its_file() -> None:
    """The kit's table of Google's messages."""
    for name, module in KNOWN.items():
        assert name.rpartition(".")[2] in module.DESCRIPTOR.message_types_by_name
