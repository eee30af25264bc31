"""Kafka's ConsumerProtocol: the bytes that a group carries for its members without reading them.

A *subscription* is a member's metadata in JoinGroup, an *assignment* what SyncGroup hands it.  Both start with
an int16 version; integers are big-endian, a string is int16 length and UTF-8, bytes are int32 length (-1: null),
an array is int32 count (schemas ``ConsumerProtocolSubscription.json``, ``ConsumerProtocolAssignment.json``):

======= ==================================================== ==========================================
version subscription                                         assignment
======= ==================================================== ==========================================
0       topics, user data                                    [topic, [partition]], user data
1       + owned [topic, [partition]] (KIP-429)               as 0
2       + generation, -1: none (KIP-792)                     as 0
3       + rack, null or empty: none (KIP-881)                as 0
======= ==================================================== ==========================================

Versions only append, so a reader takes a higher version than it knows for its own highest.  Writing is
canonical (topics and partitions sorted): equal values give equal bytes, and a member whose metadata did not
change is seen as unchanged.  Other writers order differently: compare values, never bytes.

>>> mine = Subscription(("t1", "t0"), owned=(TopicPartition("t0", 1), TopicPartition("t0", 0)), generation=7)
>>> decode_subscription(encode_subscription(mine))  # doctest: +NORMALIZE_WHITESPACE
Subscription(topics=('t0', 't1'), user_data=None, owned=(TopicPartition(topic='t0', partition=0),
             TopicPartition(topic='t0', partition=1)), generation=7, rack=None)
>>> encode_assignment([TopicPartition("t0", 2)]).hex(" ", -2)
'0003 0000 0001 0002 7430 0000 0001 0000 0002 ffff ffff'
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sparkcohort.assignors.solver.space import distinct
from sparkcohort.runtime.protocol.messages import NO_GENERATION
from sparkcohort.runtime.protocol.partitions import TopicPartition

HIGHEST_VERSION = 3
_MAX_STRING = 0x7FFF
_INT16 = struct.Struct(">h").pack
_VERSION, _NULL_STRING = _INT16(HIGHEST_VERSION), _INT16(-1)
Ints: TypeAlias = npt.NDArray[np.int64]


class MalformedConsumerProtocol(ValueError):
    """Bytes that are no ConsumerProtocol message, or a value that can't be written as one."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics that a member subscribes to, and its partitions; ``owned`` were assigned in or before ``generation``."""

    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None


def assigned_partitions(assignment: bytes) -> frozenset[TopicPartition]:
    """The partitions of an assignment; none for bytes that can't be read, or empty ones (the leader gave the member none)."""
    try:
        return frozenset(decode_assignment(assignment)) if assignment else frozenset()
    except MalformedConsumerProtocol:
        return frozenset()


def claimed_partitions(metadata: bytes) -> frozenset[TopicPartition]:
    """The partitions that a member says it still holds; none for bytes that can't be read."""
    try:
        return frozenset(decode_subscription(metadata).owned)
    except MalformedConsumerProtocol:
        return frozenset()


def encode_subscription(subscription: Subscription) -> bytes:
    """Write a subscription."""
    return b"".join(
        (
            _VERSION,
            _array(map(_string, sorted(set(subscription.topics)))),
            _bytes(subscription.user_data),
            _partitions(subscription.owned),
            _int32(subscription.generation),
            _NULL_STRING if not subscription.rack else _string(subscription.rack),
        )
    )


def decode_subscription(data: bytes) -> Subscription:
    """Read a subscription of any version; raises MalformedConsumerProtocol."""
    reader = _ByteReader(data, "subscription")
    version = reader.version()
    topics = tuple(reader.string() for _ in range(reader.count()))
    user_data = reader.nullable_bytes()
    owned = reader.partitions() if version >= 1 else ()
    generation = reader.int32() if version >= 2 else NO_GENERATION
    rack = reader.nullable_string() or None if version >= 3 else None
    return Subscription(topics, user_data, owned, generation, rack)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Write an assignment, without user data."""
    return _VERSION + _partitions(partitions) + _bytes(None)


class AssignmentWriter:
    """Writes assignments of partitions of these topics, many at once, each as ``encode_assignment`` does."""

    def __init__(self, topics: Sequence[str]) -> None:
        self._names = "".join(topics).encode()
        written: Iterable[str | bytes] = topics if self._names.isascii() else map(str.encode, topics)
        self._width = np.fromiter(map(len, written), np.int64, len(topics))
        if self._width.max(initial=0) > _MAX_STRING:
            _string(topics[int(self._width.argmax())])  # raises
        self._begin: Ints = np.cumsum(self._width)
        self._begin -= self._width
        self._widths = distinct(self._width).tolist()

    def write(self, topic: Ints, number: Ints, starts: Ints) -> list[bytes]:
        """Partition i is ``number[i]`` of the topic at ``topic[i]``; assignment k has those from ``starts[k]`` on.

        They end where the next one's begin, the last one's at ``starts[-1]``; sorted by topic's position and number.

        >>> AssignmentWriter(["t0"]).write(np.array([0]), np.array([2]), np.array([0, 1, 1]))[0].hex(" ", -2)
        '0003 0000 0001 0002 7430 0000 0001 0000 0002 ffff ffff'
        """
        data, begins = self._joined(topic, number, starts)
        return [data[begin:end] for begin, end in pairwise(begins.tolist())]

    def _joined(self, topic: Ints, number: Ints, starts: Ints) -> tuple[bytes, Ints]:
        """All assignments in one text of bytes; where each begins, and the end."""
        new = _new_topics(topic, starts)
        first_run = np.concatenate(([0], np.cumsum(new)))[starts]
        runs = np.flatnonzero(new)
        name, count = topic[runs], np.diff(first_run)
        # Bytes: 2 for the version, 4 for the number of runs, the runs, 4 for the user data that there isn't.
        lengths = np.diff(runs, append=len(topic))
        positions = np.zeros(len(runs) + 1, np.int64)
        np.cumsum(self._width[name] + 4 * lengths + 6, out=positions[1:])
        begins = positions[first_run] + 10 * np.arange(len(starts))
        positions = positions[:-1]
        positions += np.repeat(10 * np.arange(len(count)) + 6, count)
        data = np.zeros(int(begins[-1]), np.uint8)
        data[begins[:-1] + 1] = HIGHEST_VERSION
        _write_items(data, begins[:-1] + 2, count.astype(">i4"))
        _write_items(data, begins[1:] - 4, np.full(len(count), -1, ">i4"))
        self._put_heads(data, positions, name, lengths)
        del new, name, first_run
        runs *= 4
        positions -= runs
        numbers_at = np.repeat(positions, lengths)
        numbers_at += np.arange(0, 4 * len(topic), 4)
        del positions, runs, lengths
        _write_items(data, numbers_at, number.astype(">i4"))
        del numbers_at
        return data.tobytes(), begins

    def _put_heads(self, data: npt.NDArray[np.uint8], positions: Ints, name: Ints, lengths: Ints) -> None:
        """Write the topic and the count before each run of partitions; advances ``positions`` to where the partitions begin."""
        width = self._width[name]
        _write_items(data, positions, width.astype(">i2"))
        positions += 2
        for size in self._widths:
            runs = slice(None) if len(self._widths) == 1 else np.flatnonzero(width == size)
            if size and len(positions[runs]):
                _items(data, size)[positions[runs]] = _items(self._names, size)[self._begin[name[runs]]]
        positions += width
        _write_items(data, positions, lengths.astype(">i4"))
        positions += 4


def _new_topics(topic: Ints, starts: Ints) -> npt.NDArray[np.bool_]:
    """Whether at each partition an assignment's next topic begins."""
    new = np.ones(len(topic), np.bool_)
    np.not_equal(topic[1:], topic[:-1], out=new[1:])
    new[starts[:-1][starts[:-1] < starts[1:]]] = True
    return new


