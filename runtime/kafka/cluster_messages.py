"""What is asked of a cluster besides records, as bytes: one class for each request of Kafka's, in one flexible version.

Layouts: Kafka's ``ListOffsetsRequest.json`` and the like, and their responses; see ``fetch_messages`` for how they are written.
Each question knows its bytes and reads its own answer, so that the client that sends it needs to know neither.
"""

from __future__ import annotations

import base64
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar

from sparkcohort.runtime.kafka.fetch_messages import (
    METADATA,
    METADATA_VERSION,
    NO_ID,
    NO_TAGS,
    VERSIONS,
    Cursor,
    MalformedResponse,
    Metadata,
    Node,
    best_version,
    compact_array,
    compact_string,
    metadata_answer,
    metadata_request,
    response_body,
)
from sparkcohort.runtime.protocol.partitions import TopicPartition

T = TypeVar("T")

LIST_OFFSETS, LIST_OFFSETS_VERSION = 2, 6
FIND_COORDINATOR, LEAVE_GROUP, DESCRIBE_GROUPS, EPOCH_ENDS = 10, 13, 15, 23
SPOKEN: Final = {METADATA: VERSIONS[METADATA]}
"""Which versions of which request every broker must speak; librdkafka asks for offsets where a broker lacks that version, and of
the others a query can do without the answer."""

_BYTE, _SHORT, _INT = struct.Struct(">b"), struct.Struct(">h"), struct.Struct(">i")
_LIST_HEAD, _LIST_PARTITION, _LISTED = struct.Struct(">ib"), struct.Struct(">iiq"), struct.Struct(">ihqqi")
_EPOCHS, _EPOCH_END = struct.Struct(">iii"), struct.Struct(">hiiq")
_HEAD = struct.Struct(">ih")  # for how long the client is throttled, in ms, and Kafka's error
_NO_EPOCH = -1


class ListedOffset(NamedTuple):
    """An offset, and the epoch of the leader that wrote it, -1 where it tells none; ``error`` is Kafka's code."""

    error: int
    offset: int
    epoch: int


class EpochEnd(NamedTuple):
    """Where a leader epoch, or the last before it that the leader's log has, ends there; -1, -1 where the log has none."""

    error: int
    epoch: int
    end: int


class CoordinatorAddress(NamedTuple):
    """Which broker coordinates a group or a transactional id; ``error`` is Kafka's code."""

    error: int
    node: Node


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A member as its coordinator describes it; ``partitions`` are those of its assignment."""

    member_id: str
    instance_id: str  # "" of a dynamic member
    client_id: str
    host: str
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group of the classic protocol; ``state`` is Kafka's word (``Dead`` also where there is none of this name)."""

    error: int
    state: str
    members: tuple[DescribedMember, ...]

    @property
    def is_memberless(self) -> bool:
        """Whether it is known to have no member, so that a commit needs none either."""
        return not self.error and self.state in ("Empty", "Dead")


class BrokerQuestion(ABC, Generic[T]):
    """One request; ``name`` is Kafka's, ``api`` and ``version`` its numbers."""

    name: ClassVar[str]
    api: ClassVar[int]
    may_repeat: ClassVar[bool] = True  # a copy that arrives late does no harm
    version: int

    @abstractmethod
    def body(self) -> bytes:
        """The request without its header."""

    @abstractmethod
    def read(self, frame: bytes | bytearray | memoryview, correlation_id: int) -> T:
        """The answer; ``frame`` begins behind its length.  Raises MalformedResponse."""

    def for_broker(self, spoken: Mapping[int, tuple[int, int]]) -> Self | None:
        """The question in a version that the broker speaks; None where it speaks none."""
        least, most = spoken.get(self.api, (0, -1))
        return self if least <= self.version <= most else None


@dataclass(frozen=True, slots=True)
class MetadataQuestion(BrokerQuestion[Metadata]):
    """Brokers with their racks, and topics (None: all) with their ids, leaders and replicas; brokers before v12 tell no ids."""

    topics: Collection[str] | None
    version: int = METADATA_VERSION
    name, api = "Metadata", METADATA

    def body(self) -> bytes:
        """MetadataRequest."""
        return metadata_request(self.topics if self.topics is None else sorted(self.topics), self.version)

    def read(self, frame: bytes | bytearray | memoryview, correlation_id: int) -> Metadata:
        """MetadataResponse."""
        return metadata_answer(frame, len(frame), correlation_id, self.version)

    def for_broker(self, spoken: Mapping[int, tuple[int, int]]) -> Self | None:
        """See ``BrokerQuestion``."""
        version = best_version(METADATA, spoken)
        return None if version is None else replace(self, version=version)


