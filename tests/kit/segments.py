"""What a disk, or a producer, can do to a stopped broker's log: a flipped bit, a payload that no codec can read.

Usage, the broker stopped in good order (a killed one checks its logs when it comes back, and cuts what is broken)::

    broker.stop()
    segment = segment_of(broker.node(1), "orders", 0)
    flip_byte(segment, 120)          # a bit in the last bytes of the batch that holds offset 120
    break_payload(segment, 300)      # what no codec can read, under a checksum that is right
    broker.start()
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.kit.broker import Node

_HEAD = struct.Struct(">qiibIhi")  # base offset, length, leader epoch, magic, CRC, attributes, last offset delta
_LENGTH_FROM = 12  # the length counts from behind itself
_CHECKED_FROM = 21  # the checksum covers what follows it
_RECORDS_FROM = 61  # where the records, compressed as one, begin


class Batch(NamedTuple):
    """A record batch of the file: offsets [first, last], bytes [at, end)."""

    first: int
    last: int
    at: int
    end: int


def segment_of(node: Node, topic: str, partition: int) -> Path:
    """The only segment of a partition's log; raises ValueError where there are more."""
    (segment,) = (node.data / f"{topic}-{partition}").glob("*.log")
    return segment


def batches(segment: Path) -> Iterator[Batch]:
    """The record batches of a segment (message format 2), in order."""
    data, at = segment.read_bytes(), 0
    while at < len(data):
        first, length, _, _, _, _, more = _HEAD.unpack_from(data, at)
        end = at + _LENGTH_FROM + length
        yield Batch(first, first + more, at, end)
        at = end


def batch_of(segment: Path, offset: int) -> Batch:
    """The batch that holds an offset."""
    return next(batch for batch in batches(segment) if batch.first <= offset <= batch.last)


def flip_byte(segment: Path, offset: int, place: int = -5) -> Batch:
    """Change one bit of the batch at ``place``, counted from its beginning, or from its end if negative."""
    batch = batch_of(segment, offset)
    data = bytearray(segment.read_bytes())
    data[(batch.at if place >= 0 else batch.end) + place] ^= 1
    segment.write_bytes(data)
    return batch


def break_payload(segment: Path, offset: int) -> Batch:
    """Make nonsense of the batch's compressed records and put the checksum right again: a broken producer's work."""
    batch = batch_of(segment, offset)
    data = bytearray(segment.read_bytes())
    begin = batch.at + _RECORDS_FROM
    data[begin : batch.end] = bytes(byte ^ 0xA5 for byte in data[begin : batch.end])
    checksum = crc32c(bytes(data[batch.at + _CHECKED_FROM : batch.end]))
    struct.pack_into(">I", data, batch.at + _CHECKED_FROM - 4, checksum)
    segment.write_bytes(data)
    return batch


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), Kafka's checksum of a batch.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    table, seen = _table(), 0xFFFFFFFF
    for byte in data:
        seen = table[(seen ^ byte) & 0xFF] ^ (seen >> 8)
    return seen ^ 0xFFFFFFFF


@cache
def _table() -> list[int]:
    table = []
    for number in range(256):
        value = number
        for _ in range(8):
            value = value >> 1 ^ 0x82F63B78 if value & 1 else value >> 1
        table.append(value)
    return table
