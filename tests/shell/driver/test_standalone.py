"""The real group before its driver has joined: nobody waits for Kafka's ``group.initial.rebalance.delay.ms``."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.membership_state import MembershipState
from sparkcohort.runtime.kafka.run_epoch import decode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.kafka_membership import GroupMembership
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.options.parse import parse
from tests.kit.broker import Broker
from tests.kit.join import join
from tests.kit.waiting import wait_until

STANDALONE, JOINING, MEMBER = MembershipState.STANDALONE, MembershipState.JOINING, MembershipState.MEMBER


@pytest.fixture(scope="module")
def slow_joins() -> Iterator[Broker]:
    """A broker with whom a group's first join takes a minute: whoever waits for it fails."""
    with Broker(properties={"group.initial.rebalance.delay.ms": "60000"}) as broker:
        yield broker


@contextmanager
def membership(broker: Broker, topic: str) -> Iterator[GroupMembership]:
    """A membership, not started, in a group called as its topic."""
    options = {"kafka.bootstrap.servers": broker.bootstrap, "group.id": topic, "subscribe": topic}
    made = GroupMembership(parse(options), ClusterClient(parse(options).kafka), lambda: {topic: 2})
    try:
        yield made
    finally:
        made.close()


def at(topic: str, offset: int) -> dict[TopicPartition, int]:
    """This offset in both partitions."""
    return {TopicPartition(topic, number): offset for number in range(2)}


def commit(driver: GroupMembership, topic: str, offset: int) -> dict[TopicPartition, int]:
    """As a batch that ended there."""
    text = driver.run_epoch.metadata()
    return driver.commit({tp: (each, text) for tp, each in at(topic, offset).items()})


@pytest.mark.thorough("a broker whose first join takes a minute")
def test_a_run_is_numbered_and_commits_before_it_joins(slow_joins: Broker, topic: str) -> None:
    """In a group without members; it has none while the driver is asked for nothing else, and one as soon as it joins."""
    slow_joins.admin.create_topic(topic, 2)
    with membership(slow_joins, topic) as driver:
        driver.start(20)
        assert driver.state is STANDALONE
        assert driver.reserve(at(topic, 3)).first_generation == 0
        assert commit(driver, topic, 7) == at(topic, 7)
        assert commit(driver, topic, 5) == at(topic, 7), "law I6"
        assert slow_joins.admin.members(topic) == []
        assert slow_joins.admin.committed(topic) == {tuple(tp): 7 for tp in at(topic, 7)}
        driver.join()
        wait_until(lambda: slow_joins.admin.members(topic), 20, "the member, which waits for the rebalance")
        assert driver.state is JOINING
        assert driver.failure() is None


def test_an_older_driver_is_fenced_before_its_offsets_are_read(broker: Broker, topic: str) -> None:
    """Where anybody is in the group, a new driver joins first: what the older one commits last is where it starts."""
    broker.admin.create_topic(topic, 2)
    with membership(broker, topic) as older, membership(broker, topic) as newer:
        join(older, 20)
        older.reserve(at(topic, 0))
        commit(older, topic, 9)
        newer.start(20)
        assert newer.state is MEMBER
        assert {tp: each.offset for tp, each in newer.committed(at(topic, 0)).items()} == at(topic, 9)
        newer.reserve(at(topic, 9))
        with pytest.raises(CohortError, match="FENCED_INSTANCE_ID"):
            commit(older, topic, 10)


def test_somebody_joins_before_the_first_commit(broker: Broker, topic: str) -> None:
    """The coordinator takes commits of members only by then: the driver becomes one, without being asked to."""
    broker.admin.create_topic(topic, 2)
    with membership(broker, topic) as driver:
        driver.start(20)
        assert driver.state is STANDALONE
        guest = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
        guest.subscribe([topic])
        wait_until(lambda: guest.poll(0.1) is not None or guest.assignment(), 20, "the guest to be in the group")
        with ThreadPoolExecutor(1) as beside:
            reserved = beside.submit(driver.reserve, at(topic, 4))
            wait_until(lambda: guest.poll(0.1) is None and reserved.done(), 25, "the reservation")
        assert reserved.result().own is not None
        assert driver.state is MEMBER
        guest.close()


@pytest.mark.thorough("a broker whose first join takes a minute")
def test_of_two_runs_that_begin_at_one_time_the_older_ends(slow_joins: Broker, topic: str) -> None:
    """Neither has joined, so no instance id tells them apart: the numbers that they have committed do."""
    slow_joins.admin.create_topic(topic, 2)
    with membership(slow_joins, topic) as older, membership(slow_joins, topic) as newer:
        older.start(20)
        newer.start(20)
        older.reserve(at(topic, 1))
        newer.reserve(at(topic, 2))
        with pytest.raises(CohortError, match=r"a newer driver on \S+ \(run 2, this one is run 1\)"):
            commit(older, topic, 8)
        assert commit(newer, topic, 9) == at(topic, 9)
        assert {decode(each.metadata).run for each in newer.committed(at(topic, 0)).values()} == {2}
