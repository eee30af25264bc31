"""Runs a list of steps in plain Python: the twin of native/values/protobuf.c, and the way where no compiler was.

A message is read twice: first what it has of each field (the last one counts, or where the first and the last are), then each
field is appended.  What is there several times and is one message is the same as its parts one behind the other.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sparkcohort.runtime.values.growing import GrowingColumn
from sparkcohort.runtime.values.protobuf.steps import (
    MOST_DEPTH,
    FieldFlag,
    MessageSteps,
    ProtobufOp,
    ProtobufReason,
    ProtobufStep,
    words,
)
from sparkcohort.runtime.values.protobuf.wire import MOST_VARINT, WireType
from sparkcohort.runtime.values.types import ColumnType

FRAME = 5  # Confluent's: a zero, and the id of the writer's schema in four bytes; the place of the message is behind it
LONG_BITS, INT_BITS = (1 << 64) - 1, (1 << 32) - 1
SIZES = {WireType.I64: 8, WireType.I32: 4}
WIDE = (ProtobufOp.INT64, ProtobufOp.SINT64, ProtobufOp.FIXED64, ProtobufOp.DOUBLE)
MICROS = 1_000_000


class MessageError(Exception):
    """A record that can't be read: why, where its field begins, and the step of the field inside (-1: none)."""

    def __init__(self, reason: ProtobufReason, at: int, step: int, path: str = "") -> None:
        super().__init__(words(reason, at, path))
        self.reason, self.at, self.step = reason, at, step


@dataclass(slots=True)
class FieldSlot:
    """What a message has of one field: a number, or where bytes begin and how many they are."""

    count: int = 0
    first: int = 0
    last: int = 0
    value: int = 0
    size: int = 0


