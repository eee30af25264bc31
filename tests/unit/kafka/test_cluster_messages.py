"""What a cluster is asked besides records, as bytes: against Kafka's schemas written down by hand, and any garbled answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.kafka.cluster_messages import (
    AnyQuestion,
    CoordinatorAddress,
    CoordinatorQuestion,
    DescribedMember,
    EpochEnd,
    EpochEndsQuestion,
    GroupDescription,
    GroupQuestion,
    LeaveQuestion,
    ListedOffset,
    MetadataQuestion,
    OffsetsQuestion,
    topic_ids,
)
from sparkcohort.runtime.kafka.fetch_messages import NO_ID, MalformedResponse, Metadata, Node, Topic, metadata_request
from sparkcohort.runtime.protocol.offsets_json import LATEST
from sparkcohort.runtime.protocol.partitions import TopicPartition
from tests.kit.packed import int16, int32, int64


def test_a_question_for_metadata() -> None:
    """Topics in order, whatever they came in; None are all."""
    assert MetadataQuestion({"b", "a"}).body() == metadata_request(["a", "b"])
    assert MetadataQuestion(None).body() == metadata_request(None)


def test_topics_ids() -> None:
    """As Kafka's tools show them; those that have none are left out."""
    topics = {"t": Topic(0, bytes.fromhex("963ed7add1814877bedbf61b71c93cd3"), {}), "u": Topic(3, NO_ID, {})}
    assert topic_ids(Metadata({}, topics)) == {"t": "lj7XrdGBSHe-2_Ybcck80w"}


def test_a_question_for_offsets() -> None:
    """ListOffsetsRequest v6: as a consumer, the isolation level, and no epoch of the leader's."""
    specs = {TopicPartition("a", 0): LATEST, TopicPartition("b", 1): 7, TopicPartition("a", 5): -2}
    a = b"\2a" + b"\3" + int32(0) + int32(-1) + int64(-1) + b"\0" + int32(5) + int32(-1) + int64(-2) + b"\0" + b"\0"
    b = b"\2b" + b"\2" + int32(1) + int32(-1) + int64(7) + b"\0" + b"\0"
    assert OffsetsQuestion(specs, committed=True).body() == int32(-1) + b"\1" + b"\3" + a + b + b"\0"
    assert OffsetsQuestion({}, committed=False).body() == int32(-1) + b"\0" + b"\1" + b"\0"


OFFSETS = b"".join(
    (
        int32(6) + b"\0" + int32(0) + b"\2" + b"\2a" + b"\3",
        int32(0) + int16(0) + int64(-1) + int64(60) + int32(2) + b"\0",
        int32(5) + int16(6) + int64(-1) + int64(-1) + int32(-1) + b"\0",
        b"\0" + b"\0",
    )
)


def test_offsets() -> None:
    """ListOffsetsResponse v6."""
    assert OffsetsQuestion({}, committed=False).read(OFFSETS, 6) == {
        ("a", 0): ListedOffset(0, 60, 2),
        ("a", 5): ListedOffset(6, -1, -1),
    }


COORDINATOR = int32(7) + b"\0" + int32(0) + int16(0) + b"\0" + int32(3) + b"\2h" + int32(9092) + b"\0"


def test_a_groups_coordinator() -> None:
    """FindCoordinatorRequest and -Response v3."""
    assert CoordinatorQuestion("g").body() == b"\2g" + b"\0" + b"\0"
    assert CoordinatorQuestion("g").read(COORDINATOR, 7) == CoordinatorAddress(0, Node("h", 9092))


ASSIGNMENT = int16(1) + int32(1) + int16(1) + b"t" + int32(1) + int32(3) + int32(-1)
GROUP = b"".join(
    (
        int32(8) + b"\0" + int32(0) + b"\2" + int16(0) + b"\2g" + b"\7Stable" + b"\1" + b"\1" + b"\3",
        b"\2m" + b"\2i" + b"\2c" + b"\3/h" + b"\2x" + bytes([len(ASSIGNMENT) + 1]) + ASSIGNMENT + b"\0",
        b"\2n" + b"\0" + b"\2d" + b"\3/k" + b"\1" + b"\1" + b"\0",
        int32(-(2**31)) + b"\0" + b"\0",
    )
)


