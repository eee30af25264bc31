"""Metadata and Fetch as bytes: against Kafka's schemas written down by hand, and against any garbled answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.kafka.fetch_messages import (
    FETCH,
    FETCH_VERSION,
    METADATA_VERSION,
    NO_ID,
    FetchAnswer,
    FetchedPartition,
    FetchPartition,
    MalformedResponse,
    Metadata,
    Node,
    PartitionLeader,
    Request,
    Topic,
    address_error,
    best_version,
    fetch_answer,
    fetch_request,
    framed,
    metadata_answer,
    metadata_request,
    varint,
)
from tests.kit.packed import int16, int32, int64

ONE, OTHER = bytes(range(16)), bytes(range(16, 32))


def test_unsigned_varints() -> None:
    """As KIP-482 has them."""
    assert [varint(number) for number in (0, 1, 127, 128, 300, 2**32 - 1)] == [
        b"\0", b"\1", b"\x7f", b"\x80\1", b"\xac\2", b"\xff\xff\xff\xff\x0f",
    ]  # fmt: skip


def test_a_request_has_a_header_of_version_two() -> None:
    """Length, api key, version, correlation id, client id (not compact), tags."""
    said = int16(1) + int16(13) + int32(7) + int16(3) + b"abc" + b"\0" + b"body"
    assert framed(FETCH, FETCH_VERSION, 7, "abc", b"body") == int32(len(said)) + said


def test_a_request_before_flexible_versions_has_no_tags() -> None:
    """Header v1."""
    header = int16(1) + int16(11) + int32(7) + int16(3) + b"abc"
    assert framed(FETCH, 11, 7, "abc", b"body") == int32(len(header) + 4) + header + b"body"


@pytest.mark.parametrize(
    ("spoken", "metadata", "fetch"),
    [
        ({1: (4, 17), 3: (0, 13)}, 12, 13),
        ({1: (0, 12), 3: (0, 11)}, 7, 12),  # Kafka 2.8
        ({1: (0, 11), 3: (0, 9)}, 7, 11),  # Kafka 2.4
        ({1: (0, 10), 3: (0, 7)}, 7, None),
        ({1: (14, 20), 3: (13, 14)}, None, None),
        ({}, None, None),
    ],
)
def test_the_best_version_that_a_broker_speaks(
    spoken: dict[int, tuple[int, int]], metadata: int | None, fetch: int | None
) -> None:
    """By ids where it has them, else by names."""
    assert (best_version(3, spoken), best_version(FETCH, spoken)) == (metadata, fetch)


def test_a_metadata_request() -> None:
    """MetadataRequest v12: topics by name, nothing created, no operations asked for."""
    topics = NO_ID + b"\2a\0" + NO_ID + b"\3\xc3\xbc\0"
    assert metadata_request(["a", "ü"]) == b"\3" + topics + b"\0\0" + b"\0"
    assert metadata_request([]) == b"\1\0\0\0"
    assert metadata_request(None) == b"\0\0\0\0"


def test_a_fetch_request() -> None:
    """FetchRequest v13, field for field; a topic may come more than once, in the order that is wanted."""
    partition = int32(5) + int32(4) + int64(2**40) + int32(3) + int64(-1) + int32(65_536) + b"\0"
    unknown = int32(6) + int32(-1) + int64(0) + int32(-1) + int64(-1) + int32(9) + b"\0"
    body = int32(-1) + int32(20) + int32(1) + int32(4 << 20) + b"\1" + int32(77) + int32(2)
    body += b"\4" + ONE + b"\2" + partition + b"\0" + OTHER + b"\2" + unknown + b"\0" + ONE + b"\2" + unknown + b"\0"
    body += b"\2" + OTHER + b"\3" + int32(1) + int32(2) + b"\0"
    body += b"\7rack-1" + b"\0"
    six = FetchPartition(-1, 0, -1, 9)
    partitions = {(ONE, 5): FetchPartition(4, 2**40, 3, 65_536), (OTHER, 6): six, (ONE, 6): six}
    request = Request((77, 2), partitions, frozenset({(OTHER, 2), (OTHER, 1)}))
    limits = {"max_wait_ms": 20, "min_bytes": 1, "max_bytes": 4 << 20}
    assert body == fetch_request(request, **limits, committed=True, rack="rack-1")


def test_a_metadata_request_of_brokers_without_ids() -> None:
    """MetadataRequest v7: strings and arrays as before KIP-482."""
    assert metadata_request(["a", "ü"], 7) == int32(2) + int16(1) + b"a" + int16(2) + b"\xc3\xbc" + b"\0"


@pytest.mark.parametrize("version", [12, 11])
def test_a_fetch_request_by_names(version: int) -> None:
    """FetchRequest v12 is v13 but for the names; v11 has no epoch of the last record, no tags and longer lengths."""
    tags, flexible = (b"\0", True) if version == 12 else (b"", False)
    name = b"\2t" if flexible else int16(1) + b"t"
    one = b"\2" if flexible else int32(1)
    last = int32(3) if flexible else b""
    partition = int32(5) + int32(4) + int64(2**40) + last + int64(-1) + int32(65_536) + tags
    body = int32(-1) + int32(20) + int32(1) + int32(4 << 20) + b"\0" + int32(77) + int32(2)
    body += one + name + one + partition + tags
    body += one + name + one + int32(1) + tags
    body += (b"\1" if flexible else int16(0)) + tags
    request = Request((77, 2), {(b"t", 5): FetchPartition(4, 2**40, 3, 65_536)}, frozenset({(b"t", 1)}))
    limits = {"max_wait_ms": 20, "min_bytes": 1, "max_bytes": 4 << 20}
    assert body == fetch_request(request, **limits, committed=False, rack="", version=version)


METADATA = b"".join(
    (
        int32(9) + b"\0" + int32(0),  # header, throttle
        b"\3" + int32(1) + b"\2h" + int32(9092) + b"\0\0" + int32(2) + b"\3h2" + int32(9093) + b"\3r2" + b"\0",
        b"\0" + int32(1),  # the cluster's id is null
        b"\3",
        int16(0) + b"\2t" + ONE + b"\0" + b"\3",
        int16(0) + int32(0) + int32(1) + int32(7) + b"\2" + int32(1) + b"\2" + int32(1) + b"\1" + b"\0",
        int16(5) + int32(1) + int32(-1) + int32(-1) + b"\1\1\2" + int32(2) + b"\0",
        int32(-(2**31)) + b"\0",
        int16(3) + b"\2u" + NO_ID + b"\0" + b"\1" + int32(0) + b"\0",
        b"\0",
    )
)


METADATA_7 = b"".join(
    (
        int32(9) + int32(0),  # header, throttle
        int32(2) + int32(1) + int16(1) + b"h" + int32(9092) + int16(-1),
        int32(2) + int16(2) + b"h2" + int32(9093) + int16(2) + b"r2",
        int16(-1) + int32(1),  # the cluster's id is null
        int32(2) + int16(0) + int16(1) + b"t" + b"\0" + int32(2),
        int16(0) + int32(0) + int32(1) + int32(7) + int32(1) + int32(1) + int32(1) + int32(1) + int32(0),
        int16(5) + int32(1) + int32(-1) + int32(-1) + int32(0) + int32(0) + int32(1) + int32(2),
        int16(3) + int16(1) + b"u" + b"\0" + int32(0),
    )
)


read_metadata_7 = partial(metadata_answer, version=7)


@pytest.mark.parametrize(
    ("read", "data", "topic_id"), [(metadata_answer, METADATA, ONE), (read_metadata_7, METADATA_7, NO_ID)]
)
def test_a_metadata_answer(read: Callable[..., Metadata], data: bytes, topic_id: bytes) -> None:
    """MetadataResponse v12, and v7, which has no ids."""
    assert METADATA_VERSION == 12
    assert read(data, len(data), 9) == Metadata(
        {1: Node("h", 9092), 2: Node("h2", 9093)},
        {
            "t": Topic(0, topic_id, {0: PartitionLeader(0, 1, 7, (1,)), 1: PartitionLeader(5, -1, -1)}),
            "u": Topic(3, NO_ID, {}),
        },
        racks={2: "r2"},
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
    data = METADATA.replace(b"\3h2" + int32(9093), named + int32(port))
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
        int32(3) + b"\0" + int32(250) + int16(0) + int32(55) + b"\2" + ONE + b"\4",
        int32(0) + int16(0) + int64(100) + int64(90) + int64(0),
        b"\2" + int64(11) + int64(5) + b"\0" + int32(-1) + b"\5data" + b"\0",
        int32(1) + int16(1) + int64(-1) + int64(-1) + int64(-1) + b"\0" + int32(2) + b"\0" + b"\0",
        int32(2) + int16(0) + int64(8) + int64(8) + int64(0) + b"\1" + int32(-1) + b"\1",
        b"\2" + b"\0\x0d" + int32(0) + int64(6) + b"\0" + b"\1\2xy",
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


FETCHED_12 = FETCHED.replace(ONE, b"\2t")
FETCHED_11 = b"".join(
    (
        int32(3) + int32(250) + int16(0) + int32(55) + int32(1) + int16(1) + b"t" + int32(3),
        int32(0) + int16(0) + int64(100) + int64(90) + int64(0),
        int32(1) + int64(11) + int64(5) + int32(-1) + int32(4) + b"data",
        int32(1) + int16(1) + int64(-1) + int64(-1) + int64(-1) + int32(-1) + int32(2) + int32(-1),
        int32(2) + int16(0) + int64(8) + int64(8) + int64(0) + int32(0) + int32(-1) + int32(0),
    )
)


read_fetched_12, read_fetched_11 = partial(fetch_answer, version=12), partial(fetch_answer, version=11)


@pytest.mark.parametrize(
    ("read", "data", "diverged"), [(read_fetched_12, FETCHED_12, True), (read_fetched_11, FETCHED_11, False)]
)
def test_a_fetch_answer_by_names(read: Callable[..., FetchAnswer], data: bytes, diverged: bool) -> None:
    """The same as by ids; v11 can't tell of a diverging epoch."""
    answer = read(data, len(data), 3)
    assert (answer.throttle_ms, answer.error, answer.session_id) == (250, 0, 55)
    assert answer.partitions[0].start == data.index(b"data")
    assert [one._replace(start=0, end=one.end - one.start) for one in answer.partitions] == [
        FetchedPartition(b"t", 0, 0, 100, 90, [(11, 5)], -1, 0, 4, False),
        FetchedPartition(b"t", 1, 1, -1, -1, [], 2, 0, 0, False),
        FetchedPartition(b"t", 2, 0, 8, 8, [], -1, 0, 0, diverged),
    ]


READERS: list[tuple[Callable[..., Any], bytes, int]] = [
    (metadata_answer, METADATA, 9),
    (fetch_answer, FETCHED, 3),
    (read_metadata_7, METADATA_7, 9),
    (read_fetched_12, FETCHED_12, 3),
    (read_fetched_11, FETCHED_11, 3),
]


@pytest.mark.parametrize(("read", "data", "number"), READERS)
def test_every_answer_that_is_cut_short(read: Callable[..., Any], data: bytes, number: int) -> None:
    """At any byte, also when the buffer is longer than the answer; and the answer to another request."""
    for size in range(len(data) - 1):  # the last byte of flexible versions counts the tags, of which there are none
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


def test_a_tag_that_is_too_short() -> None:
    """A diverging epoch of no bytes at the very end of the answer."""
    begin = int32(3) + b"\0" + int32(0) + int16(0) + int32(0) + b"\2" + ONE + b"\2"
    partition = int32(0) + int16(0) + int64(1) * 3 + b"\1" + int32(-1) + b"\1"
    data = begin + partition + b"\1\0\0"
    with pytest.raises(MalformedResponse):
        fetch_answer(data, len(data), 3)