class ProtobufReader:
    """Appends one record after the other to ``root``."""

    def __init__(self, target: ColumnType) -> None:
        self.root = GrowingColumn(target)
        self.columns = self.root.walk()
        self.list: MessageSteps
        self.place, self.step = 0, -1

    def read(self, data: bytes | None, steps: MessageSteps, *, framed: bool = False) -> MessageError | None:
        """Append the record; what can't be read is null, and why is told.  None is null."""
        rows = len(self.root.values)
        if data is None:
            self.root.null()
            return None
        self.list, self.place, self.step = steps, 0, -1
        try:
            self.message(0, data, self.frame(data) if framed else 0, len(data), 0, -1)
        except MessageError as error:
            self.root.cut(rows)
            self.root.null()
            return error
        return None

    def error(self, reason: ProtobufReason) -> MessageError:
        """What is raised for a record."""
        return MessageError(reason, self.place, self.step, self.list.paths[self.step] if self.step >= 0 else "")

    def frame(self, data: bytes) -> int:
        """Where the message begins behind Confluent's frame, which ends with the index of the message in its schema."""
        if len(data) <= FRAME or data[0]:
            raise self.error(ProtobufReason.FRAME)
        index: list[int] = []
        try:
            count, at = self.varint(data, FRAME, len(data))
            count = _zigzag(count)
            for _ in range(min(max(count, 0), len(data))):
                number, at = self.varint(data, at, len(data))
                index.append(_zigzag(number))
        except MessageError:
            count = -1
        if count < 0 or count > len(data) or min(index, default=0) < 0:
            raise self.error(ProtobufReason.FRAME)
        if self.list.index not in ((), tuple(index or [0])):  # the first message's index may be left out
            raise self.error(ProtobufReason.OTHER_MESSAGE)
        return at

    # --- what is written ------------------------------------------------------------------------

    def varint(self, data: bytes, at: int, end: int) -> tuple[int, int]:
        """The number at a place, of which 64 bits count, and the place behind it."""
        number = 0
        for place in range(MOST_VARINT):
            if at + place >= end:
                raise self.error(ProtobufReason.TRUNCATED)
            byte = data[at + place]
            number |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return number & LONG_BITS, at + place + 1
        raise self.error(ProtobufReason.VARINT)

    def tag(self, data: bytes, at: int, end: int) -> tuple[int, int]:
        """A field's number and wire type, in 32 bits, and the place behind them."""
        tag, at = self.varint(data, at, end)
        tag &= INT_BITS
        if not tag >> 3:
            raise self.error(ProtobufReason.NUMBER)
        return tag, at

    def value(self, data: bytes, at: int, end: int, tag: int, depth: int) -> tuple[int, int, int]:
        """The value behind a tag, its size where it has one, and the place behind it."""
        kind = tag & 7
        if kind == WireType.VARINT:
            number, at = self.varint(data, at, end)
            return number, 0, at
        if kind == WireType.LEN:
            size, at = self.varint(data, at, end)
            size &= INT_BITS
            if size >> 31:
                raise self.error(ProtobufReason.LENGTH)
            if size > end - at:
                raise self.error(ProtobufReason.TRUNCATED)
            return at, size, at + size
        if kind == WireType.SGROUP:
            return self.group(data, at, end, tag, depth + 1)
        if kind not in SIZES:
            raise self.error(ProtobufReason.GROUP if kind == WireType.EGROUP else ProtobufReason.WIRE_TYPE)
        size = SIZES[WireType(kind)]
        if size > end - at:
            raise self.error(ProtobufReason.TRUNCATED)
        return int.from_bytes(data[at : at + size], "little"), 0, at + size

    def group(self, data: bytes, at: int, end: int, tag: int, depth: int) -> tuple[int, int, int]:
        """A group, up to the end that has its number."""
        if depth > MOST_DEPTH:
            raise self.error(ProtobufReason.DEPTH)
        start = at
        while True:
            before = at
            inner, at = self.tag(data, at, end)
            if inner == (tag & ~7 | WireType.EGROUP):
                return start, before - start, at
            _, _, at = self.value(data, at, end, inner, depth)

    # --- first: what is there -------------------------------------------------------------------

    def scan(self, header: int, data: bytes, at: int, end: int, depth: int, owner: int) -> list[FieldSlot]:
        """What a message has of its fields."""
        fields = self.list.steps[header + 1 : header + 1 + self.list.steps[header].a]
        slots = [FieldSlot() for _ in fields]
        by_number = {step.number: place for place, step in enumerate(fields)}
        while at < end:
            start = at
            self.step = owner
            if not depth:
                self.place = at
            tag, at = self.tag(data, at, end)
            place = by_number.get(tag >> 3)
            if place is not None:
                self.step = header + 1 + place
            value, size, at = self.value(data, at, end, tag, depth)
            if place is not None and self.counts(fields[place], data, tag, value, size, depth):
                self.keep(fields, slots, place, FieldSlot(slots[place].count + 1, start, at, value, size))
        return slots

    def counts(self, step: ProtobufStep, data: bytes, tag: int, value: int, size: int, depth: int) -> bool:
        """Whether a value is one of this field.  Spark fails a record whose own fields are others, not those inside."""
        if not step.accepts(tag & 7):
            if not depth:
                raise self.error(ProtobufReason.OTHER_TYPE)
            return False
        if step.op is ProtobufOp.STRING and not step.flags & FieldFlag.REPEATED:
            self.text(data[value : value + size])
        repeated = step.flags & FieldFlag.REPEATED
        return bool(repeated) or step.op is not ProtobufOp.ENUM or self.name(step, value, depth) is not None

    def keep(self, fields: tuple[ProtobufStep, ...], slots: list[FieldSlot], place: int, found: FieldSlot) -> None:
        """The last one counts; of a oneof, it is the only one."""
        step = fields[place]
        if step.oneof:
            for other, each in enumerate(fields):
                if each.oneof == step.oneof and other != place:
                    slots[other] = FieldSlot()
        if slots[place].count:
            found.first = slots[place].first
        found.value = number(step.op, found.value)
        slots[place] = found

    def text(self, data: bytes) -> str:
        """A string."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise self.error(ProtobufReason.UTF8) from None

    def name(self, step: ProtobufStep, value: int, depth: int) -> str | None:
        """An enum's name; None if it has none, which fails a record's own fields."""
        count, other = self.list.table[step.a : step.a + 2]
        found = (value & INT_BITS ^ 1 << 31) - (1 << 31)
        pairs = self.list.table[step.a + 2 : step.a + 2 + 2 * count]
        for place in range(0, 2 * count, 2):
            if pairs[place] == found:
                return self.list.constants[pairs[place + 1]].decode()
        if other >= 0:
            return f"{self.list.constants[other].decode()}{found}"
        if not depth:
            raise self.error(ProtobufReason.ENUM)
        return None

    # --- then: each field is appended -----------------------------------------------------------

    def message(self, header: int, data: bytes, at: int, end: int, depth: int, owner: int) -> None:
        """One message."""
        if depth > MOST_DEPTH:
            raise self.error(ProtobufReason.DEPTH)
        slots = self.scan(header, data, at, end, depth, owner)
        step = self.list.steps[header]
        if step.column >= 0:
            self.columns[step.column].values.append(True)
        for place, slot in enumerate(slots, header + 1):
            self.step = place
            if not depth:
                self.place = slot.first if slot.count else end
            if self.list.steps[place].column >= 0:
                self.field(self.list.steps[place], slot, data, depth)

    def field(self, step: ProtobufStep, slot: FieldSlot, data: bytes, depth: int) -> None:
        """One field."""
        flags, column = step.flags, self.columns[step.column]
        if flags & FieldFlag.REPEATED:
            place = self.step
            for value, size in self.items(step, slot, data, depth):
                self.step = place
                self.append(step, step.column + 1, value, size, data, depth)
            column.values.append(len(column.children[0].values))
        elif not slot.count and flags & FieldFlag.DEFAULT:
            self.default(step, depth)
        elif not slot.count and flags & FieldFlag.REQUIRED:
            raise self.error(ProtobufReason.REQUIRED)
        elif not slot.count or (flags & FieldFlag.IMPLICIT and _is_zero(step.op, slot)):
            column.null()
        elif slot.count > 1 and step.op in (ProtobufOp.SUBMESSAGE, ProtobufOp.TIME):
            parts = [data[value : value + size] for value, size in self.occurrences(step, slot, data, depth)]
            for part in parts:
                self.check_part(part, depth + 1)
            self.append(step, step.column, 0, sum(map(len, parts)), b"".join(parts), depth)
        else:
            self.append(step, step.column, slot.value, slot.size, data, depth)

    def check_part(self, part: bytes, depth: int) -> None:
        """Each part of a message is whole by itself, or the next one would make up for what it lacks."""
        at = 0
        while at < len(part):
            tag, at = self.tag(part, at, len(part))
            _, _, at = self.value(part, at, len(part), tag, depth)

    def default(self, step: ProtobufStep, depth: int) -> None:
        """A field that is not there, and has a value all the same."""
        if step.op in (ProtobufOp.BYTES, ProtobufOp.STRING):
            constant = self.list.constants[step.b]
            self.append(step, step.column, 0, len(constant), constant, depth)
        else:
            self.append(
                step, step.column, 0 if step.op in (ProtobufOp.SUBMESSAGE, ProtobufOp.TIME) else step.b, 0, b"", depth
            )

    def occurrences(self, step: ProtobufStep, slot: FieldSlot, data: bytes, depth: int) -> Iterator[tuple[int, int]]:
        """The values of a field, one by one, in their order: numbers also out of those that come many at once."""
        at = slot.first if slot.count else slot.last
        while at < slot.last:
            tag, at = self.tag(data, at, slot.last)
            value, size, at = self.value(data, at, slot.last, tag, depth)
            if tag >> 3 != step.number or not step.accepts(tag & 7):
                continue
            if tag & 7 == step.wire_type:
                yield value, size
                continue
            inside, end = value, value + size
            while inside < end:
                value, size, inside = self.value(data, inside, end, step.wire_type, depth)
                yield value, size

    def items(self, step: ProtobufStep, slot: FieldSlot, data: bytes, depth: int) -> Iterator[tuple[int, int]]:
        """The same as items of a list, without an enum's numbers that are none."""
        for value, size in self.occurrences(step, slot, data, depth):
            if step.op is not ProtobufOp.ENUM or self.name(step, value, depth) is not None:
                yield number(step.op, value), size

    def append(self, step: ProtobufStep, column: int, value: int, size: int, data: bytes, depth: int) -> None:
        """One value, to a column."""
        if step.op is ProtobufOp.SUBMESSAGE:
            self.message(step.a, data, value, value + size, depth + 1, self.step)
            return
        made: Any
        if step.op is ProtobufOp.TIME:
            made = self.time(step, data, value, value + size, depth + 1)
        elif step.op is ProtobufOp.ENUM:
            made = self.name(step, value, depth)
        elif step.op in (ProtobufOp.BYTES, ProtobufOp.STRING):
            found = data[value : value + size]
            made = self.text(found) if step.op is ProtobufOp.STRING else found
        else:
            made = _scalar(step.op, value)
        self.columns[column].values.append(made)

    def time(self, step: ProtobufStep, data: bytes, at: int, end: int, depth: int) -> int:
        """Microseconds, out of seconds and nanoseconds, which are cut off."""
        place = self.step
        if depth > MOST_DEPTH:
            raise self.error(ProtobufReason.DEPTH)
        seconds, nanos = (slot.value for slot in self.scan(step.a, data, at, end, depth, place))
        self.step = place
        below = abs(_signed(nanos, 32)) // 1000
        found = _signed(seconds, 64) * MICROS + (below if _signed(nanos, 32) > 0 else -below)
        if not -(1 << 63) <= _signed(seconds, 64) * MICROS < 1 << 63 or not -(1 << 63) <= found < 1 << 63:
            raise self.error(ProtobufReason.RANGE)
        return found


