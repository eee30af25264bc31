"""Racks on their way from the cluster and the executors to the leader of the group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.options.parse import parse
from tests.kit.agents import TOPIC, World
from tests.kit.broker import Broker
from tests.kit.mock import MockCluster
from tests.kit.waiting import wait_until


@contextmanager
def started(bootstrap: str, topic: str, **more: str) -> Iterator[LogEnds]:
    """Log ends of one topic; ``__`` stands for a dot in option names."""
    named = {name.replace("__", "."): value for name, value in more.items()}
    ends = LogEnds(parse({"kafka.bootstrap.servers": bootstrap, "group.id": "g", "subscribe": topic, **named}))
    try:
        ends.start()
        yield ends
    finally:
        ends.close()


@pytest.mark.parametrize(
    ("options", "racks"),
    [({"client__rack": "ZONE"}, {"rack-1"}), ({"client__rack__env": "ZONE"}, {"rack-1"}), ({}, None)],
)
def test_where_replicas_are_is_asked_of_the_cluster(
    broker: Broker, topic: str, options: dict[str, str], racks: set[str] | None
) -> None:
    """With an option that gives members racks; without one they count for nothing, although the cluster tells them."""
    broker.admin.create_topic(topic, 3)
    with started(broker.bootstrap, topic, **options) as ends:
        assert ends.racks() == ({topic: [racks] * 3} if racks else {})


def test_members_are_assigned_what_is_near_them(mock_broker: MockCluster) -> None:
    """A task tells its executor's rack to the agent, the agent in its subscription; the leader knows the replicas'."""
    world = World(mock_broker)
    try:
        world.assignors = ("cooperative-sticky",)
        world.racks = {TOPIC: [frozenset("b"), frozenset("a"), frozenset("b")]}
        near_a, near_b = (world.start(f"in-{rack}", rack)[0] for rack in "ab")
        numbers = [[1], [0, 2]]  # without racks the first two, and the last
        expected = [[TopicPartition(TOPIC, number) for number in mine] for mine in numbers]
        wait_until(lambda: [world.owned_on(near_a), world.owned_on(near_b)] == expected, 20, "partitions to be near")
        assert sorted(str(info.rack) for info in world.coordinator.members().values()) == ["a", "b"]
    finally:
        world.close()
