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
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind, value = tag & 7, b""
        if kind == WireType.VARINT:
            number, at = varint(data, at)
            yield tag >> 3, number
            continue
        size = {int(WireType.I64): LONG_WORD, int(WireType.I32): WORD}.get(kind, -1)
        if kind == WireType.LEN:
            size, at = varint(data, at)
        if size < 0 or size > len(data) - at or not tag >> 3:
            raise ValueError(f"no field at byte {at}")
        value, at = data[at : at + size], at + size
        yield tag >> 3, value


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place behind it."""
    number = 0
    for place in range(MOST_VARINT):
        if at + place >= len(data):
            break
        number |= (data[at + place] & 0x7F) << 7 * place
        if data[at + place] < 0x80:
            return number & (1 << 64) - 1, at + place + 1
    raise ValueError(f"no number at byte {at}")
