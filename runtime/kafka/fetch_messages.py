"""Requests of Kafka's as bytes: Metadata and Fetch.

Metadata v12 and Fetch v13 are the first to know topics by their ids; brokers without ids are asked by names, in Metadata v7
and Fetch v12 or v11.  Layouts: Kafka's ``MetadataRequest.json`` and the like, and their responses (KIP-516, KIP-320).  In
flexible versions (KIP-482) lengths are unsigned varints, one more than what they count, and every structure ends with tagged
fields; the older ones have lengths of two or four bytes, and no tags.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple, TypeAlias, TypeVar

from sparkcohort.runtime.text import printable

T = TypeVar("T")

METADATA, METADATA_VERSION = 3, 12
PRODUCE, FETCH, FETCH_VERSION = 0, 1, 13
FETCH_BY_NAMES = 12  # and below
VERSIONS: Mapping[int, Sequence[int]] = {METADATA: (METADATA_VERSION, 7), FETCH: (FETCH_VERSION, FETCH_BY_NAMES, 11)}
"""Of which versions of which request a broker must speak one, the best first: Kafka 2.4 does."""
SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
_FLEXIBLE_FROM = {PRODUCE: 9, METADATA: 9, FETCH: 12, SASL_HANDSHAKE: 99, API_VERSIONS: 3, SASL_AUTHENTICATE: 2}

NO_ID = bytes(16)
_NO_TAGS = b"\x00"
MOST_UNUSABLE, MOST_SHOWN = 3, 100
_PARTITION = struct.Struct(">iiqiqi")
_PARTITION_11 = struct.Struct(">iiqqi")
_RESULT = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_DIVERGING_EPOCH = 0


class MalformedResponse(Exception):
    """Bytes that are not the answer they should be."""


class Node(NamedTuple):
    """A broker's address."""

    host: str
    port: int


MOST_HOST = 255


def address_error(host: str, port: int) -> str:
    """What is wrong with an address, as a phrase; "" if nothing is."""
    if not 0 < port < 1 << 16:
        return "which is no port"
    if not 0 < len(host) <= MOST_HOST or not host.isprintable() or " " in host:
        return "which is no host"
    return ""


class PartitionLeader(NamedTuple):
    """Who leads a partition since which epoch; ``error`` is Kafka's code, ``node`` -1 while there is none."""

    error: int
    node: int
    epoch: int
    replicas: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster knows it; its id is ``NO_ID`` where brokers have none."""

    error: int
    topic_id: bytes
    leaders: Mapping[int, PartitionLeader]


@dataclass(frozen=True, slots=True)
class Metadata:
    """The cluster: brokers by their ids, and the topics that were asked for.

    ``unusable`` says what is wrong with each broker that is left out; ``racks`` are those of brokers that have one.
    """

    nodes: Mapping[int, Node]
    topics: Mapping[str, Topic]
    unusable: Sequence[str] = ()
    racks: Mapping[int, str] = field(default_factory=dict)


Key: TypeAlias = tuple[bytes, int]
"""A topic's id, or its name in UTF-8, and a partition."""


class FetchPartition(NamedTuple):
    """What to fetch of a partition; epochs are -1 where they are not known."""

    leader_epoch: int
    offset: int
    fetched_epoch: int  # of the last record before the offset: the broker tells when its log has another one there
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Request:
    """What a Fetch request asks within its session (``fetch_session``): ``session`` is (id, epoch)."""

    session: tuple[int, int]
    partitions: Mapping[Key, FetchPartition]
    forgotten: frozenset[Key]


class FetchedPartition(NamedTuple):
    """A partition's part of an answer: its batches are the bytes [start, end) of the frame."""

    topic: bytes  # its id; its name in UTF-8 in an answer by names
    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    aborted: Sequence[tuple[int, int]]  # producer id, first offset
    preferred_replica: int
    start: int
    end: int
    diverged: bool  # the records before the offset are not the ones that the leader has


class FetchAnswer(NamedTuple):
    """A Fetch response."""

    throttle_ms: int
    error: int
    session_id: int
    partitions: Sequence[FetchedPartition]


def best_version(api: int, spoken: Mapping[int, tuple[int, int]]) -> int | None:
    """The best of ``VERSIONS`` that a broker speaks; None where it speaks none."""
    least, most = spoken.get(api, (0, -1))
    return next((version for version in VERSIONS[api] if least <= version <= most), None)


def is_flexible(api: int, version: int) -> bool:
    """Whether this version has KIP-482's layout; those of the other requests here do."""
    return version >= _FLEXIBLE_FROM.get(api, 0)


# --- requests -----------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    """An unsigned varint."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _array(items: Sequence[bytes], *, flexible: bool = True) -> bytes:
    return (varint(len(items) + 1) if flexible else struct.pack(">i", len(items))) + b"".join(items)


