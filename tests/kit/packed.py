"""Kafka's integers as bytes."""

from __future__ import annotations

import struct


def int16(number: int) -> bytes:
    """As error codes are."""
    return struct.pack(">h", number)


def int32(number: int) -> bytes:
    """As partitions are."""
    return struct.pack(">i", number)


def int64(number: int) -> bytes:
    """As offsets are."""
    return struct.pack(">q", number)
