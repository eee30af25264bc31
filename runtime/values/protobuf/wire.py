"""How messages are written, as far as a descriptor set needs it; native/values/protobuf.c reads records.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

WORD, LONG_WORD = 4, 8
MOST_VARINT = 10


class WireType(IntEnum):
    """How a value ends."""

    VARINT = 0
    I64 = 1
    LEN = 2
    SGROUP = 3
    EGROUP = 4
    I32 = 5


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message with their numbers, in their order.  ValueError where it is none.

    >>> list(fields(bytes.fromhex("0a0161 109601")))
    [(1, b'a'), (2, 150)]
    """
    position = 0
    while position < len(data):
        tag, position = varint(data, position)
        kind, value = tag & 7, b""
        if kind == WireType.VARINT:
            number, position = varint(data, position)
            yield tag >> 3, number
            continue
        size = {int(WireType.I64): LONG_WORD, int(WireType.I32): WORD}.get(kind, -1)
        if kind == WireType.LEN:
            size, position = varint(data, position)
        if size < 0 or size > len(data) - position or not tag >> 3:
            raise ValueError(f"no field at byte {position}")
        value, position = data[position : position + size], position + size
        yield tag >> 3, value


def varint(data: bytes, start: int) -> tuple[int, int]:
    """The number at a place, and the place behind it."""
    number = 0
    for place in range(MOST_VARINT):
        if start + place >= len(data):
            break
        number |= (data[start + place] & 0x7F) << 7 * place
        if data[start + place] < 0x80:
            return number & (1 << 64) - 1, start + place + 1
    raise ValueError(f"no number at byte {start}")
