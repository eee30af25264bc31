"""Drawn Protobuf messages as descriptor sets, records for them as any writer may write them."""

from __future__ import annotations

import itertools
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import strategies as st

Proto = descriptor_pb2.FieldDescriptorProto
NUMBERS: Final = (
    *(Proto.TYPE_INT32, Proto.TYPE_INT64, Proto.TYPE_UINT32, Proto.TYPE_UINT64, Proto.TYPE_SINT32, Proto.TYPE_SINT64),
    *(Proto.TYPE_FIXED32, Proto.TYPE_FIXED64, Proto.TYPE_SFIXED32, Proto.TYPE_SFIXED64),
    *(Proto.TYPE_FLOAT, Proto.TYPE_DOUBLE, Proto.TYPE_BOOL),
)
TEXTS: Final = (Proto.TYPE_STRING, Proto.TYPE_BYTES)
KEYS: Final = (Proto.TYPE_STRING, Proto.TYPE_INT32, Proto.TYPE_SINT64, Proto.TYPE_FIXED32, Proto.TYPE_BOOL)
I32: Final = (Proto.TYPE_FIXED32, Proto.TYPE_SFIXED32, Proto.TYPE_FLOAT)
I64: Final = (Proto.TYPE_FIXED64, Proto.TYPE_SFIXED64, Proto.TYPE_DOUBLE)
KNOWN: Final = {
    ".google.protobuf.Timestamp": timestamp_pb2,
    ".google.protobuf.Duration": duration_pb2,
    ".google.protobuf.Int32Value": wrappers_pb2,
    ".google.protobuf.StringValue": wrappers_pb2,
}
DEFAULTS: Final = {
    **dict.fromkeys(NUMBERS, ("0", "7")),
    **dict.fromkeys((Proto.TYPE_INT32, Proto.TYPE_SINT64, Proto.TYPE_SFIXED64), ("-3", "2147483647")),
    **dict.fromkeys((Proto.TYPE_UINT64, Proto.TYPE_FIXED64), ("18446744073709551615",)),
    **dict.fromkeys((Proto.TYPE_FLOAT, Proto.TYPE_DOUBLE), ("1.5", "-inf", "nan", "-0")),
    Proto.TYPE_BOOL: ("true", "false"),
    Proto.TYPE_STRING: ("", "ä\\n"),
    Proto.TYPE_BYTES: ("", r"a\000\377\n\"\\"),
    Proto.TYPE_ENUM: ("A", "B", "MINUS"),
}
ENUM: Final = {"A": 0, "B": 1, "MINUS": -5, "LARGE": 2147483647}
MORE: Final = (2, -1, 1 << 31)  # numbers that the enum does not have
Draw = st.DrawFn


def field(name: str, number: int, kind: Any, label: Any = Proto.LABEL_OPTIONAL, **more: Any) -> Any:
    """A field's descriptor."""
    return Proto(name=name, number=number, type=kind, label=label, **more)


def file_set(*messages: Any, syntax: str = "proto3", enums: tuple[Any, ...] = (), package: str = "p") -> bytes:
    """The descriptor set of one file, with those of Google's that it uses."""
    made = descriptor_pb2.FileDescriptorProto(name="t.proto", package=package, syntax=syntax)
    made.message_type.extend(messages)
    made.enum_type.extend(enums)
    found = descriptor_pb2.FileDescriptorSet()
    text = str(made)
    for module in sorted(
        {module for name, module in KNOWN.items() if name in text}, key=lambda each: str(each.__name__)
    ):
        file = found.file.add()
        module.DESCRIPTOR.CopyToProto(file)
        made.dependency.append(file.name)
    found.file.append(made)
    return bytes(found.SerializeToString())


def message(name: str, *fields: Any, **more: Any) -> Any:
    """A message's descriptor."""
    return descriptor_pb2.DescriptorProto(name=name, field=fields, **more)


def enum(name: str = "E", values: dict[str, int] = ENUM) -> Any:
    """An enum's descriptor."""
    made = descriptor_pb2.EnumDescriptorProto(name=name)
    for each, number in values.items():
        made.value.add(name=each, number=number)
    return made