def _write_items(data: npt.NDArray[np.uint8], positions: Ints, items: npt.NDArray[Any]) -> None:
    """Write items of one size at any bytes."""
    if len(positions):
        _items(data, items.dtype.itemsize)[positions] = items.view(f"V{items.dtype.itemsize}")


def _items(data: npt.NDArray[np.uint8] | bytes, width: int) -> npt.NDArray[Any]:
    """A view in which an item of this width begins at every byte."""
    return np.ndarray((len(data) - width + 1,), f"V{width}", data, strides=(1,))


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions of an assignment of any version; raises MalformedConsumerProtocol."""
    reader = _ByteReader(data, "assignment")
    reader.version()
    partitions = reader.partitions()
    reader.nullable_bytes()  # user data
    return partitions


# --- writing ------------------------------------------------------------------------------------


def _int32(value: int) -> bytes:
    try:
        return struct.pack(">i", value)
    except struct.error:
        raise MalformedConsumerProtocol(f"{value} doesn't fit into an int32") from None


def _string(value: str) -> bytes:
    data = value.encode()
    if len(data) > _MAX_STRING:
        raise MalformedConsumerProtocol(f"a string of {len(data)} bytes is too long: {_MAX_STRING} is the most")
    return _INT16(len(data)) + data


def _bytes(value: bytes | None) -> bytes:
    return _int32(-1) if value is None else _int32(len(value)) + value


def _array(items: Iterable[bytes]) -> bytes:
    written = list(items)
    return _int32(len(written)) + b"".join(written)


def _partitions(partitions: Iterable[tuple[str, int]]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(set(partitions)):
        by_topic.setdefault(topic, []).append(partition)
    return _array(_string(topic) + _array(map(_int32, ids)) for topic, ids in by_topic.items())


# --- reading ------------------------------------------------------------------------------------


class _ByteReader:
    """A cursor over one message; each read checks first that the bytes exist, so a false count costs no memory."""

    def __init__(self, data: bytes, kind: str) -> None:
        self._data, self._position, self._kind = data, 0, kind

    def _fail(self, problem: str) -> MalformedConsumerProtocol:
        return MalformedConsumerProtocol(f"not a ConsumerProtocol {self._kind}: {problem} at byte {self._position}")

    def _take(self, length: int) -> bytes:
        if length < 0:
            raise self._fail(f"length {length}")
        if self._position + length > len(self._data):
            raise self._fail(f"ends where {length} bytes more are due")
        self._position += length
        return self._data[self._position - length : self._position]

    def int16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def version(self) -> int:
        version = self.int16()
        if version < 0:
            raise self._fail(f"version {version}")
        return min(version, HIGHEST_VERSION)

    def count(self) -> int:
        count = self.int32()
        if count < 0:
            raise self._fail(f"count {count}")
        return count

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise self._fail("null where a string is due")
        return value

    def nullable_string(self) -> str | None:
        length = self.int16()
        try:
            return None if length == -1 else self._take(length).decode()
        except UnicodeDecodeError:
            raise self._fail("text that is not UTF-8") from None

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length == -1 else self._take(length)

    def partitions(self) -> tuple[TopicPartition, ...]:
        partitions: list[TopicPartition] = []
        for _ in range(self.count()):
            topic = self.string()
            count = self.count()
            numbers = struct.unpack(f">{count}i", self._take(4 * count))
            partitions.extend(map(TopicPartition._make, zip(repeat(topic), numbers, strict=False)))
        return tuple(partitions)
