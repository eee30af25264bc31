"""Protobuf's records as a target of ``targets``: messages that have all there is."""

from __future__ import annotations

from functools import cache
from typing import Any

from sparkcohort.runtime.shell.values.protobuf_decoder import ProtobufValues
from sparkcohort.runtime.values.protobuf_descriptor import MessageDescriptor, parse_message
from sparkcohort.runtime.values.types import STRING, ColumnType, array, struct
from tests.kit.plain_rows import decode
from tests.kit.protobuf_schemas import KEYS, NUMBERS, TEXTS, Proto, enum, field, file_set, message
from tests.kit.targets import Target

SCALARS = (*NUMBERS, *TEXTS, Proto.TYPE_ENUM)


def _scalar(name: str, number: int, kind: Any, label: Any = Proto.LABEL_OPTIONAL) -> Any:
    return field(name, number, kind, label, **({"type_name": ".p.E"} if kind == Proto.TYPE_ENUM else {}))


def _inner(
    name: str, number: int, inner: str, label: Any = Proto.LABEL_OPTIONAL, kind: Any = Proto.TYPE_MESSAGE
) -> Any:
    return field(name, number, kind, label, type_name=inner)


def everything(syntax: str) -> bytes:
    """Each type once alone and once in a list; messages, groups, maps, a oneof, times, defaults, what is required."""
    repeated, times = Proto.LABEL_REPEATED, (".google.protobuf.Timestamp", ".google.protobuf.Duration")
    fields = [_scalar(f"s{place}", 1 + place, kind) for place, kind in enumerate(SCALARS)]
    lists = [_scalar(f"l{place}", 101 + place, kind, repeated) for place, kind in enumerate(SCALARS)]
    entry = message("MapEntry", field("key", 1, KEYS[0]), _inner("value", 2, ".p.Inner"))
    numbers = message("NumbersEntry", field("key", 1, KEYS[1]), _scalar("value", 2, Proto.TYPE_ENUM))
    for each in (entry, numbers):
        each.options.map_entry = True
    fields += [
        *lists,
        _inner("one", 30, ".p.Inner"),
        _inner("many", 31, ".p.Inner", repeated),
        _inner("map", 32, ".p.M.MapEntry", repeated),
        _inner("numbers", 33, ".p.M.NumbersEntry", repeated),
        _inner("at", 34, times[0]),
        _inner("took", 35, times[1], repeated),
    ]
    chosen = [
        _scalar("text", 40, Proto.TYPE_STRING),
        _inner("message", 41, ".p.Inner"),
        _scalar("e", 42, Proto.TYPE_ENUM),
    ]
    for each in chosen:
        each.oneof_index = 0
    inner = message(
        "Inner", _scalar("e", 1, Proto.TYPE_ENUM), _scalar("text", 2, Proto.TYPE_STRING), _inner("deep", 3, ".p.Deep")
    )
    deep = message("Deep", _scalar("n", 1, Proto.TYPE_SINT64), _scalar("e", 2, Proto.TYPE_ENUM, repeated))
    if syntax == "proto2":
        fields += [
            _inner("group", 36, ".p.Inner", repeated, Proto.TYPE_GROUP),
            _inner("only", 37, ".p.Inner", kind=Proto.TYPE_GROUP),
        ]
        deep.field.append(_scalar("must", 4, Proto.TYPE_BOOL, Proto.LABEL_REQUIRED))
        deep.field.append(field("d", 5, Proto.TYPE_STRING, default_value="default"))
        deep.field.append(field("f", 6, Proto.TYPE_FLOAT, default_value="1.5"))
    made = message("M", *fields, *chosen, nested_type=[entry, numbers])
    made.oneof_decl.add(name="o")
    return file_set(made, inner, deep, syntax=syntax, enums=(enum(),))


def found(syntax: str) -> MessageDescriptor:
    """The message."""
    return parse_message(everything(syntax), "p.M")


def plans() -> list[tuple[MessageDescriptor, ColumnType | None, bool]]:
    """Messages, what is asked for of them, and whether records have a frame; to read them takes every operation and flag."""
    some = struct({"many": array(struct({"deep": struct({"d": STRING})})), "text": STRING})
    old, new = found("proto2"), found("proto3")
    return [
        (old, None, False),
        (new, None, False),
        (new, None, True),
        (old, some, False),
        (new, struct({"text": STRING}), False),
    ]


@cache
def decoders() -> list[ProtobufValues]:
    """Those of the plans."""
    return [ProtobufValues(message, target, framed=framed) for message, target, framed in plans()]


def check(data: bytes) -> None:
    """The number of a plan, then a record."""
    if data:
        decode(decoders()[data[0] % len(decoders())], data[1:])


TARGET = Target("protobuf", check)
