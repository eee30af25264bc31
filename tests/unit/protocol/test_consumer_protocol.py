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


@given(SUBSCRIPTIONS, st.integers(0, 3))
def test_a_subscription_comes_back_as_far_as_its_version_goes(value: cp.Subscription, version: int) -> None:
    """Reading what was written gives the value, without the fields that came in later versions."""
    expected = cp.Subscription(
        value.topics,
        value.user_data,
        value.owned if version >= 1 else (),
        value.generation if version >= 2 else -1,
        value.rack if version >= 3 else None,
    )
    assert cp.decode_subscription(cp.encode_subscription(value, version)) == expected


@given(st.builds(cp.Assignment, PARTITIONS, DATA), st.integers(0, 3))
def test_an_assignment_comes_back(value: cp.Assignment, version: int) -> None:
    """Reading what was written gives the value, in every version."""
    assert cp.decode_assignment(cp.encode_assignment(value, version)) == value


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
    assert isinstance(cp.ConsumerEmbedded().assigned(data) | cp.ConsumerEmbedded().claimed(data), frozenset)


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
    """ConsumerEmbedded names the partitions in both kinds of bytes."""
    tp = TopicPartition("t", 1)
    embedded = cp.ConsumerEmbedded()
    assert embedded.claimed(cp.encode_subscription(cp.Subscription(("t",), owned=(tp,)))) == {tp}
    assert embedded.assigned(cp.encode_assignment(cp.Assignment((tp,)))) == {tp}
    assert embedded.assigned(b"") == embedded.assigned(b"\0") == embedded.claimed(b"\xff") == frozenset()


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
    for value, version in (
        (cp.Subscription(), 4),
        (cp.Subscription(generation=2**31), 3),
        (cp.Subscription(("t" * 40_000,)), 3),
    ):
        with pytest.raises(cp.MalformedConsumerProtocol):
            cp.encode_subscription(value, version)


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
    assert written == [cp.encode_assignment(cp.Assignment(one)) for one in singly]
