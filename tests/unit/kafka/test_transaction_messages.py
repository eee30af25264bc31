"""What is asked about transactions, as bytes: against Kafka's schemas written down by hand, and any garbled answer."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.kafka.cluster_messages import AnyQuestion, CoordinatorQuestion
from sparkcohort.runtime.kafka.decision import SinkTransaction
from sparkcohort.runtime.kafka.fetch_messages import MalformedResponse
from sparkcohort.runtime.kafka.produce_messages import ProducerId, ProducerIdQuestion, produce_request
from sparkcohort.runtime.kafka.transaction_messages import (
    AddPartitionsQuestion,
    EndQuestion,
    ListedTransactions,
    OpenTransactionsQuestion,
    TransactionQuestion,
    TransactionState,
)
from sparkcohort.runtime.protocol.partitions import TopicPartition
from tests.kit.packed import int16, int32, int64

OPEN = SinkTransaction("s/1", ProducerId(7, 3))
OWN = b"\4s/1" + int64(7) + int16(3)


def test_a_coordinator_of_transactions() -> None:
    """FindCoordinatorRequest v3 with key type 1."""
    assert CoordinatorQuestion("s", is_transaction=True).body() == b"\2s" + b"\1" + b"\0"


def test_an_epoch() -> None:
    """InitProducerIdRequest v2 with a transactional id, and without."""
    assert ProducerIdQuestion("s", 60_000).body() == b"\2s" + int32(60_000) + b"\0"
    assert ProducerIdQuestion().body() == b"\0" + int32(2**31 - 1) + b"\0"


ADDED = b"".join(
    (
        int32(1) + b"\0" + int32(0) + b"\3",
        b"\2a" + b"\3" + int32(0) + int16(0) + b"\0" + int32(5) + int16(0) + b"\0" + b"\0",
        b"\2b" + b"\2" + int32(1) + int16(53) + b"\0" + b"\0",
        b"\0",
    )
)


def test_partitions_of_a_transaction() -> None:
    """AddPartitionsToTxnRequest and -Response v3: one error is the answer's."""
    partitions = [TopicPartition("a", 0), TopicPartition("b", 1), TopicPartition("a", 5)]
    a = b"\2a" + b"\3" + int32(0) + int32(5) + b"\0"
    b = b"\2b" + b"\2" + int32(1) + b"\0"
    assert AddPartitionsQuestion(OPEN, partitions).body() == OWN + b"\3" + a + b + b"\0"
    assert AddPartitionsQuestion(OPEN, partitions).read(ADDED, 1) == 53


ENDED = int32(2) + b"\0" + int32(0) + int16(51) + b"\0"


def test_the_end_of_a_transaction() -> None:
    """EndTxnRequest and -Response v3."""
    assert EndQuestion(OPEN, commit=True).body() == OWN + b"\1" + b"\0"
    assert EndQuestion(OPEN, commit=False).body() == OWN + b"\0" + b"\0"
    assert EndQuestion(OPEN, commit=True).read(ENDED, 2) == 51


DESCRIBED = b"".join(
    (
        int32(3) + b"\0" + int32(0) + b"\2" + int16(0) + b"\4s/1" + b"\x08Ongoing",
        int32(60_000) + int64(1_234) + int64(7) + int16(3),
        b"\2" + b"\2t" + b"\3" + int32(0) + int32(2) + b"\0",
        b"\0" + b"\0",
    )
)


def test_the_state_of_a_transaction() -> None:
    """DescribeTransactionsRequest and -Response v0."""
    assert TransactionQuestion("s/1").body() == b"\2" + b"\4s/1" + b"\0"
    partitions = frozenset({TopicPartition("t", 0), TopicPartition("t", 2)})
    assert TransactionQuestion("s/1").read(DESCRIBED, 3) == TransactionState(
        0, OPEN, "Ongoing", 60_000, 1_234, partitions
    )


LISTED = b"".join(
    (
        int32(4) + b"\0" + int32(0) + int16(0) + b"\1" + b"\3",
        b"\4s/1" + int64(7) + b"\x08Ongoing" + b"\0",
        b"\2u" + int64(8) + b"\x08Ongoing" + b"\0",
        b"\0",
    )
)


def test_open_transactions() -> None:
    """ListTransactionsRequest and -Response v0, of those that are open."""
    assert OpenTransactionsQuestion().body() == b"\2" + b"\x08Ongoing" + b"\1" + b"\0"
    assert OpenTransactionsQuestion().read(LISTED, 4) == ListedTransactions(0, ("s/1", "u"))


@pytest.mark.parametrize("version", [8, 9])
def test_batches_of_a_transaction(version: int) -> None:
    """ProduceRequest with the transactional id, flexible and before."""
    name = b"\4s/1" if version == 9 else int16(3) + b"s/1"
    pieces = produce_request(version, 1, "c", -1, 30_000, {TopicPartition("t", 0): b"batch"}, "s/1")
    assert name + int16(-1) + int32(30_000) in b"".join(bytes(piece) for piece in pieces)


ANSWERS: list[tuple[AnyQuestion, bytes]] = [
    (AddPartitionsQuestion(OPEN, []), ADDED),
    (EndQuestion(OPEN, commit=True), ENDED),
    (TransactionQuestion("s/1"), DESCRIBED),
    (OpenTransactionsQuestion(), LISTED),
]


@pytest.mark.parametrize(("question", "answer"), ANSWERS, ids=lambda each: getattr(each, "name", ""))
@given(cut=st.integers(0, 60), place=st.integers(4, 60), byte=st.integers(0, 255))
def test_a_garbled_answer(question: AnyQuestion, answer: bytes, cut: int, place: int, byte: int) -> None:
    """Cut short, or with another byte: it is read, or it can't be."""
    changed = bytearray(answer)
    if place < len(changed):
        changed[place] = byte
    for garbled in (bytes(changed), bytes(changed)[: max(len(changed) - cut, 4)]):
        with suppress(MalformedResponse):
            question.read(garbled, int.from_bytes(answer[:4]))


def test_a_state_that_is_none() -> None:
    """An answer without any."""
    with pytest.raises(MalformedResponse, match="0 transactions"):
        TransactionQuestion("s/1").read(int32(3) + b"\0" + int32(0) + b"\1" + b"\0", 3)
