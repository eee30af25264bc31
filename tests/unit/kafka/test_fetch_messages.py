"""Metadata and Fetch as bytes: against Kafka's schemas written down by hand, and against any garbled answer."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.kafka.fetch_messages import (
    FETCH,
    NEEDED,
    NO_ID,
    EpochEnd,
    FetchAnswer,
    FetchedPartition,
    FetchPartition,
    MalformedResponse,
    Metadata,
    Node,
    PartitionLeader,
    Topic,
    address_error,
    epoch_ends_answer,
    epoch_ends_request,
    fetch_answer,
    fetch_request,
    framed,
    leave_group_answer,
    leave_group_request,
    metadata_answer,
    metadata_request,
    varint,
)

ONE, OTHER = bytes(range(16)), bytes(range(16, 32))


def short(number: int) -> bytes:
    """An int16, as the others by their size."""
    return struct.pack(">h", number)


def int_(number: int) -> bytes:
    """An int32."""
    return struct.pack(">i", number)


def long(number: int) -> bytes:
    """An int64."""
    return struct.pack(">q", number)


def test_unsigned_varints() -> None:
    """As KIP-482 has them."""
    assert [varint(number) for number in (0, 1, 127, 128, 300, 2**32 - 1)] == [
        b"\0", b"\1", b"\x7f", b"\x80\1", b"\xac\2", b"\xff\xff\xff\xff\x0f",
    ]  # fmt: skip


def test_a_request_has_a_header_of_version_two() -> None:
    """Length, api key, version, correlation id, client id (not compact), tags."""
    said = short(1) + short(13) + int_(7) + short(3) + b"abc" + b"\0" + b"body"
    assert framed(FETCH, NEEDED[FETCH], 7, "abc", b"body") == int_(len(said)) + said


def test_a_metadata_request() -> None:
    """MetadataRequest v12: topics by name, nothing created, no operations asked for."""
    topics = NO_ID + b"\2a\0" + NO_ID + b"\3\xc3\xbc\0"
    assert metadata_request(["a", "ü"]) == b"\3" + topics + b"\0\0" + b"\0"
    assert metadata_request([]) == b"\1\0\0\0"


def test_a_fetch_request() -> None:
    """FetchRequest v13, field for field; a topic may come more than once, in the order that is wanted."""
    partition = int_(5) + int_(4) + long(2**40) + int_(3) + long(-1) + int_(65_536) + b"\0"
    unknown = int_(6) + int_(-1) + long(0) + int_(-1) + long(-1) + int_(9) + b"\0"
    body = int_(-1) + int_(20) + int_(1) + int_(4 << 20) + b"\1" + int_(77) + int_(2)
    body += b"\4" + ONE + b"\2" + partition + b"\0" + OTHER + b"\2" + unknown + b"\0" + ONE + b"\2" + unknown + b"\0"
    body += b"\2" + OTHER + b"\3" + int_(1) + int_(2) + b"\0"
    body += b"\7rack-1" + b"\0"
    six = {6: FetchPartition(-1, 0, -1, 9)}
    assert body == fetch_request(
        max_wait_ms=20,
        min_bytes=1,
        max_bytes=4 << 20,
        committed=True,
        session=(77, 2),
        wanted=[(ONE, {5: FetchPartition(4, 2**40, 3, 65_536)}), (OTHER, six), (ONE, six)],
        forgotten=[(OTHER, [1, 2])],
        rack="rack-1",
    )


METADATA = b"".join(
    (
        int_(9) + b"\0" + int_(0),  # header, throttle
        b"\3" + int_(1) + b"\2h" + int_(9092) + b"\0\0" + int_(2) + b"\3h2" + int_(9093) + b"\3r2" + b"\0",
        b"\0" + int_(1),  # the cluster's id is null
        b"\3",
        short(0) + b"\2t" + ONE + b"\0" + b"\3",
        short(0) + int_(0) + int_(1) + int_(7) + b"\2" + int_(1) + b"\2" + int_(1) + b"\1" + b"\0",
        short(5) + int_(1) + int_(-1) + int_(-1) + b"\1\1\2" + int_(2) + b"\0",
        int_(-(2**31)) + b"\0",
        short(3) + b"\2u" + NO_ID + b"\0" + b"\1" + int_(0) + b"\0",
        b"\0",
    )
)


def test_a_metadata_answer() -> None:
    """MetadataResponse v12: brokers, leaders with their epochs, topics that are not there."""
    assert metadata_answer(METADATA, len(METADATA), 9) == Metadata(
        {1: Node("h", 9092), 2: Node("h2", 9093)},
        {"t": Topic(0, ONE, {0: PartitionLeader(0, 1, 7), 1: PartitionLeader(5, -1, -1)}), "u": Topic(3, NO_ID, {})},
    )


@pytest.mark.parametrize(
    ("host", "port", "why"),
    [
        (b"evil\0name", 9092, "no host"),
        (b"a b", 9092, "no host"),
        (b"h\x1b[2J", 9092, "no host"),
        ("h\u202e".encode(), 9092, "no host"),
        (b"h" * 256, 9092, "no host"),
        (b"", 9092, "no host"),
        (b"h", 0, "no port"),
        (b"h", -5, "no port"),
        (b"h", 65536, "no port"),
        (b"h" * 50_000, 70_000, "no port"),
    ],
)
def test_a_broker_whose_address_is_none_is_left_out(host: bytes, port: int, why: str) -> None:
    """And named, on one line; the others are there."""
    named = varint(len(host) + 1) + host
    data = METADATA.replace(b"\3h2" + int_(9093), named + int_(port))
    told = metadata_answer(data, len(data), 9)
    assert told.nodes == {1: Node("h", 9092)}
    (words,) = told.unusable
    assert words.startswith("broker 2 is said to be at ")
    assert why in words
    assert words.isprintable()
    assert len(words) < 250


@pytest.mark.parametrize("host", ["h", "kafka-1.example.org", "::1", "2001:db8::1", "bücher.example", "h" * 255])
def test_addresses_that_may_be_some(host: str) -> None:
    """Whether somebody is there, connecting shows."""
    assert [address_error(host, port) for port in (1, 9092, 65535)] == ["", "", ""]


FETCHED = b"".join(
    (
        int_(3) + b"\0" + int_(250) + short(0) + int_(55) + b"\2" + ONE + b"\4",
        int_(0) + short(0) + long(100) + long(90) + long(0),
        b"\2" + long(11) + long(5) + b"\0" + int_(-1) + b"\5data" + b"\0",
        int_(1) + short(1) + long(-1) + long(-1) + long(-1) + b"\0" + int_(2) + b"\0" + b"\0",
        int_(2) + short(0) + long(8) + long(8) + long(0) + b"\1" + int_(-1) + b"\1",
        b"\2" + b"\0\x0d" + int_(4) + long(6) + b"\0" + b"\1\2xy",
        b"\0\0",
    )
)


def test_a_fetch_answer() -> None:
    """FetchResponse v13: batches by their place, null and empty arrays, an error, the tag of a diverging epoch."""
    at = FETCHED.index(b"data")
    answer = fetch_answer(FETCHED, len(FETCHED), 3)
    ends = [one._replace(start=0, end=one.end - one.start) for one in answer.partitions]
    assert answer.partitions[0].start == at
    assert answer == FetchAnswer(250, 0, 55, answer.partitions)
    assert ends == [
        FetchedPartition(ONE, 0, 0, 100, 90, [(11, 5)], -1, 0, 4, False),
        FetchedPartition(ONE, 1, 1, -1, -1, [], 2, 0, 0, False),
        FetchedPartition(ONE, 2, 0, 8, 8, [], -1, 0, 0, True),
    ]


def test_a_question_where_epochs_end() -> None:
    """OffsetForLeaderEpochRequest v4: as a consumer, the leader's own epoch before the one that is asked about."""
    body = (
        int_(-1)
        + b"\3"
        + b"\2a"
        + b"\3"
        + int_(0)
        + int_(7)
        + int_(3)
        + b"\0"
        + int_(5)
        + int_(8)
        + int_(6)
        + b"\0"
        + b"\0"
    )
    body += b"\2b" + b"\2" + int_(1) + int_(2) + int_(1) + b"\0" + b"\0" + b"\0"
    assert epoch_ends_request({"a": {0: (7, 3), 5: (8, 6)}, "b": {1: (2, 1)}}) == body


