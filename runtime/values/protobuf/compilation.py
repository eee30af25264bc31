"""From a message, and what is asked for of it, to the list of steps."""

from __future__ import annotations

from sparkcohort.runtime.values.protobuf import defaults
from sparkcohort.runtime.values.protobuf.columns import check_target, time_type
from sparkcohort.runtime.values.protobuf.descriptor import (
    DescriptorError,
    EnumDescriptor,
    FieldDescriptor,
    FieldType,
    MessageDescriptor,
)
from sparkcohort.runtime.values.protobuf.steps import NO_ENUM, FieldFlag, MessageSteps, ProtobufOp, ProtobufStep
from sparkcohort.runtime.values.types import ColumnType, width

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


def compile_steps(message: MessageDescriptor, target: ColumnType, index: tuple[int, ...] = ()) -> MessageSteps:
    """The steps that read ``message`` into ``target``, all of its type or a part.  Raises DescriptorError.

    ``index`` is the one that a record must have in Confluent's frame: the message's place in its file (Confluent's
    ``MessageIndexes``); (): any.
    """
    check_target(message, target)
    made = _MessageCompiler()
    made.message(message, target, 0, "value")
    made.steps[0] = made.steps[0]._replace(b=len(made.table) if index else -1)
    made.table += [len(index), *index] if index else []
    return MessageSteps(tuple(made.steps), target, tuple(made.constants), tuple(made.table), tuple(made.paths))


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
        # What replaces a field that is asked for, counts; of a time and of a map's entry, all do.
        wanted = [each for each in message.fields if target is None or each.name in columns or each.oneof in oneofs]
        wanted.sort(key=lambda each: each.number)
        start = len(self.steps)
        row = column if target and target.kind == "struct" else -1
        self.steps += [
            ProtobufStep(ProtobufOp.MESSAGE, row, a=len(wanted)),
            *[ProtobufStep(ProtobufOp.BOOL)] * len(wanted),
        ]
        self.paths += [path, *(f"{path}.{each.name}" for each in wanted)]
        for place, each in enumerate(wanted, start + 1):
            own, kind = columns.get(each.name, (-1, None))
            self._field(place, each, own, kind, in_map=message.map_entry)

    def _field(
        self, place: int, each: FieldDescriptor, column: int, target: ColumnType | None, *, in_map: bool
    ) -> None:
        op, flags = OPS[each.kind], _flags(each)
        a = b = 0
        if in_map:
            flags = flags & ~FieldFlag.IMPLICIT | FieldFlag.DEFAULT
        elif each.default is not None:
            flags |= FieldFlag.DEFAULT
        if FieldFlag.DEFAULT in flags and each.message is None:
            b = self._default(each)
        if each.enum:
            a = self._enum(each.enum, closed=each.closed)
        if each.message and time_type(each.message):
            op = ProtobufOp.TIME
        if each.message and column >= 0:
            a = len(self.steps)
            self._inner(each, column, target, self.paths[place])
        self.steps[place] = ProtobufStep(op, column, each.number, flags, each.oneof + 1, a, b)

    def _inner(self, each: FieldDescriptor, column: int, target: ColumnType | None, path: str) -> None:
        """The message of a field."""
        if time_type(each.inner):
            self.message(each.inner, None, -1, path)
        elif each.is_map or target is None or not each.repeated:
            self.message(each.inner, target, column, path)
        else:
            self.message(each.inner, target.children[0], column + 1, path)

    def _default(self, each: FieldDescriptor) -> int:
        if each.default is None:
            return each.enum.first & 0xFFFFFFFF if each.enum else self._constant(b"") if each.kind in _TEXTS else 0
        return self._constant(defaults.text(each)) if each.kind in _TEXTS else defaults.bits(each)

    def _constant(self, data: bytes) -> int:
        self.constants.append(data)
        return len(self.constants) - 1

    def _enum(self, enum: EnumDescriptor, *, closed: bool) -> int:
        """Where its names begin in the table."""
        if len(enum.name.encode()) > MOST_NAME:
            raise DescriptorError(f"the name of enum {enum.name[:40]}... has more than {MOST_NAME} bytes")
        key = id(enum), closed
        if key not in self.enums:
            other = -1 if closed else self._constant(f"{NO_ENUM}{enum.short_name}_".encode())
            pairs = [(number, self._constant(name.encode())) for number, name in sorted(enum.values.items())]
            self.enums[key] = len(self.table)
            self.table += [len(pairs), other, *(each for pair in pairs for each in pair)]
        return self.enums[key]


_TEXTS = (FieldType.STRING, FieldType.BYTES)


def _flags(each: FieldDescriptor) -> FieldFlag:
    found = FieldFlag(0)
    for flag, is_set in (
        (FieldFlag.REPEATED, each.repeated),
        (FieldFlag.REQUIRED, each.required),
        (FieldFlag.IMPLICIT, each.implicit),
        (FieldFlag.GROUP, each.delimited),
        (FieldFlag.CLOSED, each.closed),
    ):
        found |= flag if is_set else FieldFlag(0)
    return found


def _columns(target: ColumnType, column: int) -> dict[str, tuple[int, ColumnType]]:
    """The columns of a struct's fields, or of a map's keys and values, by their names."""
    names = ("key", "value") if target.kind == "map" else target.names
    found, place = {}, column + 1
    for name, kind in zip(names, target.children, strict=True):
        found[name] = place, kind
        place += width(kind)
    return found