ORDERS: Final = file_set(
    message(
        "Order",
        field("id", 1, Proto.TYPE_INT64),
        field("state", 2, Proto.TYPE_ENUM, type_name=".p.E"),
        field("lines", 3, Proto.TYPE_MESSAGE, Proto.LABEL_REPEATED, type_name=".p.Line"),
        field("at", 4, Proto.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp"),
        field("took", 5, Proto.TYPE_MESSAGE, type_name=".google.protobuf.Duration"),
    ),
    message("Line", field("sku", 1, Proto.TYPE_STRING), field("count", 2, Proto.TYPE_INT32)),
    enums=(enum(),),
)
"""``p.Order``, with a nested message, an enum and two known types."""


# --- drawn ------------------------------------------------------------------------------------------


@st.composite
def sets(draw: Draw, depth: int = 3) -> bytes:
    """A descriptor set with the message p.M0."""
    syntax = draw(st.sampled_from(["proto2", "proto3"]))
    made = _Drawn(draw, syntax)
    made.message(depth)
    return file_set(*made.messages.values(), syntax=syntax, enums=(enum(),))


class _Drawn:
    """Draws messages, each with a name of its own."""

    def __init__(self, draw: Draw, syntax: str) -> None:
        self.draw, self.is_proto2 = draw, syntax == "proto2"
        self.names = (f"M{number}" for number in itertools.count())
        self.messages: dict[str, Any] = {}

    def message(self, depth: int) -> str:
        made = message(next(self.names))
        self.messages[made.name] = made
        numbers = self.draw(st.lists(st.integers(1, 20) | st.integers(1, (1 << 29) - 1), unique=True, max_size=6))
        reserved = range(19000, 20000)
        for place, number in enumerate(each for each in numbers if each not in reserved):
            self.field(made, f"f{place}", number, depth)
        self.oneof(made)
        return str(made.name)

    def field(self, inside: Any, name: str, number: int, depth: int) -> None:
        draw = self.draw
        kinds = [*NUMBERS, *TEXTS, Proto.TYPE_ENUM]
        if depth:
            kinds += [Proto.TYPE_MESSAGE] * 4 + [Proto.TYPE_GROUP] * self.is_proto2
        made = field(name, number, draw(st.sampled_from(kinds)))
        self.refer(made, depth)
        if made.type != Proto.TYPE_GROUP and depth and draw(st.integers(0, 4)) == 0:
            self.map(inside, made)
            return
        labels = [Proto.LABEL_OPTIONAL, Proto.LABEL_OPTIONAL, Proto.LABEL_REPEATED]
        if self.is_proto2 and self.has_fields(made):  # what has no column is not looked at, required or not
            labels.append(Proto.LABEL_REQUIRED)
        made.label = draw(st.sampled_from(labels))
        if made.type in DEFAULTS and self.is_proto2 and made.label == Proto.LABEL_OPTIONAL and draw(st.booleans()):
            made.default_value = draw(st.sampled_from(DEFAULTS[made.type]))
        inside.field.append(made)

    def refer(self, made: Any, depth: int) -> None:
        if made.type == Proto.TYPE_ENUM:
            made.type_name = ".p.E"
        elif made.type == Proto.TYPE_GROUP:
            made.type_name = f".p.{self.message(depth - 1)}"
        elif made.type == Proto.TYPE_MESSAGE:
            known = self.draw(st.sampled_from(["", "", *KNOWN]))
            made.type_name = known or f".p.{self.message(depth - 1)}"

    def has_fields(self, made: Any) -> bool:
        """Whether there is sure to be a column."""
        inside = self.messages.get(made.type_name.removeprefix(".p."))
        return inside is None or any(each.type in DEFAULTS for each in inside.field)

    def map(self, inside: Any, value: Any) -> None:
        name = f"{value.name.capitalize()}Entry"
        key = field("key", 1, self.draw(st.sampled_from(KEYS)))
        of = field(value.name, value.number, Proto.TYPE_MESSAGE, Proto.LABEL_REPEATED)
        of.type_name = f".p.{inside.name}.{name}"
        value.name, value.number = "value", 2
        entry = message(name, key, value)
        entry.options.map_entry = True
        inside.nested_type.append(entry)
        inside.field.append(of)

    def oneof(self, inside: Any) -> None:
        """Some of the fields, in one, and some of proto3's with presence."""
        plain = [each for each in inside.field if each.label == Proto.LABEL_OPTIONAL and not each.default_value]
        chosen = [each for each in plain if self.draw(st.integers(0, 2)) == 0]
        if len(chosen) > 1:
            inside.oneof_decl.add(name="o")
            for each in chosen:
                each.oneof_index = 0
        elif chosen and not self.is_proto2:
            chosen[0].proto3_optional = True
            chosen[0].oneof_index = len(inside.oneof_decl)
            inside.oneof_decl.add(name=f"_{chosen[0].name}")


def varint(number: int) -> bytes:
    """A number of 64 bits."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def tagged(number: int, wire_type: int, data: bytes) -> bytes:
    """A field as it is written."""
    if wire_type == 2:
        data = varint(len(data)) + data
    if wire_type == 3:
        data += varint(number << 3 | 4)
    return varint(number << 3 | wire_type) + data


def descriptor(data: bytes, name: str = "p.M0") -> Descriptor:
    """Google's descriptor of a message in a set."""
    pool = descriptor_pool.DescriptorPool()
    for each in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.Add(each)
    return pool.FindMessageTypeByName(name)


@st.composite
def records(draw: Draw, of: Descriptor, depth: int = 0) -> bytes:
    """Good bytes for a message: fields in any order, several times, packed or not, and some that are unknown."""
    out = b""
    # An entry of a map that has something unknown is unknown as a whole to Google's C library, not to that of Java.
    plain = of.GetOptions().map_entry
    for _ in range(draw(st.integers(0, 6))):
        choices = [*of.fields, *of.fields, *([] if plain else [None])]
        if not choices:
            break
        chosen = draw(st.sampled_from(choices))
        out += _unknown(draw, of) if chosen is None else _field(draw, chosen, depth)
    if depth and of.fields and not plain and draw(st.integers(0, 5)) == 0:
        out += _other_type(of.fields[0])
    return out


def _unknown(draw: Draw, of: Descriptor) -> bytes:
    number = draw(st.integers(1, 40).filter(lambda each: each not in of.fields_by_number))
    kind = draw(st.sampled_from([0, 1, 2, 3, 5]))
    inside = tagged(5, 0, b"\x01") if kind == 3 else varint(300) if not kind else b"x" * {1: 8, 5: 4}.get(kind, 3)
    return tagged(number, kind, inside)


def _other_type(of: FieldDescriptor) -> bytes:
    """What is no value of this field."""
    return tagged(of.number, 5, b"1234") if of.type in I64 else tagged(of.number, 1, b"12345678")


def _field(draw: Draw, of: FieldDescriptor, depth: int) -> bytes:
    wire_type = _wire_type(of)
    packs = of.is_repeated and of.type not in (*TEXTS, Proto.TYPE_MESSAGE, Proto.TYPE_GROUP)
    if packs and draw(st.booleans()):
        return tagged(of.number, 2, b"".join(draw(st.lists(_values(of, depth), max_size=4))))
    return tagged(of.number, wire_type, draw(_values(of, depth)))


def _wire_type(of: FieldDescriptor) -> int:
    if of.type == Proto.TYPE_GROUP:
        return 3
    return 2 if of.type in (*TEXTS, Proto.TYPE_MESSAGE) else 5 if of.type in I32 else 1 if of.type in I64 else 0


def _values(of: FieldDescriptor, depth: int) -> st.SearchStrategy[bytes]:
    if of.type in (Proto.TYPE_MESSAGE, Proto.TYPE_GROUP):
        return records(of.message_type, depth + 1)
    if of.type == Proto.TYPE_STRING:
        return st.text(max_size=4).map(str.encode)
    if of.type == Proto.TYPE_BYTES:
        return st.binary(max_size=4)
    if of.type in (*I32, *I64):
        size = 4 if of.type in I32 else 8
        return st.binary(min_size=size, max_size=size) | st.just(bytes(size))
    if of.type == Proto.TYPE_ENUM:
        # A record's own fields that have none of a closed enum's numbers are bad for Spark; so is Java's reading of a map's.
        is_open = not of.enum_type.is_closed or (depth and not of.containing_type.GetOptions().map_entry)
        return st.sampled_from([*ENUM.values(), *(MORE if is_open else ())]).map(varint)
    return (st.integers(-(1 << 63), (1 << 64) - 1) | st.integers(-2, 300)).map(varint)


def has_column(of: FieldDescriptor) -> bool:
    """Whether Spark has one: a message without fields has none."""
    if of.message_type is None or of.message_type.name in ("Timestamp", "Duration"):
        return True
    inner = list(of.message_type.fields)
    return all(map(has_column, inner)) if of.message_type.GetOptions().map_entry else any(map(has_column, inner))
