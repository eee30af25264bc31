"""Runs a list of steps in plain Python: the twin of native/values/avro.c, and the way where no compiler was."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np

from sparkcohort.runtime.values.avro.steps import (
    MOST_EMPTY_ITEMS,
    MOST_FRAMES,
    REASONS,
    AvroReason,
    AvroStep,
    Op,
    StepList,
)
from sparkcohort.runtime.values.growing import GrowingColumn
from sparkcohort.runtime.values.types import ColumnType

INT, LONG = (5, 31), (10, 63)  # bytes of a varint at most, and bits of what it says
EXACT = Context(prec=60)


class RecordError(Exception):
    """A record that can't be read: why, and how many bytes of it were read before."""

    def __init__(self, reason: AvroReason, at: int, detail: str = "") -> None:
        super().__init__(words(reason, at, detail))
        self.reason, self.at = reason, at


def words(reason: AvroReason, at: int, detail: str = "") -> str:
    """What is wrong with a record, for people.

    >>> words(AvroReason.TRUNCATED, 7)
    'the bytes end too early (at byte 7)'
    """
    return f"{REASONS[reason]}{f': {detail}' if detail else ''} (at byte {at})"


@dataclass(slots=True)
class _Frame:
    """An array or map (how many items are left of its block), or where a routine was called."""

    step: int
    left: int = 0