def number(op: ProtobufOp, value: int) -> int:
    """A number by the bits that its type has."""
    if op in (ProtobufOp.BYTES, ProtobufOp.STRING, ProtobufOp.SUBMESSAGE, ProtobufOp.TIME):
        return value
    if op in (ProtobufOp.SINT32, ProtobufOp.SINT64):
        value = _zigzag(value if op is ProtobufOp.SINT64 else value & INT_BITS)
    return int(value != 0) if op is ProtobufOp.BOOL else value & (LONG_BITS if op in WIDE else INT_BITS)


def _scalar(op: ProtobufOp, value: int) -> Any:
    if op in (ProtobufOp.FLOAT, ProtobufOp.DOUBLE):
        form, bits = ("<f", "<I") if op is ProtobufOp.FLOAT else ("<d", "<Q")
        return struct.unpack(form, struct.pack(bits, value & LONG_BITS))[0]
    return bool(value) if op is ProtobufOp.BOOL else _signed(value, 64 if op in WIDE else 32)


def _is_zero(op: ProtobufOp, slot: FieldSlot) -> bool:
    return not (slot.size if op in (ProtobufOp.BYTES, ProtobufOp.STRING) else slot.value)


def _zigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)


def _signed(value: int, bits: int) -> int:
    return (value & (1 << bits) - 1 ^ 1 << bits - 1) - (1 << bits - 1)
