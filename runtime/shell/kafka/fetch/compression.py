"""Kafka's compressed record batches, by Arrow's codecs.

Snappy comes in the frames of Java's library (xerial), each block with its own length; the others are streams whose length
nobody has written down.  A few bytes may stand for many (zstd: 1 for 32,000), so a batch is unpacked piece by piece.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
_STREAMS = {GZIP: "gzip", LZ4: "lz4", ZSTD: "zstd"}
_XERIAL = b"\x82SNAPPY\x00"
MOST_RATIO = 64 / 3  # a copy of 64 bytes is three, and no other element of snappy's stands for more
AT_ONCE = 1 << 20  # most bytes of snappy's that are unpacked without a stream
_XERIAL_HEADER = 16  # the magic bytes and two versions
_LENGTH = struct.Struct(">i")


def unpack(codec: int, packed: memoryview, largest: int, at_once: int = AT_ONCE) -> Any:
    """The records of a batch, as ``_native.Decoder`` wants them; raises OSError, ValueError."""
    if codec == SNAPPY:
        return _snappy(packed, largest, at_once)
    return pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(packed)), _STREAMS[codec])


def _snappy(packed: memoryview, largest: int, at_once: int) -> Any:
    blocks = list(_blocks(packed)) if packed[: len(_XERIAL)] == _XERIAL else [packed]
    lengths = [_plain_length(block) for block in blocks]
    if sum(lengths) > at_once:
        return max(lengths) if max(lengths) > largest else _Stream(blocks, lengths)
    codec = pa.Codec("snappy")
    if len(blocks) == 1:
        return codec.decompress(blocks[0], lengths[0])
    return b"".join(map(codec.decompress, blocks, lengths))


class _Stream:
    """Snappy's blocks one after the other: each can only be unpacked as a whole."""

    def __init__(self, blocks: list[memoryview], lengths: list[int]) -> None:
        self._blocks = zip(blocks, lengths, strict=True)
        self._codec = pa.Codec("snappy")
        self._plain = memoryview(b"")

    def readinto(self, target: memoryview) -> int:
        """Write the next bytes; less than there is room for only at the end.  Raises OSError."""
        position = 0
        while position < len(target):
            if not self._plain:
                block = next(self._blocks, None)
                if block is None:
                    break
                self._plain = memoryview(self._codec.decompress(*block)).cast("B")
            part = self._plain[: len(target) - position]
            target[position : position + len(part)] = part
            position, self._plain = position + len(part), self._plain[len(part) :]
        return position


def _blocks(packed: memoryview) -> Iterator[memoryview]:
    position = _XERIAL_HEADER
    while position < len(packed):
        if len(packed) - position < _LENGTH.size:
            raise ValueError("the last snappy block is cut short")
        (length,) = _LENGTH.unpack_from(packed, position)
        position += _LENGTH.size
        if not 0 < length <= len(packed) - position:
            raise ValueError(f"a snappy block of {length} bytes, of which {len(packed) - position} are there")
        yield packed[position : position + length]
        position += length


def _plain_length(block: memoryview) -> int:
    """What a block says that it holds: a varint at its beginning."""
    length = 0
    for index, byte in enumerate(block[:5]):
        length |= (byte & 0x7F) << 7 * index
        if byte < 0x80 and length <= MOST_RATIO * len(block):
            return length
    raise ValueError("a snappy block states a length that it can't have")