class AvroReader:
    """Appends one record after the other to ``root``; the lists of all writers' schemas have one target."""

    def __init__(self, target: ColumnType) -> None:
        self.root = GrowingColumn(target)
        self.columns = self.root.walk()
        self.data, self.at, self.end = b"", 0, 0
        self.record = (b"", 0, 0)
        self.frames: list[_Frame] = []
        self.empty = 0
        self.next = 0
        self.list: StepList

    def read(self, data: bytes | None, steps: StepList, start: int = 0) -> RecordError | None:
        """Append the record that begins at ``start``; what can't be read is null, and why is told.  None is null."""
        rows = len(self.root.values)
        if data is None:
            self.root.null()
            return None
        self.data, self.at, self.end, self.list = data, start, len(data), steps
        self.next = self.empty = 0
        self.frames.clear()
        try:
            self._run(steps.steps)
        except RecordError as error:
            self.root.cut(rows)
            self.root.null()
            return error
        return None

    def _run(self, steps: tuple[AvroStep, ...]) -> None:
        while True:
            op, column, a, b = steps[self.next]
            self.next += 1
            if op is Op.END:
                if self.at < self.end:
                    raise self.error(AvroReason.TRAILING)
                return
            if op in LEAVES:
                self.columns[column].values.append(LEAVES[op](self, a, b))
            else:
                MOVES[op](self, column, a, b)

    def error(self, reason: AvroReason, detail: str = "") -> RecordError:
        """What is raised for a record."""
        return RecordError(reason, self.at, detail)

    # --- what is written ------------------------------------------------------------------------

    def take(self, size: int) -> bytes:
        """The next bytes."""
        if size < 0:
            raise self.error(AvroReason.LENGTH)
        if size > self.end - self.at:
            raise self.error(AvroReason.TRUNCATED)
        self.at += size
        return self.data[self.at - size : self.at]

    def varint(self, limits: tuple[int, int] = LONG) -> int:
        """The next int or long."""
        most, bits = limits
        number = 0
        for place in range(most):
            if self.at + place >= self.end:
                raise self.error(AvroReason.TRUNCATED)
            byte = self.data[self.at + place]
            number |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                break
        else:
            raise self.error(AvroReason.VARINT)
        if number >> bits + 1:
            raise self.error(AvroReason.VARINT)
        self.at += place + 1
        return number >> 1 ^ -(number & 1)

    def boolean(self) -> bool:
        """The next boolean."""
        (byte,) = self.take(1)
        if byte > 1:
            raise self.error(AvroReason.BOOLEAN)
        return bool(byte)

    def scaled(self, number: int, factor: int) -> int:
        """A time in microseconds, if it is one that fits."""
        if not -(1 << 63) <= number * factor < 1 << 63:
            raise self.error(AvroReason.RANGE)
        return number * factor

    def number(self, form: str) -> float:
        """The next float or double."""
        found: float = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return found

    def string(self) -> str:
        """The next string."""
        data = self.take(self.varint())
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise self.error(AvroReason.UTF8) from None

    def unscaled(self, data: bytes, digits: int) -> int:
        """A decimal's number without its scale."""
        number = int.from_bytes(data, "big", signed=True)
        if not data or abs(number) >= 10**digits:
            raise self.error(AvroReason.DECIMAL)
        return number

    def symbol(self, first: int, count: int) -> str:
        """The reader's name of the next enum's symbol."""
        number = self.varint(INT)
        if not 0 <= number < count or self.list.table[first + number] < 0:
            raise self.error(AvroReason.SYMBOL)
        return self.list.constants[self.list.table[first + number]].decode()

    # --- where to go on -------------------------------------------------------------------------

    def struct(self, column: int, _a: int, _b: int) -> None:
        """A struct that is no null."""
        self.columns[column].values.append(True)

    def null(self, column: int, _a: int, _b: int) -> None:
        """A null."""
        self.columns[column].null()

    def enter(self, frame: _Frame) -> None:
        """One level deeper."""
        if len(self.frames) == MOST_FRAMES:
            raise self.error(AvroReason.DEPTH)
        self.frames.append(frame)

    def list_start(self, _column: int, _a: int, _b: int) -> None:
        """An array or a map begins."""
        self.enter(_Frame(self.next - 1))
        self.block()

    def block(self) -> None:
        """The next block of items: go to the first of them, or behind the list."""
        frame = self.frames[-1]
        op, column, behind, least = self.list.steps[frame.step]
        while (count := self.varint()) < 0:
            size = self.varint()
            if size < 0 or count == -(1 << 63):
                raise self.error(AvroReason.LENGTH)
            if op is Op.LIST:
                count = -count
                break
            self.take(size)  # of a list that is passed over: all of the block at once
        if count:
            self.check_count(count, least)
            frame.left, self.next = count, frame.step + 1
            return
        self.frames.pop()
        self.next = behind
        if op is Op.LIST:
            items = self.columns[column + 1].values
            self.columns[column].values.append(len(items))

    def check_count(self, count: int, least: int) -> None:
        """Items that can't be there are known before the first is read."""
        if least and count > (self.end - self.at) // least:
            raise self.error(AvroReason.TRUNCATED)
        self.empty += 0 if least else count
        if self.empty > MOST_EMPTY_ITEMS:
            raise self.error(AvroReason.ITEMS)

    def list_next(self, _column: int, _a: int, _b: int) -> None:
        """Behind an item."""
        frame = self.frames[-1]
        frame.left -= 1
        if frame.left:
            self.next = frame.step + 1
        else:
            self.block()

    def nullable(self, column: int, null: int, behind: int) -> None:
        """A union of null and another."""
        branch = self.varint()
        if branch not in (0, 1):
            raise self.error(AvroReason.BRANCH)
        if branch == null:
            self.columns[column].null()
            self.next = behind

    def skip_nullable(self, _column: int, null: int, behind: int) -> None:
        """The same of what nobody asked for."""
        branch = self.varint()
        if branch not in (0, 1):
            raise self.error(AvroReason.BRANCH)
        if branch == null:
            self.next = behind

    def union(self, _column: int, first: int, count: int) -> None:
        """A union."""
        branch = self.varint()
        if not 0 <= branch < count:
            raise self.error(AvroReason.BRANCH)
        self.next = self.list.table[first + branch]

    def jump(self, _column: int, a: int, _b: int) -> None:
        """Go on elsewhere."""
        self.next = a

    def fail(self, _column: int, a: int, b: int) -> None:
        """What the schemas can't agree on."""
        raise self.error(AvroReason.NO_SCHEMA if b else AvroReason.UNRESOLVED, self.list.constants[a].decode())

    def default(self, _column: int, a: int, _b: int) -> None:
        """A field that the writer did not have."""
        self.record = self.data, self.at, self.end
        self.data = self.list.constants[a]
        self.at, self.end = 0, len(self.data)

    def from_record(self, _column: int, _a: int, _b: int) -> None:
        """Behind a default."""
        self.data, self.at, self.end = self.record

    def skip_varints(self, _column: int, count: int, are_ints: int) -> None:
        """Ints, longs and enums that nobody asked for."""
        for _ in range(count):
            self.varint(INT if are_ints else LONG)

    def skip_items(self, _column: int, size: int, _b: int) -> None:
        """A list of items that all have one size."""
        while count := self.varint():
            if count < 0:
                self.take(self.varint())
            else:
                self.check_count(count, size)
                self.at += count * size

    def call(self, _column: int, a: int, _b: int) -> None:
        """A record that nobody asked for."""
        self.enter(_Frame(self.next))
        self.next = a

    def ret(self, _column: int, _a: int, _b: int) -> None:
        """Behind it."""
        self.next = self.frames.pop().step


