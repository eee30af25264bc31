"""The real broker, the mock cluster and the helpers that other tests stand on."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from tests.kit.admin import COMPACTED, LOG_APPEND_TIME
from tests.kit.broker import Broker, Cluster
from tests.kit.consumer_groups import describe, parse
from tests.kit.delivery import HELD, check, held, measured, table, totals
from tests.kit.mock import MockCluster
from tests.kit.produce import Steady, abort, place_of, produce, producer, value_of
from tests.kit.waiting import wait_until


def test_records_say_where_they_belong(broker: Broker, topic: str) -> None:
    """What produce writes is in the log, each record with its partition and sequence; aborted records are not held."""
    broker.admin.create_topic(topic, 3, configs=LOG_APPEND_TIME)
    assert produce(broker.bootstrap, topic, 30, partitions=3) == {0: 10, 1: 10, 2: 10}
    abort(broker.bootstrap, topic, 5, partition=1)
    assert broker.admin.ends(topic) == {0: 10, 1: 16, 2: 10}
    found = held(broker.bootstrap, [topic])
    assert sorted(zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True)) == [
        (partition, offset) for partition in range(3) for offset in range(10)
    ]
    written = table(
        (
            (topic, partition, at, *measured(b"%d" % at, value_of(partition, at)))
            for partition in range(3)
            for at in range(10)
        ),
        HELD,
    )
    assert totals(found) == totals(written)
    assert place_of(value_of(2, 9)) == (2, 9)
    assert len(value_of(2, 9, 300)) == 300


def test_a_steady_producer_counts_what_was_taken(broker: Broker, topic: str) -> None:
    """The counts after the block are the log's ends."""
    broker.admin.create_topic(topic, 2)
    with Steady(broker.bootstrap, topic, partitions=2, rate=400) as steady:
        wait_until(lambda: sum(steady.counts.values()) >= 100, 10, "100 records")
    assert steady.counts == broker.admin.ends(topic)


def test_deleted_records_move_the_beginning(broker: Broker, topic: str) -> None:
    """delete_records moves the beginning, not the end."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 10)
    broker.admin.delete_records(topic, {0: 4})
    assert (broker.admin.beginnings(topic), broker.admin.ends(topic)) == ({0: 4}, {0: 10})


def test_compaction_leaves_gaps(broker: Broker, topic: str) -> None:
    """A compacted topic keeps the last record of each key at its offset."""
    broker.admin.create_topic(topic, configs=COMPACTED)
    client = producer(broker.bootstrap)
    for number in range(20):
        client.produce(topic, b"%d" % number, b"key-%d" % (number % 4), 0)
    client.flush()
    threading.Event().wait(0.2)  # past segment.ms, so that the next write rolls the segment
    client.produce(topic, b"last", b"last", 0)
    client.flush()
    broker.wait_compacted(topic, 0, 20)
    assert held(broker.bootstrap, [topic])["offset"].to_pylist() == [16, 17, 18, 19, 20]


def test_kafkas_own_tool_describes_a_group(broker: Broker, topic: str) -> None:
    """Committed offsets and lag are read from kafka-consumer-groups."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 10, partitions=2)
    broker.admin.commit(topic, topic, {0: 2, 1: 5})
    rows = describe(broker.bootstrap, topic)
    assert [(row.partition, row.current_offset, row.log_end_offset, row.lag) for row in rows] == [
        (0, 2, 5, 3),
        (1, 5, 5, 0),
    ]
    assert broker.admin.committed(topic) == {(topic, 0): 2, (topic, 1): 5}
    assert broker.admin.group_state(topic) == "EMPTY"


def test_the_tools_table_is_read_by_its_head() -> None:
    """Warnings, blank lines and dashes do not disturb; no table means no rows."""
    printed = (
        "\nConsumer group 'g' has no active members.\n\nGROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG HOST\n"
    )
    rows = parse(printed + "g t 1 - 7 - /127.0.0.1\ng t 0 3 7 4 -\n")
    assert [(row.partition, row.current_offset, row.lag, row.host) for row in rows] == [
        (0, 3, 4, None),
        (1, None, None, "/127.0.0.1"),
    ]
    assert parse("Error: nothing\n") == []


def test_one_of_two_brokers_goes_away_and_no_permission_is_no_permission() -> None:
    """Partitions of a stopped broker have no leader, the others do; a user sees only what an ACL allows."""
    with Cluster(2, users={"alice": "secret"}) as cluster:
        cluster.admin.create_topic("t", assignment=[1, 2])
        client = Consumer(cluster.sasl_conf("alice") | {"group.id": "g"})
        try:
            refused = client.list_topics("t", timeout=10).topics["t"].error
            assert refused is not None
            assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
            cluster.admin.allow("alice", "topic", "t", "read")
            wait_until(lambda: client.list_topics("t", timeout=10).topics["t"].error is None, 10, "permission")
        finally:
            client.close()
        cluster.node(2).pause()
        try:  # it holds its connections, and any broker may be the one that is asked
            assert [cluster.admin.leaders("t").keys() for _ in range(8)] == [{0, 1}] * 8
        finally:
            cluster.node(2).resume()
        cluster.node(2).stop()
        wait_until(lambda: cluster.admin.leaders("t") == {0: 1, 1: -1}, 20, "partition 1 without a leader")
        assert produce(cluster.bootstrap, "t", 5) == {0: 5}
        cluster.start()
        wait_until(lambda: cluster.admin.leaders("t") == {0: 1, 1: 2}, 20, "partition 1 with its leader")


def test_the_mock_cluster_breaks_on_demand(mock_broker: MockCluster) -> None:
    """Records go in and out; a topic deleted, a broker down and an injected error are seen by clients."""
    mock_broker.create_topic("t", 2)
    assert produce(mock_broker.bootstrap, "t", 10, partitions=2) == {0: 5, 1: 5}
    expected = held(mock_broker.bootstrap, ["t"])
    check(expected.append_column("batch_id", [[0] * 10]), expected).assert_exact()
    mock_broker.fail("Metadata", KafkaError.TOPIC_AUTHORIZATION_FAILED, times=0)
    mock_broker.broker_down()
    client = producer(mock_broker.bootstrap)
    with pytest.raises(KafkaException):
        client.list_topics(timeout=0.5)
    mock_broker.broker_up()
    wait_until(lambda: "t" in client.list_topics(timeout=10).topics, 10, "the broker again")
