"""Requests about transactions as bytes: one class for each of Kafka's, in the version before KIP-890's (``transaction.version`` 1).

Brokers of either version take these; a transaction has its own epoch anyhow, since InitProducerId begins each.
Layouts: Kafka's ``AddPartitionsToTxnRequest.json`` and the like, and their responses.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from sparkcohort.runtime.kafka.cluster_messages import BrokerQuestion
from sparkcohort.runtime.kafka.decision import SinkTransaction
from sparkcohort.runtime.kafka.fetch_messages import (
    NO_TAGS,
    Cursor,
    MalformedResponse,
    compact_array,
    compact_string,
    response_body,
)
from sparkcohort.runtime.kafka.produce_messages import Buffer, ProducerId
from sparkcohort.runtime.protocol.partitions import TopicPartition

ADD_PARTITIONS, END_TXN, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 24, 26, 65, 66
ONGOING: Final = "Ongoing"

_INT = struct.Struct(">i")
_PRODUCER, _HEAD = struct.Struct(">qh"), struct.Struct(">ih")
_PARTITION_RESULT, _TRANSACTION = struct.Struct(">ih"), struct.Struct(">iqqh")
_SHORT, _LONG = struct.Struct(">h"), struct.Struct(">q")


class TransactionState(NamedTuple):
    """A transaction as its coordinator describes it; times in ms, ``started_ms`` of the broker's clock, -1 where none is open."""

    error: int
    transaction: SinkTransaction
    state: str
    timeout_ms: int
    started_ms: int
    partitions: frozenset[TopicPartition]


class ListedTransactions(NamedTuple):
    """The ids of open transactions that a broker coordinates."""

    error: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AddPartitionsQuestion(BrokerQuestion[int]):
    """Make partitions part of a transaction; for its coordinator.  The answer is the first error."""

    transaction: SinkTransaction
    partitions: Collection[TopicPartition]
    name, api, version = "AddPartitionsToTxn", ADD_PARTITIONS, 3

    def body(self) -> bytes:
        """AddPartitionsToTxnRequest v3."""
        topics: dict[str, list[bytes]] = {}
        for topic, number in self.partitions:
            topics.setdefault(topic, []).append(_INT.pack(number))
        entries = [compact_string(topic) + compact_array(numbers) + NO_TAGS for topic, numbers in topics.items()]
        return (
            compact_string(self.transaction.name)
            + _PRODUCER.pack(*self.transaction.producer)
            + compact_array(entries)
            + NO_TAGS
        )

    def read(self, frame: Buffer, correlation_id: int) -> int:
        """AddPartitionsToTxnResponse v3."""
        body = response_body(frame, len(frame), correlation_id)
        body.unpack(_INT)  # for how long the client is throttled
        return next(filter(None, chain.from_iterable(body.array(_added))), 0)


def _added(body: Cursor) -> list[int]:
    body.text()
    errors = body.array(_partition_error)
    body.tags()
    return errors


def _partition_error(body: Cursor) -> int:
    _, error = body.unpack(_PARTITION_RESULT)
    body.tags()
    return error


@dataclass(frozen=True, slots=True)
class EndQuestion(BrokerQuestion[int]):
    """Commit or abort a transaction; for its coordinator.  The answer is Kafka's error."""

    transaction: SinkTransaction
    commit: bool
    name, api, version = "EndTxn", END_TXN, 3

    def body(self) -> bytes:
        """EndTxnRequest v3."""
        commit = bytes([self.commit])
        return compact_string(self.transaction.name) + _PRODUCER.pack(*self.transaction.producer) + commit + NO_TAGS

    def read(self, frame: Buffer, correlation_id: int) -> int:
        """EndTxnResponse v3."""
        _, error = response_body(frame, len(frame), correlation_id).unpack(_HEAD)
        return error


@dataclass(frozen=True, slots=True)
class TransactionQuestion(BrokerQuestion[TransactionState]):
    """The state of a transaction; for its coordinator."""

    transactional_id: str
    name, api, version = "DescribeTransactions", DESCRIBE_TRANSACTIONS, 0

    def body(self) -> bytes:
        """DescribeTransactionsRequest v0."""
        return compact_array([compact_string(self.transactional_id)]) + NO_TAGS

    def read(self, frame: Buffer, correlation_id: int) -> TransactionState:
        """DescribeTransactionsResponse v0."""
        body = response_body(frame, len(frame), correlation_id)
        body.unpack(_INT)
        states = body.array(_described)
        if len(states) != 1:
            raise MalformedResponse(f"the answer has {len(states)} transactions, and one was asked for")
        return states[0]


def _described(body: Cursor) -> TransactionState:
    (error,) = body.unpack(_SHORT)
    name, state = body.text(), body.text()
    timeout_ms, started_ms, producer_id, epoch = body.unpack(_TRANSACTION)
    partitions = frozenset(chain.from_iterable(body.array(_partitions)))
    body.tags()
    transaction = SinkTransaction(name, ProducerId(producer_id, epoch))
    return TransactionState(error, transaction, state, timeout_ms, started_ms, partitions)


def _partitions(body: Cursor) -> list[TopicPartition]:
    topic = body.text()
    partitions = [TopicPartition(topic, number) for (number,) in body.array(lambda body: body.unpack(_INT))]
    body.tags()
    return partitions


@dataclass(frozen=True, slots=True)
class OpenTransactionsQuestion(BrokerQuestion[ListedTransactions]):
    """The open transactions that a broker coordinates, of all ids that this user may describe."""

    name, api, version = "ListTransactions", LIST_TRANSACTIONS, 0

    def body(self) -> bytes:
        """ListTransactionsRequest v0."""
        return compact_array([compact_string(ONGOING)]) + compact_array([]) + NO_TAGS

    def read(self, frame: Buffer, correlation_id: int) -> ListedTransactions:
        """ListTransactionsResponse v0."""
        body = response_body(frame, len(frame), correlation_id)
        _, error = body.unpack(_HEAD)
        body.array(Cursor.text)  # states that the broker doesn't know
        return ListedTransactions(error, tuple(body.array(_listed)))


def _listed(body: Cursor) -> str:
    name = body.text()
    body.unpack(_LONG)  # the producer's id
    body.text()  # the state
    body.tags()
    return name
