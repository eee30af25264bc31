"""Produce and InitProducerId as bytes: against Kafka's schemas written down by hand, and against any garbled answer."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.kafka.fetch_messages import MalformedResponse, varint
from sparkcohort.runtime.kafka.produce_messages import (
    Buffer,
    ProduceAnswer,
    ProducedPartition,
    ProducerId,
    ProducerIdQuestion,
    produce_answer,
    produce_request,
)
from sparkcohort.runtime.protocol.partitions import TopicPartition
from tests.kit.packed import int16, int32, int64

BATCHES: dict[TopicPartition, Buffer] = {
    TopicPartition("a", 0): b"first",
    TopicPartition("bc", 1): bytearray(b"other"),
    TopicPartition("a", 3): memoryview(b"x" * 300),
}


def test_a_flexible_request() -> None:
    """ProduceRequest v9: no transaction, acks, time-out; topics with their partitions' batches."""
    header = int16(0) + int16(9) + int32(7) + int16(2) + b"me" + b"\0"
    first = b"\2a\3" + int32(0) + b"\6first\0" + int32(3) + varint(301) + b"x" * 300 + b"\0\0"
    other = b"\3bc\2" + int32(1) + b"\6other\0\0"
    body = b"\0" + int16(-1) + int32(1500) + b"\3" + first + other + b"\0"
    request = b"".join(produce_request(9, 7, "me", -1, 1500, BATCHES))
    assert request == int32(len(header + body)) + header + body


def test_an_older_request() -> None:
    """ProduceRequest v8: lengths of two and four bytes, no tags."""
    header = int16(0) + int16(8) + int32(7) + int16(2) + b"me"
    first = int16(1) + b"a" + int32(2) + int32(0) + int32(5) + b"first" + int32(3) + int32(300) + b"x" * 300
    other = int16(2) + b"bc" + int32(1) + int32(1) + int32(5) + b"other"
    body = int16(-1) + int16(1) + int32(1500) + int32(2) + first + other
    request = b"".join(produce_request(8, 7, "me", 1, 1500, BATCHES))
    assert request == int32(len(header + body)) + header + body


def _result(number: int, error: int, offset: int) -> bytes:
    return int32(number) + int16(error) + int64(offset) + int64(-1) + int64(0)


FLEXIBLE = (
    int32(7) + b"\0" + b"\2\2a\3" + _result(0, 0, 42) + b"\1\0\0" + _result(3, 87, -1) + b"\2" + int32(5) + b"\4bad\0" + b"\0\0"
    + b"\0" + int32(250) + b"\0"
)  # fmt: skip
OLDER = (
    int32(7) + int32(1) + int16(1) + b"a" + int32(2) + _result(0, 0, 42) + int32(0) + int16(-1)
    + _result(3, 87, -1) + int32(1) + int32(5) + int16(3) + b"bad" + int16(-1) + int32(250)
)  # fmt: skip
ANSWER = ProduceAnswer(
    250,
    {TopicPartition("a", 0): ProducedPartition(0, 42, ""), TopicPartition("a", 3): ProducedPartition(87, -1, "bad")},
)


@pytest.mark.parametrize(("version", "frame"), [(9, FLEXIBLE), (8, OLDER)])
def test_an_answer(version: int, frame: bytes) -> None:
    """ProduceResponse, with the words of a record's error."""
    assert produce_answer(frame, 7, version) == ANSWER
    for end in range(len(frame)):
        with pytest.raises(MalformedResponse):
            produce_answer(frame[:end], 7, version)


@given(garbage=st.binary(max_size=80), version=st.sampled_from((8, 9)))
def test_a_garbled_answer_is_read_or_refused(garbage: bytes, version: int) -> None:
    """Nothing else happens."""
    with contextlib.suppress(MalformedResponse):
        produce_answer(int32(7) + garbage, 7, version)


def test_a_producer_id() -> None:
    """InitProducerId v2, without a transaction."""
    question = ProducerIdQuestion()
    assert question.body() == b"\0" + int32(2**31 - 1) + b"\0"
    assert question.read(int32(7) + b"\0" + int32(0) + int16(0) + int64(4000) + int16(2) + b"\0", 7) == (
        0,
        ProducerId(4000, 2),
    )