def _decimal(reader: AvroReader, data: bytes, digits: int) -> Decimal:
    scale = reader.columns[reader.list.steps[reader.next - 1].column].kind.scale
    return Decimal(reader.unscaled(data, digits)).scaleb(-scale, EXACT)


Leaf = Callable[[AvroReader, int, int], Any]
LEAVES: dict[Op, Leaf] = {
    Op.BOOLEAN: lambda reader, _a, _b: reader.boolean(),
    Op.INT: lambda reader, _a, _b: reader.varint(INT),
    Op.LONG: lambda reader, a, _b: reader.scaled(reader.varint(), a),
    Op.INT_AS_LONG: lambda reader, a, _b: reader.scaled(reader.varint(INT), a),
    Op.INT_AS_FLOAT: lambda reader, _a, _b: _single(reader.varint(INT)),
    Op.INT_AS_DOUBLE: lambda reader, _a, _b: float(reader.varint(INT)),
    Op.LONG_AS_FLOAT: lambda reader, _a, _b: _single(reader.varint()),
    Op.LONG_AS_DOUBLE: lambda reader, _a, _b: float(reader.varint()),
    Op.FLOAT: lambda reader, _a, _b: reader.number("<f"),
    Op.FLOAT_AS_DOUBLE: lambda reader, _a, _b: reader.number("<f"),
    Op.DOUBLE: lambda reader, _a, _b: reader.number("<d"),
    Op.BYTES: lambda reader, _a, _b: reader.take(reader.varint()),
    Op.STRING: lambda reader, _a, _b: reader.string(),
    Op.FIXED: lambda reader, a, _b: reader.take(a),
    Op.DECIMAL: lambda reader, a, _b: _decimal(reader, reader.take(reader.varint()), a),
    Op.DECIMAL_FIXED: lambda reader, a, b: _decimal(reader, reader.take(b), a),
    Op.ENUM: lambda reader, a, b: reader.symbol(a, b),
}
MOVES: dict[Op, Callable[[AvroReader, int, int, int], Any]] = {
    Op.NULL: AvroReader.null,
    Op.STRUCT: AvroReader.struct,
    Op.LIST: AvroReader.list_start,
    Op.NEXT: AvroReader.list_next,
    Op.NULLABLE: AvroReader.nullable,
    Op.UNION: AvroReader.union,
    Op.SKIP_NULLABLE: AvroReader.skip_nullable,
    Op.JUMP: AvroReader.jump,
    Op.FAIL: AvroReader.fail,
    Op.DEFAULT: AvroReader.default,
    Op.FROM_RECORD: AvroReader.from_record,
    Op.SKIP_VARINTS: AvroReader.skip_varints,
    Op.SKIP_BYTES: lambda reader, _column, _a, _b: reader.take(reader.varint()),
    Op.SKIP_FIXED: lambda reader, _column, a, _b: reader.take(a),
    Op.SKIP_LIST: AvroReader.list_start,
    Op.SKIP_ITEMS: AvroReader.skip_items,
    Op.CALL: AvroReader.call,
    Op.RETURN: AvroReader.ret,
}


def _single(number: int) -> float:
    """The nearest float of 32 bits, without a double on the way."""
    return float(np.int64(number).astype(np.float32))