EPOCHS_END = b"".join(
    (
        int_(4) + b"\0" + int_(0) + b"\3",
        b"\2a" + b"\3" + short(0) + int_(0) + int_(2) + long(60) + b"\0",
        short(74) + int_(5) + int_(-1) + long(-1) + b"\0" + b"\0",
        b"\2b" + b"\1" + b"\0",
        b"\0",
    )
)


def test_where_epochs_end() -> None:
    """OffsetForLeaderEpochResponse v4."""
    assert epoch_ends_answer(EPOCHS_END, len(EPOCHS_END), 4) == {
        ("a", 0): EpochEnd(0, 2, 60),
        ("a", 5): EpochEnd(74, -1, -1),
    }


def test_a_leave_group_request() -> None:
    """LeaveGroupRequest v4: each member by its id and its instance id."""
    assert leave_group_request("g", {"m": "i"}) == b"\2g" + b"\2" + b"\2m" + b"\2i" + b"\0" + b"\0"


LEFT = (
    int_(5)
    + b"\0"
    + int_(0)
    + short(0)
    + b"\3"
    + b"\2m"
    + b"\2i"
    + short(0)
    + b"\0"
    + b"\2n"
    + b"\0"
    + short(25)
    + b"\0\0"
)


def test_a_leave_group_answer() -> None:
    """LeaveGroupResponse v4: the error of all, and of each; one has no instance id."""
    assert leave_group_answer(LEFT, len(LEFT), 5) == {"": 0, "m": 0, "n": 25}