def test_a_group() -> None:
    """DescribeGroupsRequest and -Response v5: dynamic members have no instance id, those without assignment no partitions."""
    assert GroupQuestion("g").body() == b"\2" + b"\2g" + b"\0" + b"\0"
    members = (
        DescribedMember("m", "i", "c", "/h", frozenset({TopicPartition("t", 3)})),
        DescribedMember("n", "", "d", "/k", frozenset()),
    )
    assert GroupQuestion("g").read(GROUP, 8) == GroupDescription(0, "Stable", members)
    known = [GroupDescription(*each, ()).is_memberless for each in ((0, "Empty"), (0, "Dead"), (15, ""), (0, "Stable"))]
    assert known == [True, True, False, False]


def test_a_question_where_epochs_end() -> None:
    """OffsetForLeaderEpochRequest v4: as a consumer, the leader's own epoch before the one that is asked about."""
    a = b"\2a" + b"\3" + int32(0) + int32(7) + int32(3) + b"\0" + int32(5) + int32(8) + int32(6) + b"\0" + b"\0"
    b = b"\2b" + b"\2" + int32(1) + int32(2) + int32(1) + b"\0" + b"\0"
    body = int32(-1) + b"\3" + a + b + b"\0"
    assert EpochEndsQuestion({"a": {0: (7, 3), 5: (8, 6)}, "b": {1: (2, 1)}}).body() == body


EPOCHS_END = b"".join(
    (
        int32(4) + b"\0" + int32(0) + b"\3",
        b"\2a" + b"\3" + int16(0) + int32(0) + int32(2) + int64(60) + b"\0",
        int16(74) + int32(5) + int32(-1) + int64(-1) + b"\0" + b"\0",
        b"\2b" + b"\1" + b"\0",
        b"\0",
    )
)


def test_where_epochs_end() -> None:
    """OffsetForLeaderEpochResponse v4."""
    assert EpochEndsQuestion({}).read(EPOCHS_END, 4) == {
        ("a", 0): EpochEnd(0, 2, 60),
        ("a", 5): EpochEnd(74, -1, -1),
    }


def test_a_leave_group_request() -> None:
    """LeaveGroupRequest v4: each member by its id and its instance id."""
    assert LeaveQuestion("g", {"m": "i"}).body() == b"\2g" + b"\2" + b"\2m" + b"\2i" + b"\0" + b"\0"


LEFT = b"".join(
    (
        int32(5) + b"\0" + int32(0) + int16(0) + b"\3",
        b"\2m" + b"\2i" + int16(0) + b"\0",
        b"\2n" + b"\0" + int16(25) + b"\0" + b"\0",
    )
)


def test_a_leave_group_answer() -> None:
    """LeaveGroupResponse v4: the error of all, and of each; one has no instance id."""
    assert LeaveQuestion("", {}).read(LEFT, 5) == {"": 0, "m": 0, "n": 25}


READERS: list[tuple[AnyQuestion, bytes, int]] = [
    (OffsetsQuestion({}, committed=False), OFFSETS, 6),
    (CoordinatorQuestion("g"), COORDINATOR, 7),
    (GroupQuestion("g"), GROUP, 8),
    (EpochEndsQuestion({}), EPOCHS_END, 4),
    (LeaveQuestion("g", {}), LEFT, 5),
]


@pytest.mark.parametrize(("question", "data", "number"), READERS)
def test_every_answer_that_is_cut_short(question: AnyQuestion, data: bytes, number: int) -> None:
    """At any byte but the last, which counts the tags; and the answer to another request."""
    for size in range(len(data) - 1):
        with pytest.raises(MalformedResponse):
            question.read(data[:size], number)
    with pytest.raises(MalformedResponse, match="request"):
        question.read(data, number + 1)


@pytest.mark.parametrize(("question", "data", "number"), READERS)
@given(changes=st.lists(st.tuples(st.integers(4, 200), st.integers(0, 255)), min_size=1, max_size=4))
def test_every_garbled_answer(question: AnyQuestion, data: bytes, number: int, changes: list[tuple[int, int]]) -> None:
    """It is read, or it is a MalformedResponse."""
    garbled = bytearray(data)
    for at, byte in changes:
        garbled[4 + at % (len(data) - 4)] = byte
    try:
        question.read(memoryview(garbled), number)
    except MalformedResponse:
        return
