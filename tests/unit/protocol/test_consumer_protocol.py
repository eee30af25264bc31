"""ConsumerProtocol: what is written can be read, by us and by the schema's letter."""

from __future__ import annotations

import contextlib
import struct
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.protocol import consumer_protocol as cp
from sparkcohort.runtime.protocol.partitions import TopicPartition

INT32 = st.integers(-(2**31), 2**31 - 1)
NAMES = st.text(st.characters(codec="utf-8"), max_size=8)
PARTITIONS = st.lists(st.builds(TopicPartition, NAMES, INT32), max_size=8, unique=True).map(lambda p: tuple(sorted(p)))
DATA = st.none() | st.binary(max_size=8)
SUBSCRIPTIONS = st.builds(
    cp.Subscription,
    topics=st.lists(NAMES, max_size=5, unique=True).map(lambda t: tuple(sorted(t))),
    user_data=DATA,
    owned=PARTITIONS,
    generation=INT32,
    rack=st.none() | NAMES.filter(bool),
)


@given(SUBSCRIPTIONS)
def test_a_subscription_comes_back(value: cp.Subscription) -> None:
    """Reading what was written gives the value."""
    assert cp.decode_subscription(cp.encode_subscription(value)) == value


def test_older_versions_have_fewer_fields() -> None:
    """Version 1 added owned partitions, 2 the generation, 3 the rack; a reader takes what its version has."""
    value = cp.Subscription(("t",), b"x", (TopicPartition("t", 1),), 7, "r")
    whole = cp.encode_subscription(value)[2:]
    for version, fields in enumerate((0, 1, 2, 3)):
        read = cp.decode_subscription(struct.pack(">h", version) + whole)
        assert (read.owned, read.generation, read.rack) == (
            value.owned if fields > 0 else (),
            7 if fields > 1 else -1,
            "r" if fields > 2 else None,
        )


@given(PARTITIONS)
def test_an_assignment_comes_back(value: tuple[TopicPartition, ...]) -> None:
    """Reading what was written gives the value; user data of other writers is left alone."""
    written = cp.encode_assignment(value)
    assert cp.decode_assignment(written) == cp.decode_assignment(written[:-4] + b"\0\0\0\1x") == value


@given(SUBSCRIPTIONS, st.randoms(use_true_random=False))
def test_equal_subscriptions_give_equal_bytes(value: cp.Subscription, random: Random) -> None:
    """The order in which topics and owned partitions are named doesn't show."""
    topics = tuple(random.sample(value.topics, len(value.topics)))
    owned = tuple(random.sample(value.owned, len(value.owned)))
    other = cp.Subscription(topics, value.user_data, owned, value.generation, value.rack)
    assert cp.encode_subscription(other) == cp.encode_subscription(value)


@given(SUBSCRIPTIONS, st.integers(4, 2**15 - 1), st.binary(max_size=9))
def test_a_higher_version_is_read_as_the_highest_known(value: cp.Subscription, version: int, more: bytes) -> None:
    """Versions only append, so what follows the known fields is left alone."""
    later = struct.pack(">h", version) + cp.encode_subscription(value)[2:] + more
    assert cp.decode_subscription(later) == value


@given(SUBSCRIPTIONS, st.data())
def test_cut_off_bytes_are_refused(value: cp.Subscription, data: st.DataObject) -> None:
    """Every proper beginning of a message is an error of its own class, never another exception."""
    whole = cp.encode_subscription(value)
    with pytest.raises(cp.MalformedConsumerProtocol, match="subscription"):
        cp.decode_subscription(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Garbage raises MalformedConsumerProtocol or is a message; the group's view of it never raises."""
    for decode in (cp.decode_subscription, cp.decode_assignment):
        with contextlib.suppress(cp.MalformedConsumerProtocol):
            decode(data)
    assert isinstance(cp.assigned_partitions(data) | cp.claimed_partitions(data), frozenset)


def _other_writer(topics: list[str], owned: list[tuple[str, list[int]]]) -> bytes:
    """A v3 subscription as librdkafka writes it: topics unsorted, user data and rack empty instead of null."""

    def text(value: str) -> bytes:
        return struct.pack(">h", len(value)) + value.encode()

    parts = [struct.pack(">hi", 3, len(topics)), *map(text, topics), struct.pack(">ii", 0, len(owned))]
    parts += [text(t) + struct.pack(f">i{len(ids)}i", len(ids), *ids) for t, ids in owned]
    return b"".join(parts) + struct.pack(">ih", 5, 0)


@given(
    st.lists(st.sampled_from("abcdef"), unique=True),
    st.lists(st.tuples(st.sampled_from("abcdef"), st.lists(st.integers(0, 99), max_size=4)), max_size=4),
)
def test_a_writer_that_orders_differently_is_understood(topics: list[str], owned: list[tuple[str, list[int]]]) -> None:
    """An independent writer (a dumb twin) is read to the values that it meant; an empty rack is none."""
    read = cp.decode_subscription(_other_writer(topics, owned))
    assert read == cp.Subscription(tuple(topics), b"", tuple(TopicPartition(t, p) for t, ids in owned for p in ids), 5)


def test_the_group_sees_what_is_claimed_and_what_is_assigned() -> None:
    """Bytes that can't be read name no partitions."""
    tp = TopicPartition("t", 1)
    assert cp.claimed_partitions(cp.encode_subscription(cp.Subscription(("t",), owned=(tp,)))) == {tp}
    assert cp.assigned_partitions(cp.encode_assignment([tp])) == {tp}
    assert cp.assigned_partitions(b"") == cp.assigned_partitions(b"\0") == cp.claimed_partitions(b"\xff") == frozenset()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff\xff", "version -1"),
        (b"\0\0\xff\xff\xff\xff", "count -1"),
        (b"\0\0\0\0\0\1\xff\xff", "null where a string is due"),
        (b"\0\0\0\0\0\1\xff\xfe", "length -2"),
        (b"\0\0\0\0\0\1\0\1\xff", "not UTF-8"),
        (b"\0\0\x7f\xff\xff\xff", "ends where 2 bytes more are due"),
    ],
)
def test_bad_bytes_are_refused_with_a_reason(data: bytes, why: str) -> None:
    """The error says what is wrong, and where."""
    with pytest.raises(cp.MalformedConsumerProtocol, match=why):
        cp.decode_subscription(data)


def test_values_that_do_not_fit_are_refused() -> None:
    """Writing a value that the format has no room for raises the same error."""
    for value in (cp.Subscription(generation=2**31), cp.Subscription(("t" * 40_000,))):
        with pytest.raises(cp.MalformedConsumerProtocol):
            cp.encode_subscription(value)


@given(st.data())
def test_many_assignments_are_written_as_one_by_one(data: st.DataObject) -> None:
    """In bulk come the same bytes as singly: empty ones, and names of several bytes."""
    topics = sorted(data.draw(st.lists(NAMES, max_size=3, unique=True)))
    partition = st.tuples(st.integers(0, len(topics) - 1), st.integers(0, 2**31 - 1))
    one = st.lists(partition, unique=True, max_size=4).map(sorted) if topics else st.just([])
    several = data.draw(st.lists(one, max_size=5))
    columns = np.array([pair for one in several for pair in one], np.int64).reshape(-1, 2)
    starts = np.cumsum([0, *map(len, several)])
    written = cp.AssignmentWriter(topics).write(columns[:, 0], columns[:, 1], starts)
    singly = [tuple(TopicPartition(topics[topic], number) for topic, number in one) for one in several]
    assert written == [cp.encode_assignment(one) for one in singly]