def _string(text: str | bytes, *, flexible: bool = True) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return (varint(len(data) + 1) if flexible else struct.pack(">h", len(data))) + data


def framed(api: int, version: int, correlation_id: int, client_id: str, body: bytes) -> bytes:
    """A request with its header (v2; v1 before flexible versions) and its length before it."""
    name = client_id.encode()
    tags = _NO_TAGS if is_flexible(api, version) else b""
    header = struct.pack(f">hhih{len(name)}s", api, version, correlation_id, len(name), name) + tags
    return struct.pack(">i", len(header) + len(body)) + header + body


def metadata_request(topics: Iterable[str] | None, version: int = METADATA_VERSION) -> bytes:
    """Ask for these topics (None: all) and all brokers; no topic is created by it."""
    if version < METADATA_VERSION:
        names = None if topics is None else [_string(name, flexible=False) for name in topics]
        listed = struct.pack(">i", -1) if names is None else _array(names, flexible=False)
        return listed + struct.pack(">?", False)
    listed = b"\x00" if topics is None else _array([NO_ID + _string(name) + _NO_TAGS for name in topics])
    return listed + struct.pack(">??", False, False) + _NO_TAGS


def fetch_request(
    request: Request,
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    committed: bool,
    rack: str,
    version: int = FETCH_VERSION,
) -> bytes:
    """Ask for records, topics by their ids or (v12 and below) names in UTF-8."""
    flexible = is_flexible(FETCH, version)
    tags = _NO_TAGS if flexible else b""

    def encode_topics(encoded: Iterable[tuple[Key, bytes]]) -> bytes:
        # Runs of one topic's partitions: a broker without sessions fills its answer in the order of the request.
        topics = []
        for topic, run in groupby(encoded, key=lambda entry: entry[0][0]):
            name = _string(topic, flexible=flexible) if version <= FETCH_BY_NAMES else topic
            topics.append(name + _array([each for _, each in run], flexible=flexible) + tags)
        return _array(topics, flexible=flexible)

    head = struct.pack(">iiiibii", -1, max_wait_ms, min_bytes, max_bytes, committed, *request.session)
    wanted_topics = encode_topics(
        (key, _encode_partition(key[1], one, flexible)) for key, one in request.partitions.items()
    )
    forgotten_topics = encode_topics((key, _INT.pack(key[1])) for key in sorted(request.forgotten))
    return head + wanted_topics + forgotten_topics + _string(rack, flexible=flexible) + tags


def _encode_partition(index: int, one: FetchPartition, flexible: bool) -> bytes:
    # v11 has no epoch of the last record: the driver's OffsetForLeaderEpoch alone notices a log that was cut.
    if not flexible:
        return _PARTITION_11.pack(index, one.leader_epoch, one.offset, -1, one.max_bytes)
    return _PARTITION.pack(index, one.leader_epoch, one.offset, one.fetched_epoch, -1, one.max_bytes) + _NO_TAGS


# --- answers ------------------------------------------------------------------------------------


class _Bytes:
    """A cursor over a frame; raises MalformedResponse where it ends too early."""

    __slots__ = ("data", "end", "flexible", "position")

    def __init__(self, data: bytes | bytearray | memoryview, position: int, end: int, flexible: bool = True) -> None:
        self.data, self.position, self.end, self.flexible = data, position, end, flexible

    def skip(self, length: int) -> int:
        """Pass over so many bytes; returns where they begin."""
        start = self.position
        if length < 0 or start + length > self.end:
            raise MalformedResponse("the answer is shorter than it says")
        self.position = start + length
        return start

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        return layout.unpack_from(self.data, self.skip(layout.size))

    def varint(self) -> int:
        number = shift = 0
        while shift < 35:
            byte = self.data[self.skip(1)]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
        raise MalformedResponse("the answer has a number of too many bytes")

    def length(self) -> int:
        """Of bytes or an array; -1 is null."""
        return self.varint() - 1 if self.flexible else self.unpack(_INT)[0]

    def string(self) -> bytes:
        """A string as it is; nothing for null."""
        length = self.varint() - 1 if self.flexible else self.unpack(_SHORT)[0]
        start = self.skip(max(length, 0))
        return bytes(self.data[start : self.position])

    def blob(self) -> bytes:
        """Bytes; none for null."""
        length = max(self.length(), 0)
        start = self.skip(length)
        return bytes(self.data[start : start + length])

    def text(self) -> str:
        try:
            return self.string().decode()
        except UnicodeDecodeError:
            raise MalformedResponse("the answer has a name that is no text") from None

    def array(self, read: Callable[[_Bytes], T]) -> list[T]:
        return [read(self) for _ in range(self.length())]

    def tags(self) -> dict[int, tuple[int, int]]:
        """Tagged fields: where their bytes begin, and where they end."""
        fields = {}
        for _ in range(self.varint() if self.flexible else 0):
            tag, size = self.varint(), self.varint()
            fields[tag] = self.skip(size), self.position
        return fields


