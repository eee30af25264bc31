"""A replica that was away for the end of a log leads it, and the log has become longer again than what was read of it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from sparkcohort.runtime.kafka.cluster_messages import EpochEnd, EpochEndsQuestion
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from tests.kit.broker import Broker, Cluster
from tests.kit.calls import ALL, Calls, bare, called, next_of
from tests.kit.produce import produce
from tests.kit.waiting import wait_until

LOST = ("fails", "passes", "restarted")


def led_by(cluster: Cluster, topic: str, leader: int) -> None:
    """Wait until everybody knows that."""
    wait_until(lambda: cluster.admin.leaders(topic) == {0: leader}, 60, f"broker {leader} to lead {topic}")


def read(cluster: Cluster, topic: str, stack: ExitStack, **more: str) -> tuple[Calls, dict[str, Any]]:
    """A query that has read 100 records, and found no more."""
    call = stack.enter_context(called(cluster, topic, metadata__max__age__ms="100", **more))
    end = next_of(call, call("initialOffset"))
    assert bare(end) == {topic: {"0": 100}}
    assert call("latestOffset", end, ALL) == end
    wait_until(lambda: cluster.admin.committed(topic) == {(topic, 0): 100}, 60, "the commit")
    return call, end


def lose_forty(cluster: Cluster) -> None:
    """The second broker, which has 60 of 100 records, leads instead of the third; then come another 100."""
    # A replica that is starved of CPU for a moment is not in sync, and would lose records of the clean one, too.
    wait_until(lambda: cluster.admin.in_sync("clean") == {0: {1, 3}}, 60, "broker 1 to be in sync")
    cluster.node(3).kill()
    cluster.node(2).resume()
    wait_until(lambda: cluster.admin.brokers() == {1, 2}, 60, "broker 2 to be back, and 3 to be missed")
    for topic in LOST:
        cluster.admin.elect_anyone(topic)
    for topic, leader in {**dict.fromkeys(LOST, 2), "clean": 1}.items():
        led_by(cluster, topic, leader)
        produce(cluster.bootstrap, topic, 100, first=1_000)
        assert cluster.admin.ends(topic) == {0: 200 if topic == "clean" else 160}


@pytest.mark.thorough("three brokers, and an unclean election")
@pytest.mark.timeout(600)
def test_what_was_read_of_the_old_log_is_a_position_in_no_other() -> None:
    """It is told by the epochs, while a query runs and over restarts; a leader that was in sync has lost nothing."""
    with Cluster(3, properties={"replica.lag.time.max.ms": "1500"}) as cluster, ExitStack() as stack:
        for topic in (*LOST, "clean", "decoy"):
            cluster.admin.create_topic(topic, assignment=[[3, 1 if topic == "clean" else 2]])
            produce(cluster.bootstrap, topic, 60)
        cluster.node(2).pause()
        for topic in (
            "decoy",
            *LOST,
            "clean",
        ):  # the first is in the answer to the fetch that broker 2 has sent already
            produce(cluster.bootstrap, topic, 40, first=60)
            if topic != "decoy":
                assert cluster.admin.ends(topic) == {0: 100}
        with ExitStack() as earlier:
            _, restarted = read(cluster, "restarted", earlier)
        failing, failed = read(cluster, "fails", stack)
        passing, passed = read(cluster, "passes", stack, failOnDataLoss="false")
        going, gone = read(cluster, "clean", stack)

        lose_forty(cluster)

        lost = "PARTITION_OFFSET_CHANGED.*cut by an unclean leader election.*to 100 at least.* up to 60 only.*failOnDataLoss"
        with pytest.raises(Exception, match=lost):
            next_of(failing, failed)
        for _ in range(2):  # a start that fails leaves no trace by which the next would pass
            with called(cluster, "restarted") as call, pytest.raises(Exception, match=lost):
                next_of(call, restarted)
        again = next_of(passing, passed)
        assert bare(again) == {"passes": {"0": 60}}
        assert passing.ranges(passed, again) == {}
        end = next_of(passing, again)
        assert bare(end) == {"passes": {"0": 160}}
        assert passing.ranges(again, end) == {0: (60, 160)}
        assert passing("latestOffset", end, ALL) == end
        end = next_of(going, gone)
        assert going.ranges(gone, end) == {0: (100, 200)}


def test_a_broker_tells_where_an_epoch_ends(broker: Broker, topic: str) -> None:
    """OffsetForLeaderEpoch as bytes; an epoch to come is unknown, an epoch of the leader's that isn't is refused."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 7)
    client = ClusterClient({"bootstrap.servers": broker.bootstrap})
    question = EpochEndsQuestion({topic: {0: (0, 0), 1: (0, 3)}, f"{topic}-none": {0: (0, 0)}})
    try:
        found = client.ask(question, None, 20).result(30)
    finally:
        client.close()
    assert found == {
        (topic, 0): EpochEnd(0, 0, 7),
        (topic, 1): EpochEnd(0, -1, -1),
        (f"{topic}-none", 0): EpochEnd(3, -1, -1),
    }