@dataclass(frozen=True, slots=True)
class OffsetsQuestion(BrokerQuestion[dict[TopicPartition, ListedOffset]]):
    """Offsets of partitions that the broker leads, by time in ms or EARLIEST, LATEST; ``committed``: up to the last stable one."""

    specs: Mapping[TopicPartition, int]
    committed: bool
    name, api, version = "ListOffsets", LIST_OFFSETS, LIST_OFFSETS_VERSION

    def body(self) -> bytes:
        """ListOffsetsRequest v6."""
        topics: dict[str, list[bytes]] = {}
        for (topic, number), spec in self.specs.items():
            topics.setdefault(topic, []).append(_LIST_PARTITION.pack(number, _NO_EPOCH, spec) + NO_TAGS)
        entries = [compact_string(topic) + compact_array(each) + NO_TAGS for topic, each in topics.items()]
        return _LIST_HEAD.pack(-1, self.committed) + compact_array(entries) + NO_TAGS

    def read(self, frame: bytes | bytearray | memoryview, correlation_id: int) -> dict[TopicPartition, ListedOffset]:
        """ListOffsetsResponse v6."""
        return _by_partition(response_body(frame, len(frame), correlation_id), _listed)


def _by_partition(body: Cursor, read: Callable[[Cursor], tuple[int, T]]) -> dict[TopicPartition, T]:
    """An answer that is a list of topics, each with a list of partitions."""
    body.unpack(_INT)  # for how long the client is throttled
    answers: dict[TopicPartition, T] = {}
    for _ in range(body.length()):
        topic = body.text()
        answers |= {TopicPartition(topic, number): answer for number, answer in body.array(read)}
        body.tags()
    return answers


def _listed(body: Cursor) -> tuple[int, ListedOffset]:
    number, error, _, offset, epoch = body.unpack(_LISTED)
    body.tags()
    return number, ListedOffset(error, offset, epoch)


@dataclass(frozen=True, slots=True)
class EpochEndsQuestion(BrokerQuestion[dict[TopicPartition, EpochEnd]]):
    """Where leader epochs end (KIP-320), by topic and partition: the epoch that the leader has itself now, and the one in question."""

    epochs: Mapping[str, Mapping[int, tuple[int, int]]]
    name, api, version = "OffsetForLeaderEpoch", EPOCH_ENDS, 4

    def body(self) -> bytes:
        """OffsetForLeaderEpochRequest v4."""
        topics = []
        for topic, partitions in self.epochs.items():
            entries = [_EPOCHS.pack(number, now, epoch) + NO_TAGS for number, (now, epoch) in partitions.items()]
            topics.append(compact_string(topic) + compact_array(entries) + NO_TAGS)
        return _INT.pack(-1) + compact_array(topics) + NO_TAGS

    def read(self, frame: bytes | bytearray | memoryview, correlation_id: int) -> dict[TopicPartition, EpochEnd]:
        """OffsetForLeaderEpochResponse v4."""
        return _by_partition(response_body(frame, len(frame), correlation_id), _epoch_end)


def _epoch_end(body: Cursor) -> tuple[int, EpochEnd]:
    error, number, epoch, end = body.unpack(_EPOCH_END)
    body.tags()
    return number, EpochEnd(error, epoch, end)


@dataclass(frozen=True, slots=True)
class CoordinatorQuestion(BrokerQuestion[CoordinatorAddress]):
    """Which broker coordinates this group, or this transactional id."""

    key: str
    is_transaction: bool = False
    name, api, version = "FindCoordinator", FIND_COORDINATOR, 3

    def body(self) -> bytes:
        """FindCoordinatorRequest v3."""
        return compact_string(self.key) + _BYTE.pack(self.is_transaction) + NO_TAGS

    def read(self, frame: bytes | bytearray | memoryview, correlation_id: int) -> CoordinatorAddress:
        """FindCoordinatorResponse v3."""
        body = response_body(frame, len(frame), correlation_id)
        _, error = body.unpack(_HEAD)
        body.text()  # the error in words
        body.unpack(_INT)  # the broker's id
        host = body.text()
        (port,) = body.unpack(_INT)
        return CoordinatorAddress(error, Node(host, port))


