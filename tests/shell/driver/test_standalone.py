"""The real group before its driver has joined: nobody waits for Kafka's ``group.initial.rebalance.delay.ms``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest
from confluent_kafka import Consumer

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.membership_state import MembershipState
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.kafka_membership import GroupMembership
from tests.kit.broker import Broker
from tests.kit.join import join, member
from tests.kit.waiting import wait_until

STANDALONE, MEMBER = MembershipState.STANDALONE, MembershipState.MEMBER


def membership(broker: Broker, topic: str) -> AbstractContextManager[GroupMembership]:
    """A membership, not started, in a group called as its topic."""
    options = {"kafka.bootstrap.servers": broker.bootstrap, "group.id": topic, "subscribe": topic}
    return member(options, **{topic: 2})


def at(topic: str, offset: int) -> dict[TopicPartition, int]:
    """This offset in both partitions."""
    return {TopicPartition(topic, number): offset for number in range(2)}


def commit(driver: GroupMembership, topic: str, offset: int) -> dict[TopicPartition, int]:
    """As a batch that ended there."""
    text = driver.run_epoch.metadata()
    return driver.commit({tp: (each, text) for tp, each in at(topic, offset).items()})


def test_a_run_is_numbered_and_commits_before_it_joins(broker: Broker, topic: str) -> None:
    """In a group without members; it has none while the driver is asked for nothing else, and one as soon as it joins."""
    broker.admin.create_topic(topic, 2)
    with membership(broker, topic) as driver:
        driver.start(20)
        assert driver.state is STANDALONE
        assert driver.reserve(at(topic, 3)).first_generation == 0
        assert commit(driver, topic, 7) == at(topic, 7)
        assert commit(driver, topic, 5) == at(topic, 7), "law I6"
        assert broker.admin.members(topic) == []
        assert broker.admin.committed(topic) == {tuple(tp): 7 for tp in at(topic, 7)}
        driver.join()
        wait_until(lambda: broker.admin.members(topic), 20, "the member")
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
