"""Requests of a producer as bytes: Produce and InitProducerId.

Layouts: Kafka's ``ProduceRequest.json``, ``InitProducerIdRequest.json`` and their responses; Produce is flexible from v9 on, and
Kafka 2.4, the oldest that Metadata is asked of, speaks v8.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from sparkcohort.runtime.kafka.cluster_messages import BrokerQuestion
from sparkcohort.runtime.kafka.fetch_messages import (
    NO_TAGS,
    PRODUCE,
    Cursor,
    compact_array,
    compact_string,
    framed,
    is_flexible,
    response_body,
    varint,
)
from sparkcohort.runtime.protocol.partitions import TopicPartition

INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION = 22, 2
PRODUCE_VERSIONS: Final[Mapping[int, Sequence[int]]] = {PRODUCE: (9, 8)}

_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_HEAD, _INIT_HEAD = struct.Struct(">hi"), struct.Struct(">ihqh")
_RESULT = struct.Struct(">ihqqq")

Buffer: TypeAlias = bytes | bytearray | memoryview


class ProducerId(NamedTuple):
    """What a broker knows an idempotent producer by."""

    producer_id: int
    epoch: int


NO_PRODUCER_ID: Final = ProducerId(-1, -1)


class ProducedPartition(NamedTuple):
    """The answer for one partition's batch; ``words`` are the broker's, "" where it has none."""

    error: int
    base_offset: int
    words: str


class ProduceAnswer(NamedTuple):
    """A Produce response."""

    throttle_ms: int
    partitions: Mapping[TopicPartition, ProducedPartition]


@dataclass(frozen=True, slots=True)
class ProducerIdQuestion(BrokerQuestion[tuple[int, ProducerId]]):
    """A producer id: Kafka's error, and the id; of a transactional id its next epoch, which fences the ones before."""

    transactional_id: str = ""  # none
    timeout_ms: int = 2**31 - 1  # ``transaction.timeout.ms``
    name, api, version = "InitProducerId", INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION
    may_repeat = False  # it aborts what the id has opened since

    def body(self) -> bytes:
        """InitProducerIdRequest v2."""
        own = compact_string(self.transactional_id) if self.transactional_id else varint(0)
        return own + _INT.pack(self.timeout_ms) + NO_TAGS

    def read(self, frame: Buffer, correlation_id: int) -> tuple[int, ProducerId]:
        """InitProducerIdResponse v2."""
        _, error, producer_id, epoch = response_body(frame, len(frame), correlation_id).unpack(_INIT_HEAD)
        return error, ProducerId(producer_id, epoch)


def produce_request(
    version: int,
    correlation_id: int,
    client_id: str,
    acks: int,
    timeout_ms: int,
    batches: Mapping[TopicPartition, Buffer],
    transactional_id: str = "",
) -> list[Buffer]:
    """The whole request, in pieces: the batches are not copied."""
    flexible = is_flexible(PRODUCE, version)
    by_topic: dict[str, list[tuple[int, Buffer]]] = {}
    for (topic, number), batch in batches.items():
        by_topic.setdefault(topic, []).append((number, batch))
    tags = NO_TAGS if flexible else b""
    no_transaction = varint(0) if flexible else _SHORT.pack(-1)
    transaction = compact_string(transactional_id, flexible=flexible) if transactional_id else no_transaction
    pieces: list[Buffer] = [transaction + _HEAD.pack(acks, timeout_ms) + _count(len(by_topic), flexible)]
    pending = b""  # what comes in front of the next batch
    for topic, entries in by_topic.items():
        pending += compact_string(topic, flexible=flexible) + _count(len(entries), flexible)
        for number, batch in entries:
            size = varint(len(batch) + 1) if flexible else _INT.pack(len(batch))
            pieces += [pending + _INT.pack(number) + size, batch]
            pending = tags
        pending += tags
    pieces.append(pending + tags)
    head = framed(PRODUCE, version, correlation_id, client_id, b"")
    length = len(head) - _INT.size + sum(map(len, pieces))
    return [_INT.pack(length) + head[_INT.size :], *pieces]


def _count(number: int, flexible: bool) -> bytes:
    return compact_array([], flexible=flexible) if not number else varint(number + 1) if flexible else _INT.pack(number)


def produce_answer(frame: Buffer, correlation_id: int, version: int) -> ProduceAnswer:
    """Read a Produce response; ``frame`` begins behind its length.  Raises MalformedResponse."""
    body = response_body(frame, len(frame), correlation_id, is_flexible(PRODUCE, version))
    partitions: dict[TopicPartition, ProducedPartition] = {}
    for _ in range(body.length()):
        topic = body.text()
        partitions |= {TopicPartition(topic, number): result for number, result in body.array(_produced)}
        body.tags()
    (throttle_ms,) = body.unpack(_INT)
    body.tags()
    return ProduceAnswer(throttle_ms, partitions)


def _produced(body: Cursor) -> tuple[int, ProducedPartition]:
    number, error, base_offset, _, _ = body.unpack(_RESULT)
    record_words = body.array(_record_error)
    words = body.text() or next(filter(None, record_words), "")
    body.tags()
    return number, ProducedPartition(error, base_offset, words)


def _record_error(body: Cursor) -> str:
    body.unpack(_INT)  # the record's place in its batch
    words = body.text()
    body.tags()
    return words
