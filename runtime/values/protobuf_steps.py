"""The steps that read one message; native/values/protobuf.c runs them.

A MESSAGE is followed by one step for each of its fields that counts, in the order of their numbers: what a record has in any
order is found by number, and appended when the whole message is known.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from sparkcohort.runtime.values.steps import FaultReason

MOST_DEPTH = 100
"""Messages and groups inside of each other, in a record: the limit of Java's library."""
NO_ENUM = "UNKNOWN_ENUM_VALUE_"
"""How Java's library names a number that an open enum does not have, before the enum's name and the number."""


class ProtobufOp(enum.IntEnum):
    """What a step does: a and b are its two numbers."""

    # Append a struct, if it has a column; the a steps behind it are its fields.  The first one's b: where the table has the length
    # of the index that records must have in their frame, and the index; -1: any index.
    MESSAGE = 0
    BOOL = 1
    INT32 = 2  # int32, uint32
    SINT32 = 3
    FIXED32 = 4
    FLOAT = 5
    INT64 = 6
    SINT64 = 7
    FIXED64 = 8
    DOUBLE = 9
    ENUM = (
        10  # table[a]: how many pairs of a number and its name (a constant) stand from table[a + 2] on; table[a + 1]:
    )
    # the constant that comes in front of a number which is not among them, or -1
    BYTES = 11
    STRING = 12  # bytes that must be UTF-8
    SUBMESSAGE = 13  # read by the MESSAGE at a
    TIME = 14  # the same, of seconds and nanoseconds, which become microseconds


class FieldFlag(enum.IntFlag):
    """What else is known of a field."""

    REPEATED = 1  # the column is an array or a map, whose items' column is the one behind it
    REQUIRED = 2
    IMPLICIT = 4  # zero is null
    GROUP = 8
    CLOSED = 16  # an enum without other numbers: such a value is no value
    DEFAULT = 32  # what is not there is b: a number by its bits, or a constant; of a message, one without fields


class ProtobufStep(NamedTuple):
    """One step; ``column`` is -1 where nothing is appended, ``oneof`` 0 where a field is in none."""

    op: ProtobufOp
    column: int = -1
    number: int = 0
    flags: FieldFlag = FieldFlag(0)
    oneof: int = 0
    a: int = 0
    b: int = 0


class ProtobufReason(FaultReason):
    """Why a record can't be read."""

    TRUNCATED = 1, "the bytes end too early"
    VARINT = 2, "a number has more than ten bytes"
    LENGTH = 3, "a length is negative"
    NUMBER = 4, "a field has the number 0"
    WIRE_TYPE = 5, "a field has a wire type that does not exist"
    GROUP = 6, "a group ends that has not begun"
    OTHER_TYPE = 7, "a field is written as another type than the schema has"
    ENUM = 8, "an enum has no such number"
    UTF8 = 9, "a string is not UTF-8"
    REQUIRED = 10, "a required field is missing"
    RANGE = 11, "a time is out of range"
    DEPTH = 12, f"more than {MOST_DEPTH} messages inside of each other"
    FRAME = 13, "the bytes do not begin with a magic byte (0), a schema's id and the place of a message"
    OTHER_MESSAGE = (
        14,
        (
            "it is another message of its schema; where the messages of a file have changed places, set "
            "value.message.index=any (or key.message.index)"
        ),
    )
