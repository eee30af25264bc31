"""From a message, and what is asked for of it, to the list of steps."""

from __future__ import annotations

from sparkcohort.runtime.values.protobuf import defaults
from sparkcohort.runtime.values.protobuf.columns import check_target, time_type
from sparkcohort.runtime.values.protobuf.descriptor import DescriptorError, Enum, Field, Kind, Message
from sparkcohort.runtime.values.protobuf.steps import NO_ENUM, Flag, Op, ProtobufStep, ProtobufSteps
from sparkcohort.runtime.values.types import ColumnType, width

OPS = {
    Kind.BOOL: Op.BOOL,
    **dict.fromkeys((Kind.INT32, Kind.UINT32), Op.INT32),
    Kind.SINT32: Op.SINT32,
    **dict.fromkeys((Kind.FIXED32, Kind.SFIXED32), Op.FIXED32),
    Kind.FLOAT: Op.FLOAT,
    **dict.fromkeys((Kind.INT64, Kind.UINT64), Op.INT64),
    Kind.SINT64: Op.SINT64,
    **dict.fromkeys((Kind.FIXED64, Kind.SFIXED64), Op.FIXED64),
    Kind.DOUBLE: Op.DOUBLE,
    Kind.BYTES: Op.BYTES,
    Kind.STRING: Op.STRING,
    Kind.ENUM: Op.ENUM,
    **dict.fromkeys((Kind.MESSAGE, Kind.GROUP), Op.SUBMESSAGE),
}
MOST_NAME = 400
"""Bytes of an enum's name: a number behind it still fits where the interpreter writes both."""


def compile_steps(message: Message, target: ColumnType) -> ProtobufSteps:
    """The steps that read ``message`` into ``target``, all of its type or a part.  Raises DescriptorError."""
    check_target(message, target)
    made = _Compiler()
    made.message(message, target, 0, "value")
    return ProtobufSteps(tuple(made.steps), target, tuple(made.constants), tuple(made.table), tuple(made.paths))


class _Compiler:
    """Appends steps; the messages of fields come behind the message that has them."""

    def __init__(self) -> None:
        self.steps: list[ProtobufStep] = []
        self.paths: list[str] = []
        self.table: list[int] = []
        self.constants: list[bytes] = []
        self.enums: dict[tuple[int, bool], int] = {}

    def message(self, message: Message, target: ColumnType | None, column: int, path: str) -> None:
        """A message and what is inside of it.  Without a target: the seconds and nanoseconds of a time."""
        columns = _columns(target, column) if target else {}
        oneofs = {each.oneof for each in message.fields if each.name in columns and each.oneof >= 0}
        # What replaces a field that is asked for, counts; of a time and of a map's entry, all do.
        wanted = [each for each in message.fields if target is None or each.name in columns or each.oneof in oneofs]
        wanted.sort(key=lambda each: each.number)
        start = len(self.steps)
        row = column if target and target.kind == "struct" else -1
        self.steps += [ProtobufStep(Op.MESSAGE, row, a=len(wanted)), *[ProtobufStep(Op.BOOL)] * len(wanted)]
        self.paths += [path, *(f"{path}.{each.name}" for each in wanted)]
        for place, each in enumerate(wanted, start + 1):
            own, kind = columns.get(each.name, (-1, None))
            self._field(place, each, own, kind, in_map=message.map_entry)

    def _field(self, place: int, each: Field, column: int, target: ColumnType | None, *, in_map: bool) -> None:
        op, flags = OPS[each.kind], _flags(each)
        a = b = 0
        if in_map:
            flags = flags & ~Flag.IMPLICIT | Flag.DEFAULT
        elif each.default is not None:
            flags |= Flag.DEFAULT
        if Flag.DEFAULT in flags and each.message is None:
            b = self._default(each)
        if each.enum:
            a = self._enum(each.enum, closed=each.closed)
        if each.message and time_type(each.message):
            op = Op.TIME
        if each.message and column >= 0:
            a = len(self.steps)
            self._inner(each, column, target, self.paths[place])
        self.steps[place] = ProtobufStep(op, column, each.number, flags, each.oneof + 1, a, b)

    def _inner(self, each: Field, column: int, target: ColumnType | None, path: str) -> None:
        """The message of a field."""
        if time_type(each.inner):
            self.message(each.inner, None, -1, path)
        elif each.is_map or target is None or not each.repeated:
            self.message(each.inner, target, column, path)
        else:
            self.message(each.inner, target.children[0], column + 1, path)

    def _default(self, each: Field) -> int:
        if each.default is None:
            return each.enum.first & 0xFFFFFFFF if each.enum else self._constant(b"") if each.kind in _TEXTS else 0
        return self._constant(defaults.text(each)) if each.kind in _TEXTS else defaults.bits(each)

    def _constant(self, data: bytes) -> int:
        self.constants.append(data)
        return len(self.constants) - 1

    def _enum(self, enum: Enum, *, closed: bool) -> int:
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


_TEXTS = (Kind.STRING, Kind.BYTES)


def _flags(each: Field) -> Flag:
    found = Flag(0)
    for flag, is_set in (
        (Flag.REPEATED, each.repeated),
        (Flag.REQUIRED, each.required),
        (Flag.IMPLICIT, each.implicit),
        (Flag.GROUP, each.delimited),
        (Flag.CLOSED, each.closed),
    ):
        found |= flag if is_set else Flag(0)
    return found


def _columns(target: ColumnType, column: int) -> dict[str, tuple[int, ColumnType]]:
    """The columns of a struct's fields, or of a map's keys and values, by their names."""
    names = ("key", "value") if target.kind == "map" else target.names
    found, place = {}, column + 1
    for name, kind in zip(names, target.children, strict=True):
        found[name] = place, kind
        place += width(kind)
    return found
