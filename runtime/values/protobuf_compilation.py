"""From a message, and what is asked for of it, to the list of steps."""

from __future__ import annotations

import re
import struct
from operator import attrgetter

from sparkcohort.runtime.values.protobuf_columns import column_type, time_type
from sparkcohort.runtime.values.protobuf_descriptor import (
    DescriptorError,
    EnumDescriptor,
    FieldDescriptor,
    FieldType,
    MessageDescriptor,
)
from sparkcohort.runtime.values.protobuf_steps import NO_ENUM, FieldFlag, ProtobufOp, ProtobufStep
from sparkcohort.runtime.values.steps import StepList
from sparkcohort.runtime.values.types import ColumnType, type_difference, width

OPS = {
    FieldType.BOOL: ProtobufOp.BOOL,
    **dict.fromkeys((FieldType.INT32, FieldType.UINT32), ProtobufOp.INT32),
    FieldType.SINT32: ProtobufOp.SINT32,
    **dict.fromkeys((FieldType.FIXED32, FieldType.SFIXED32), ProtobufOp.FIXED32),
    FieldType.FLOAT: ProtobufOp.FLOAT,
    **dict.fromkeys((FieldType.INT64, FieldType.UINT64), ProtobufOp.INT64),
    FieldType.SINT64: ProtobufOp.SINT64,
    **dict.fromkeys((FieldType.FIXED64, FieldType.SFIXED64), ProtobufOp.FIXED64),
    FieldType.DOUBLE: ProtobufOp.DOUBLE,
    FieldType.BYTES: ProtobufOp.BYTES,
    FieldType.STRING: ProtobufOp.STRING,
    FieldType.ENUM: ProtobufOp.ENUM,
    **dict.fromkeys((FieldType.MESSAGE, FieldType.GROUP), ProtobufOp.SUBMESSAGE),
}
MOST_NAME = 400
"""Bytes of an enum's name: a number behind it still fits where the interpreter writes both."""
_FLOATS = {FieldType.FLOAT: ("<f", "<I"), FieldType.DOUBLE: ("<d", "<q")}
_INT, _LONG = (1 << 32) - 1, (1 << 64) - 1
_NARROW = (FieldType.INT32, FieldType.UINT32, FieldType.SINT32, FieldType.FIXED32, FieldType.SFIXED32, FieldType.ENUM)
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def compile_steps(
    message: MessageDescriptor, target: ColumnType, index: tuple[int, ...] = ()
) -> StepList[ProtobufStep]:
    """The steps that read ``message`` into ``target``, all of its type or a part.  Raises DescriptorError.

    ``index`` is the one that a record must have in Confluent's frame: the message's place in its file (Confluent's
    ``MessageIndexes``); (): any.
    """
    if difference := type_difference(target, column_type(message), "value"):
        raise DescriptorError(difference)
    code = _MessageCompiler()
    code.message(message, target, 0, "value")
    code.steps[0] = code.steps[0]._replace(b=len(code.table) if index else -1)
    code.table += [len(index), *index] if index else []
    return StepList(tuple(code.steps), target, tuple(code.constants), tuple(code.table), tuple(code.paths))


