"""The driver's membership in the real group, on a real broker: commits, rebalances, strangers, permissions."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from confluent_kafka import Consumer

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.membership_state import Committed
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.kafka_membership import GroupMembership
from sparkcohort.runtime.shell.kafka import clients
from tests.kit.broker import Broker
from tests.kit.join import assigned, join
from tests.kit.join import member as unstarted
from tests.kit.waiting import wait_until

SESSION = {"session.timeout.ms": "3000", "heartbeat.interval.ms": "500"}


def member(bootstrap: str, topic: str, partitions: int = 4, **more: str) -> AbstractContextManager[GroupMembership]:
    """A membership, not started; its group is called as its topic."""
    named = {name.replace("__", "."): value for name, value in more.items()}
    options = {"kafka.bootstrap.servers": bootstrap, "group.id": topic, "subscribe": topic, **SESSION, **named}
    return unstarted(options, **{topic: partitions})


def everything(topic: str, partitions: int = 4, offset: int = 0) -> dict[TopicPartition, int]:
    """An offset for each partition."""
    return {TopicPartition(topic, number): offset for number in range(partitions)}


def test_it_owns_what_it_subscribes_to_and_commits_with_metadata(broker: Broker, topic: str) -> None:
    """A joined member is assigned all partitions, of which it fetches none; its commits, with metadata, are what Kafka shows."""
    broker.admin.create_topic(topic, 4)
    first = TopicPartition(topic, 0)
    with member(broker.bootstrap, topic) as membership:
        join(membership, 20)
        assert assigned(membership) == frozenset(everything(topic))
        assert membership._client().assignment() == []
        assert membership.committed([first]) == {first: Committed(None, "")}
        assert membership.commit({first: (7, "text")}) == {first: 7}
        assert membership.committed([first]) == {first: Committed(7, "text")}
        assert broker.admin.committed(topic) == {(topic, 0): 7}
        (shown,) = broker.admin.members(topic)
        assert shown.group_instance_id.startswith("cohort-")


def test_a_closed_membership_has_no_client(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is gone at once, with its threads, and was not asked to ``close``, which may never return."""
    made: list[str] = []

    class Watched(Consumer):
        def __init__(self, *given: Any, **more: Any) -> None:
            made.append("new")
            super().__init__(*given, **more)

        def close(self) -> None:
            made.append("closed")

        def __del__(self) -> None:
            made.append("gone")

    monkeypatch.setattr(clients, "Consumer", Watched)
    broker.admin.create_topic(topic, 4)
    gc.disable()
    try:
        with member(broker.bootstrap, topic) as membership:
            join(membership, 20)
            assert made == ["new", "gone", "new"]  # the one that joined nothing, then the member's
        assert made == ["new", "gone", "new", "gone"]
    finally:
        gc.enable()


def reader(
    bootstrap: str, group: str, topics: Iterable[str], count: int = 1, /, **more: str
) -> AbstractContextManager[GroupMembership]:
    """A membership of a query that reads these topics, of so many partitions each."""
    named = {name.replace("__", "."): value for name, value in more.items()}
    options = {"kafka.bootstrap.servers": bootstrap, "group.id": group, "subscribe": ",".join(topics)}
    return unstarted({**options, **SESSION, **named}, **dict.fromkeys(topics, count))


LONG = {"session__timeout__ms": "90000", "heartbeat__interval__ms": "500"}


@pytest.mark.parametrize(("before", "after"), [("a", "ab"), ("ab", "b"), ("a", "b")])
def test_a_changed_subscription_does_not_wait_for_the_last_run(
    broker: Broker, topic: str, before: str, after: str
) -> None:
    """The last run is a member for 90 s more, under another instance id: the next one is ready in half of that."""
    for letter in "ab":
        broker.admin.create_topic(f"{topic}-{letter}")
    with reader(broker.bootstrap, topic, [f"{topic}-{letter}" for letter in before], **LONG) as older:
        join(older, 20)
        older.reserve({TopicPartition(f"{topic}-{before[0]}", 0): 5})
    with reader(broker.bootstrap, topic, [f"{topic}-{letter}" for letter in after], **LONG) as newer:
        join(newer, 45)
        assert assigned(newer) == {TopicPartition(f"{topic}-{letter}", 0) for letter in after}
        (shown,) = broker.admin.members(topic)
        assert shown.group_instance_id == newer._options.group_instance_id