@dataclass(frozen=True, slots=True)
class GroupQuestion(BrokerQuestion[GroupDescription]):
    """State and members of a group; for its coordinator."""

    group: str
    name, api, version = "DescribeGroups", DESCRIBE_GROUPS, 5

    def body(self) -> bytes:
        """DescribeGroupsRequest v5."""
        return compact_array([compact_string(self.group)]) + _BYTE.pack(0) + NO_TAGS

    def read(self, frame: bytes | bytearray | memoryview, correlation_id: int) -> GroupDescription:
        """DescribeGroupsResponse v5."""
        body = response_body(frame, len(frame), correlation_id)
        body.unpack(_INT)
        groups = body.array(_group)
        return groups[0] if groups else GroupDescription(0, "Dead", ())


def _group(body: Cursor) -> GroupDescription:
    (error,) = body.unpack(_SHORT)
    body.text()
    state = body.text()
    body.text()  # the protocol's type
    body.text()  # the protocol
    members = body.array(_member)
    body.unpack(_INT)  # operations allowed
    body.tags()
    return GroupDescription(error, state, tuple(members))


def _member(body: Cursor) -> DescribedMember:
    member_id, instance_id, client_id, host = body.text(), body.text(), body.text(), body.text()
    body.skip(max(body.length(), 0))  # its subscription
    assignment = body.blob()
    body.tags()
    return DescribedMember(member_id, instance_id, client_id, host, assigned_partitions(assignment))


def assigned_partitions(assignment: bytes) -> frozenset[TopicPartition]:
    """The partitions of ``ConsumerProtocolAssignment``; none for bytes that can't be read, as those of another type of group."""
    body = Cursor(assignment, 0, len(assignment), flexible=False)
    try:
        body.skip(2)  # its version: later ones only append
        return frozenset(chain.from_iterable(body.array(_assigned)))
    except MalformedResponse:
        return frozenset()


def _assigned(body: Cursor) -> list[TopicPartition]:
    topic = body.text()
    return [TopicPartition(topic, number) for (number,) in body.array(lambda body: body.unpack(_INT))]


@dataclass(frozen=True, slots=True)
class LeaveQuestion(BrokerQuestion[dict[str, int]]):
    """Take static members out of their group (KIP-345): instance ids by member ids; for its coordinator.

    The answer is Kafka's error of each member id, and of all under "".
    """

    group: str
    members: Mapping[str, str]
    name, api, version = "LeaveGroup", LEAVE_GROUP, 4

    def body(self) -> bytes:
        """LeaveGroupRequest v4."""
        leaving = [
            compact_string(member) + compact_string(instance) + NO_TAGS for member, instance in self.members.items()
        ]
        return compact_string(self.group) + compact_array(leaving) + NO_TAGS

    def read(self, frame: bytes | bytearray | memoryview, correlation_id: int) -> dict[str, int]:
        """LeaveGroupResponse v4."""
        body = response_body(frame, len(frame), correlation_id)
        _, error = body.unpack(_HEAD)
        return {"": error} | dict(body.array(_leaving))


def _leaving(body: Cursor) -> tuple[str, int]:
    member, _instance = body.text(), body.text()
    (error,) = body.unpack(_SHORT)
    body.tags()
    return member, error


def topic_ids(metadata: Metadata) -> dict[str, str]:
    """The ids of the topics that have one, as Kafka's tools show them."""
    return {name: shown_id(topic.topic_id) for name, topic in metadata.topics.items() if topic.topic_id != NO_ID}


def shown_id(topic_id: bytes) -> str:
    """An id as Kafka's tools show it.

    >>> shown_id(bytes.fromhex("963ed7add1814877bedbf61b71c93cd3"))
    'lj7XrdGBSHe-2_Ybcck80w'
    """
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


AnyQuestion = BrokerQuestion[Any]