class _MessageCompiler:
    """Appends steps; the messages of fields come behind the message that has them."""

    def __init__(self) -> None:
        self.steps: list[ProtobufStep] = []
        self.paths: list[str] = []
        self.table: list[int] = []
        self.constants: list[bytes] = []
        self.enums: dict[tuple[int, bool], int] = {}

    def message(self, message: MessageDescriptor, target: ColumnType | None, column: int, path: str) -> None:
        """A message and what is inside of it.  Without a target: the seconds and nanoseconds of a time."""
        columns = _columns(target, column) if target else {}
        oneofs = {each.oneof for each in message.fields if each.name in columns and each.oneof >= 0}
        # A field of the same oneof clears one that is asked for, so it has a step; all of a time or a map's entry have.
        fields = [each for each in message.fields if target is None or each.name in columns or each.oneof in oneofs]
        fields.sort(key=attrgetter("number"))
        start = len(self.steps)
        row = column if target and target.kind == "struct" else -1
        self.steps += [
            ProtobufStep(ProtobufOp.MESSAGE, row, a=len(fields)),
            *[ProtobufStep(ProtobufOp.BOOL)] * len(fields),
        ]
        self.paths += [path, *(f"{path}.{each.name}" for each in fields)]
        for place, field in enumerate(fields, start + 1):
            own, kind = columns.get(field.name, (-1, None))
            self._field(place, field, own, kind, in_map=message.map_entry)

    def _field(
        self, place: int, field: FieldDescriptor, column: int, target: ColumnType | None, *, in_map: bool
    ) -> None:
        op, flags = OPS[field.kind], _flags(field)
        a = b = 0
        if in_map:
            flags = flags & ~FieldFlag.IMPLICIT | FieldFlag.DEFAULT
        elif field.default is not None:
            flags |= FieldFlag.DEFAULT
        if FieldFlag.DEFAULT in flags and field.message is None:
            b = self._default(field)
        if field.enum:
            a = self._enum(field.enum, closed=field.closed)
        if field.message and time_type(field.message):
            op = ProtobufOp.TIME
        if field.message and column >= 0:
            a = len(self.steps)
            self._inner(field, column, target, self.paths[place])
        self.steps[place] = ProtobufStep(op, column, field.number, flags, field.oneof + 1, a, b)

    def _inner(self, field: FieldDescriptor, column: int, target: ColumnType | None, path: str) -> None:
        """The message of a field."""
        if time_type(field.inner):
            self.message(field.inner, None, -1, path)
        elif field.is_map or target is None or not field.repeated:
            self.message(field.inner, target, column, path)
        else:
            self.message(field.inner, target.children[0], column + 1, path)

    def _default(self, field: FieldDescriptor) -> int:
        if field.default is None:
            return field.enum.first & 0xFFFFFFFF if field.enum else self._constant(b"") if field.kind in _TEXTS else 0
        return self._constant(default_text(field)) if field.kind in _TEXTS else default_bits(field)

    def _constant(self, data: bytes) -> int:
        self.constants.append(data)
        return len(self.constants) - 1

    def _enum(self, enum: EnumDescriptor, *, closed: bool) -> int:
        """Where its names begin in the table."""
        if len(enum.name.encode()) > MOST_NAME:
            raise DescriptorError(f"the name of enum {enum.name[:40]}... has more than {MOST_NAME} bytes")
        key = id(enum), closed
        if key not in self.enums:
            no_name = -1 if closed else self._constant(f"{NO_ENUM}{enum.short_name}_".encode())
            pairs = [(number, self._constant(name.encode())) for number, name in sorted(enum.values.items())]
            self.enums[key] = len(self.table)
            self.table += [len(pairs), no_name, *(each for pair in pairs for each in pair)]
        return self.enums[key]


_TEXTS = (FieldType.STRING, FieldType.BYTES)


def _flags(field: FieldDescriptor) -> FieldFlag:
    flags = FieldFlag(0)
    for flag, is_set in (
        (FieldFlag.REPEATED, field.repeated),
        (FieldFlag.REQUIRED, field.required),
        (FieldFlag.IMPLICIT, field.implicit),
        (FieldFlag.GROUP, field.delimited),
        (FieldFlag.CLOSED, field.closed),
    ):
        flags |= flag if is_set else FieldFlag(0)
    return flags


def _columns(target: ColumnType, column: int) -> dict[str, tuple[int, ColumnType]]:
    """The columns of a struct's fields, or of a map's keys and values, by their names."""
    names = ("key", "value") if target.kind == "map" else target.names
    columns, place = {}, column + 1
    for name, kind in zip(names, target.children, strict=True):
        columns[name] = place, kind
        place += width(kind)
    return columns


def default_bits(field: FieldDescriptor) -> int:
    """A number's default by its bits, as a signed one of 64.

    >>> default_bits(FieldDescriptor("f", 1, FieldType.FLOAT, default="1.5")) == 0x3FC00000, default_bits(FieldDescriptor("b", 1, FieldType.BOOL, default="true"))
    (True, 1)
    """
    text = field.default or ""
    try:
        if field.kind in _FLOATS:
            number, as_bits = _FLOATS[field.kind]
            return int(struct.unpack(as_bits, struct.pack(number, float(text)))[0])
        if field.kind is FieldType.BOOL:
            return {"true": 1, "false": 0}[text]
        value = _enum_number(field, text) if field.enum else int(text)
    except (ValueError, KeyError, OverflowError):
        raise DescriptorError(f"the default of {field.name} is none of its type: {text[:40]!r}") from None
    return value & _INT if field.kind in _NARROW else (value & _LONG ^ 1 << 63) - (1 << 63)


def _enum_number(field: FieldDescriptor, name: str) -> int:
    values = field.enum.values if field.enum else {}
    return {each: number for number, each in values.items()}[name]


def default_text(field: FieldDescriptor) -> bytes:
    r"""The default of a string, or of bytes, which are written with escapes.

    >>> default_text(FieldDescriptor("b", 1, FieldType.BYTES, default=r"a\000\xff\n"))
    b'a\x00\xff\n'
    """
    default = (field.default or "").encode()
    return _ESCAPE.sub(_unescape, default) if field.kind is FieldType.BYTES else default


def _unescape(match: re.Match[bytes]) -> bytes:
    hexadecimal, octal, letter = match.groups()
    if letter is not None:
        return _LETTERS.get(letter, letter)
    return bytes([int(hexadecimal, 16) if hexadecimal else int(octal, 8) & 0xFF])
