"""The steps that read one record of Avro's; native/values/avro.c runs them."""

from __future__ import annotations

import enum
from typing import NamedTuple

from sparkcohort.runtime.values.steps import FaultReason, StepList
from sparkcohort.runtime.values.types import ColumnType

MOST_STEPS = 100_000
MOST_EMPTY_ITEMS = 4_096
"""Items of arrays and maps in one record that take no byte, like those of an array of nulls: nothing else bounds them."""
MOST_FRAMES = 256
"""Arrays, maps, defaults and skipped records inside of each other, while a record is read."""


class Op(enum.IntEnum):
    """What a step does: a and b are its two numbers, ``next`` is the step behind it."""

    END = 0  # the record ends here; bytes that are left are an error
    NULL = 1  # append null, reading nothing
    STRUCT = 2  # append a struct; the steps behind it fill its fields
    BOOLEAN = 3
    INT = 4  # int, date
    LONG = 5  # long times a: 1, or 1000 for what is in milliseconds and becomes microseconds
    INT_AS_LONG = 6  # times a
    INT_AS_FLOAT = 7
    INT_AS_DOUBLE = 8
    LONG_AS_FLOAT = 9
    LONG_AS_DOUBLE = 10
    FLOAT = 11
    FLOAT_AS_DOUBLE = 12
    DOUBLE = 13
    BYTES = 14
    STRING = 15  # bytes that must be UTF-8
    FIXED = 16  # a bytes
    DECIMAL = 17  # bytes, two's complement, the highest first; at most a digits
    DECIMAL_FIXED = 18  # the same in b bytes
    ENUM = 19  # table[a .. a + b): which constant each symbol is, or -1
    LIST = 20  # an array or a map: each item is read by the steps up to a NEXT, then goes on at a; an item has b bytes at least
    NEXT = 21  # the next item, or on behind the list
    NULLABLE = 22  # a union of two: branch a is null and goes on at b, the other is read by what is next
    UNION = 23  # branch i goes on at table[a + i], of b
    JUMP = 24  # go on at a
    FAIL = 25  # the record can't be read; constant a says why; b: there is no writer's schema at all
    DEFAULT = 26  # read from constant a until FROM_RECORD
    FROM_RECORD = 27
    SKIP_VARINTS = 28  # a of them; b: they are ints, not longs
    SKIP_BYTES = 29
    SKIP_FIXED = 30  # a bytes
    SKIP_LIST = 31  # as LIST, but blocks that tell their size are passed over
    SKIP_ITEMS = 32  # a list whose items all have a bytes
    CALL = 33  # go on at a, until RETURN
    RETURN = 34
    SKIP_NULLABLE = 35  # as NULLABLE, for what is not delivered


class AvroStep(NamedTuple):
    """One step; ``column`` means nothing where nothing is appended."""

    op: Op
    column: int = 0
    a: int = 0
    b: int = 0


class AvroReason(FaultReason):
    """Why a record can't be read."""

    TRUNCATED = 1, "the bytes end too early"
    TRAILING = 2, "bytes are left behind the record"
    VARINT = 3, "a number is longer than its type allows"
    RANGE = 4, "a timestamp is out of range"
    LENGTH = 5, "a length or a count is negative"
    BOOLEAN = 6, "a boolean is neither 0 nor 1"
    UTF8 = 7, "a string is not UTF-8"
    BRANCH = 8, "a union has no such branch"
    SYMBOL = 9, "an enum has no such symbol"
    DECIMAL = 10, "a decimal has more digits than its type, or no byte"
    ITEMS = 11, f"more than {MOST_EMPTY_ITEMS:,} items that take no byte"
    DEPTH = 12, f"more than {MOST_FRAMES} values inside of each other"
    UNRESOLVED = 13, "the writer's schema does not fit the reader's"
    FRAME = 14, "the bytes do not begin with a magic byte (0) and a schema's id"
    NO_SCHEMA = 15, "there is no schema of its writer"


def without_schema(target: ColumnType, reason: str) -> StepList[AvroStep]:
    """The list for records whose writer's schema can't be had: all fail."""
    return StepList((AvroStep(Op.FAIL, b=1),), target, (reason.encode(),))