def test_of_two_drivers_that_read_one_topic_the_newer_goes_on(broker: Broker, topic: str) -> None:
    """Also where their subscriptions differ: the older one ends as if fenced, and what it leaves in the group goes, too."""
    topics = [f"{topic}-{letter}" for letter in "ab"]
    for each in topics:
        broker.admin.create_topic(each, 2)
    first, every = (
        TopicPartition(topics[0], 0),
        frozenset(TopicPartition(each, number) for each in topics for number in (0, 1)),
    )
    with reader(broker.bootstrap, topic, topics[:1], 2, session__timeout__ms="60000") as older:
        join(older, 20)
        older.reserve({first: 0})
        with reader(broker.bootstrap, topic, topics, 2) as newer:
            join(newer, 20)
            newer.reserve(dict.fromkeys(every, 0))
            failure = wait_until(older.failure, 30, "the older driver's failure")
            assert failure is not None
            assert failure.error == "FENCED_INSTANCE_ID"
            older.close()
            wait_until(lambda: newer.failure() or assigned(newer) == every, 30, "all partitions")
            assert newer.failure() is None
            assert newer.commit({first: (7, "")}) == {first: 7}


def test_a_driver_that_was_taken_out_joins_again(broker: Broker, topic: str) -> None:
    """One on other topics, which was only slow: both are members, and both commit."""
    topics = [f"{topic}-{letter}" for letter in "ab"]
    for each in topics:
        broker.admin.create_topic(each)
    one, two = (TopicPartition(each, 0) for each in topics)
    with (
        reader(broker.bootstrap, topic, topics[:1]) as slow,
        reader(broker.bootstrap, topic, topics[1:]) as other,
    ):
        join(slow, 20)
        join(other, 20)
        other._foreign_members.remove_drivers()
        wait_until(lambda: len(broker.admin.members(topic)) == 2, 20, "both members")
        assert slow.commit({one: (1, "")}) == {one: 1}
        assert other.commit({two: (1, "")}) == {two: 1}
        assert (slow.failure(), other.failure()) == (None, None)


def test_a_driver_that_cannot_be_taken_out_is_named(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Where only librdkafka can log in: the start fails when its time is over, and names the last run as a driver."""
    topics = [f"{topic}-{letter}" for letter in "ab"]
    for each in topics:
        broker.admin.create_topic(each)
    with reader(broker.bootstrap, topic, topics[:1], **LONG) as older:
        join(older, 20)
        gone = older._options.group_instance_id
    only = {"kafka__client__dns__lookup": "resolve_canonical_bootstrap_servers_only"}
    with (
        reader(broker.bootstrap, topic, topics, **LONG, **only) as newer,
        pytest.raises(CohortError, match=f"also in it: .*, driver {gone}"),
    ):
        newer.start(3)
    assert f"driver {gone}) stays in it until its session.timeout.ms is over" in caplog.text


def test_a_stranger_is_named(broker: Broker, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    """An ordinary consumer in the group is told of at once, and ends the query about when a session timeout is over."""
    broker.admin.create_topic(topic, 4)
    conf = {"bootstrap.servers": broker.bootstrap, "group.id": topic, "client.id": "somebody"}
    with member(broker.bootstrap, topic) as membership:
        join(membership, 20)
        membership.reserve(everything(topic))
        stranger = Consumer(conf | {"session.timeout.ms": 3000, "partition.assignment.strategy": "range,roundrobin"})
        stranger.subscribe([topic])
        wait_until(lambda: stranger.poll(0.1) is None and stranger.assignment(), 20, "the stranger's assignment")
        failure = wait_until(lambda: stranger.poll(0.1) is None and membership.failure(), 30, "a failure")
        assert "somebody" in str(failure)
        assert "127.0.0.1" in str(failure)
        assert membership.foreign_members()["present"] == 1
    told, *_ = [record.getMessage() for record in caplog.records if "has joined group" in record.getMessage()]
    assert "127.0.0.1" in told and "3 s (session.timeout.ms)" in told and "group.id of its own" in told


def test_commits_are_retried_over_a_rebalance(broker: Broker, topic: str) -> None:
    """While the real group rebalances (somebody reads another topic in it), commits arrive all the same."""
    other = f"{topic}-b"
    broker.admin.create_topic(topic, 4)
    broker.admin.create_topic(other, 1)
    first = TopicPartition(topic, 0)
    with member(broker.bootstrap, topic) as membership:
        join(membership, 20)
        for round_ in range(3):
            guest = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "client.id": f"guest-{round_}"})
            guest.subscribe([other])
            guest.poll(0)
            for offset in range(20):
                at = round_ * 20 + offset
                assert membership.commit({first: (at, "")}, 20) == {first: at}
                guest.poll(0.02)
            guest.close()
        assert membership.failure() is None


def test_closing_keeps_the_static_member(broker: Broker, topic: str) -> None:
    """No LeaveGroup: a restarted driver finds its place and nothing is rebalanced meanwhile."""
    broker.admin.create_topic(topic, 4)
    with member(broker.bootstrap, topic, session__timeout__ms="30000") as membership:
        join(membership, 20)
    assert [shown.group_instance_id for shown in broker.admin.members(topic)] == [membership._options.group_instance_id]
