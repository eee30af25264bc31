"""Kafka's compressed record batches, by Arrow's codecs.

Snappy comes in the frames of Java's library (xerial), each block with its own length; the others are streams whose length
nobody has written down.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
_STREAMS = {GZIP: "gzip", LZ4: "lz4", ZSTD: "zstd"}
_XERIAL = b"\x82SNAPPY\x00"
MOST_RATIO = 64  # no element of snappy's, of two bytes at least, stands for more bytes than this
_XERIAL_HEADER = 16  # the magic bytes and two versions
_LENGTH = struct.Struct(">i")


def decompress(codec: int, packed: memoryview) -> Any:
    """The records of a batch, as any buffer; None when they can't be decompressed."""
    try:
        if codec == SNAPPY:
            return _snappy(packed)
        stream = pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(packed)), _STREAMS[codec])
        plain: pa.Buffer = stream.read_buffer()
    except (OSError, ValueError, KeyError, struct.error):
        return None
    return plain


def _snappy(packed: memoryview) -> Any:
    codec = pa.Codec("snappy")
    blocks = list(_blocks(packed)) if packed[: len(_XERIAL)] == _XERIAL else [packed]
    plain: list[pa.Buffer] = [codec.decompress(block, _plain_length(block)) for block in blocks]
    return plain[0] if len(plain) == 1 else b"".join(plain)


def _blocks(packed: memoryview) -> Iterator[memoryview]:
    at = _XERIAL_HEADER
    while at < len(packed):
        (length,) = _LENGTH.unpack_from(packed, at)
        at += _LENGTH.size
        if not 0 < length <= len(packed) - at:
            raise ValueError(length)
        yield packed[at : at + length]
        at += length


def _plain_length(block: memoryview) -> int:
    """What a block says that it holds: a varint at its beginning."""
    length = 0
    for index, byte in enumerate(block[:5]):
        length |= (byte & 0x7F) << 7 * index
        if byte < 0x80 and length <= MOST_RATIO * len(block):
            return length
    raise ValueError("no length")