READERS: list[tuple[Callable[..., Any], bytes, int]] = [
    (metadata_answer, METADATA, 9),
    (fetch_answer, FETCHED, 3),
    (epoch_ends_answer, EPOCHS_END, 4),
    (leave_group_answer, LEFT, 5),
]


@pytest.mark.parametrize(("read", "data", "number"), READERS)
def test_every_answer_that_is_cut_short(read: Callable[..., Any], data: bytes, number: int) -> None:
    """At any byte, also when the buffer is longer than the answer; and the answer to another request."""
    for size in range(len(data) - 1):  # the last byte counts the tags, of which there are none
        with pytest.raises(MalformedResponse):
            read(data, size, number)
    with pytest.raises(MalformedResponse, match="request"):
        read(data, len(data), number + 1)


@pytest.mark.parametrize(("read", "data", "number"), READERS)
@given(changes=st.lists(st.tuples(st.integers(4, 200), st.integers(0, 255)), min_size=1, max_size=4))
def test_every_garbled_answer(
    read: Callable[..., Any], data: bytes, number: int, changes: list[tuple[int, int]]
) -> None:
    """It is read, or it is a MalformedResponse; what is said to be records lies in the answer."""
    garbled = bytearray(data)
    for at, byte in changes:
        garbled[4 + at % (len(data) - 4)] = byte
    try:
        answer = read(memoryview(garbled), len(garbled), number)
    except MalformedResponse:
        return
    if isinstance(answer, FetchAnswer):
        assert all(0 <= one.start <= one.end <= len(garbled) for one in answer.partitions)


@given(data=st.binary(max_size=80))
def test_noise(data: bytes) -> None:
    """Anything behind the right number."""
    for read, _, number in READERS:
        try:
            read(int_(number) + data, 4 + len(data), number)
        except MalformedResponse:
            continue


def test_a_tag_that_is_too_short() -> None:
    """A diverging epoch of no bytes at the very end of the answer."""
    begin = int_(3) + b"\0" + int_(0) + short(0) + int_(0) + b"\2" + ONE + b"\2"
    partition = int_(0) + short(0) + long(1) * 3 + b"\1" + int_(-1) + b"\1"
    data = begin + partition + b"\1\0\0"
    with pytest.raises(MalformedResponse):
        fetch_answer(data, len(data), 3)