_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_LEADER = struct.Struct(">hiii")
_HEAD = struct.Struct(">ihi")


def _body(frame: bytes | bytearray | memoryview, size: int, correlation_id: int, flexible: bool = True) -> _Bytes:
    """What follows the response's header (v1; v0 before flexible versions)."""
    body = _Bytes(frame, 0, size, flexible)
    (answered_id,) = body.unpack(_INT)
    if answered_id != correlation_id:
        raise MalformedResponse(f"the answer is to request {answered_id}, not to {correlation_id}")
    body.tags()
    return body


def metadata_answer(
    frame: bytes | bytearray | memoryview, size: int, correlation_id: int, version: int = METADATA_VERSION
) -> Metadata:
    """Read a Metadata response; ``frame`` begins behind its length.  Raises MalformedResponse."""
    body = _body(frame, size, correlation_id, is_flexible(METADATA, version))
    body.unpack(_INT)  # throttled: there are few of these requests
    brokers = body.array(_node)
    body.text()  # the cluster's id
    body.unpack(_INT)  # the controller
    nodes = {node_id: node for node_id, node, _ in brokers if not address_error(*node)}
    unusable = [_unusable(node_id, node) for node_id, node, _ in brokers if node_id not in nodes]
    racks = {node_id: rack for node_id, _, rack in brokers if rack}
    return Metadata(nodes, dict(body.array(_topic)), tuple(unusable[:MOST_UNUSABLE]), racks)


def _unusable(node_id: int, node: Node) -> str:
    address = printable(f"{node.host}:{node.port}", MOST_SHOWN)
    return f"broker {node_id} is said to be at {address}, {address_error(*node)}: see the brokers' advertised.listeners"


def _node(body: _Bytes) -> tuple[int, Node, str]:
    (node_id,) = body.unpack(_INT)
    host = body.text()
    (port,) = body.unpack(_INT)
    rack = body.text()
    body.tags()
    return node_id, Node(host, port), rack


def _topic(body: _Bytes) -> tuple[str, Topic]:
    (error,) = body.unpack(_SHORT)
    name, topic_id = body.text(), NO_ID
    if body.flexible:
        start = body.skip(16)
        topic_id = bytes(body.data[start : body.position])
    body.skip(1)  # whether it is internal
    leaders = dict(body.array(_leader))
    if body.flexible:
        body.unpack(_INT)  # operations allowed
    body.tags()
    return name, Topic(error, topic_id, leaders)


def _leader(body: _Bytes) -> tuple[int, PartitionLeader]:
    error, index, node, epoch = body.unpack(_LEADER)
    count = max(body.length(), 0)
    start = body.skip(4 * count)
    replicas = struct.unpack_from(f">{count}i", body.data, start)
    for _ in range(2):  # replicas in sync, and those offline
        body.skip(4 * max(body.length(), 0))
    body.tags()
    return index, PartitionLeader(error, node, epoch, replicas)


def fetch_answer(
    frame: bytes | bytearray | memoryview, size: int, correlation_id: int, version: int = FETCH_VERSION
) -> FetchAnswer:
    """Read a Fetch response but for its batches; ``frame`` begins behind its length.  Raises MalformedResponse."""
    body = _body(frame, size, correlation_id, is_flexible(FETCH, version))
    throttle_ms, error, session_id = body.unpack(_HEAD)
    partitions: list[FetchedPartition] = []
    for _ in range(body.length()):
        if version > FETCH_BY_NAMES:
            start = body.skip(16)
            topic = bytes(body.data[start : body.position])
        else:
            topic = body.string()
        partitions += [_read_partition(body, topic) for _ in range(body.length())]
        body.tags()
    return FetchAnswer(throttle_ms, error, session_id, partitions)


def _read_partition(body: _Bytes, topic: bytes) -> FetchedPartition:
    index, error, high_watermark, last_stable, _ = body.unpack(_RESULT)
    aborted = body.array(_read_aborted)
    (preferred,) = body.unpack(_INT)
    length = max(body.length(), 0)
    start = body.skip(length)
    diverged = False
    tags = body.tags()
    if _DIVERGING_EPOCH in tags:
        (epoch,) = _Bytes(body.data, *tags[_DIVERGING_EPOCH]).unpack(_INT)
        diverged = epoch >= 0
    return FetchedPartition(
        topic, index, error, high_watermark, last_stable, aborted, preferred, start, start + length, diverged
    )


def _read_aborted(body: _Bytes) -> tuple[int, int]:
    producer, first = body.unpack(_ABORTED)
    body.tags()
    return producer, first


# What the messages of other requests are made of, too: see ``cluster_messages``.
Cursor: TypeAlias = _Bytes
NO_TAGS, compact_array, compact_string, response_body = _NO_TAGS, _array, _string, _body
