"""Log ends and discovery on the mock cluster and a real broker: answers, idleness, silent brokers, errors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from sparkcohort.runtime.batches.snapshot import Snapshot
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.options.parse import parse
from tests.kit.broker import Broker, Cluster
from tests.kit.mock import MockCluster
from tests.kit.produce import produce
from tests.kit.waiting import wait_until

SILENT_MS = 5_000


@contextmanager
def log_ends(bootstrap: str, **more: str) -> Iterator[LogEnds]:
    """Not started; ``__`` stands for a dot in option names."""
    named = {name.replace("__", "."): value for name, value in more.items()}
    options = {"kafka.bootstrap.servers": bootstrap, "group.id": "g", "metadata.max.age.ms": "300", **named}
    ends = LogEnds(parse(options))
    try:
        yield ends
    finally:
        ends.close()


def refusal(bootstrap: str, **more: str) -> tuple[str, str]:
    """The error of a start: its name and text."""
    with log_ends(bootstrap, **more) as ends, pytest.raises(CohortError) as caught:
        ends.start()
    return caught.value.error, str(caught.value)


def test_a_silent_broker_stalls_only_its_own_partitions(topic: str) -> None:
    """Answers come within the reader's 200 ms, the others' ends go on, the reason names the broker; then it is back."""
    with MockCluster(3) as mock:
        mock.create_topic(topic, 3)
        for number in range(3):
            mock.set_leader(topic, number, number + 1)
        producer = Producer({"bootstrap.servers": mock.bootstrap, "log_level": 0})
        with log_ends(mock.bootstrap, subscribe=topic) as ends:
            ends.start()
            mock.round_trip_ms(SILENT_MS, 2)
            silent = TopicPartition(topic, 1)
            took_s = []

            def only_silent(count: int) -> Snapshot | None:  # where the machine is busy, another one is, for a moment
                began = time.monotonic()
                snapshot = ends.refresh(0.2)
                took_s.append(time.monotonic() - began)
                alone = set(snapshot.unreachable) == {silent} and snapshot.ends[TopicPartition(topic, 0)] == count
                return snapshot if alone else None

            snapshot = wait_until(lambda: only_silent(0), 20, "broker 2 to be silent")
            assert "broker 2" in snapshot.unreachable[silent]
            for count in range(1, 4):
                producer.produce(topic, b"x", partition=0)
                producer.flush()
                wait_until(lambda count=count: only_silent(count), 20, "the others' ends")  # type: ignore[misc]
            assert min(took_s) < SILENT_MS / 2000
            mock.round_trip_ms(0, 2)
            wait_until(lambda: not ends.refresh(0.2).unreachable, 20, "broker 2 to answer again")


def test_a_stopped_broker_and_its_return(pair: Cluster, topic: str) -> None:
    """On real brokers: the stopped one's partitions are unreachable until it is back; its rack stays known."""
    pair.admin.create_topic(topic, assignment=[1, 2])
    produce(pair.bootstrap, topic, 10, partitions=2)
    here, gone = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with log_ends(pair.bootstrap, subscribe=topic, client__rack__env="ZONE") as ends:
        ends.start()
        assert ends.snapshot().ends == {here: 5, gone: 5}
        pair.node(2).stop()
        wait_until(lambda: set(ends.refresh(0.2).unreachable) == {gone}, 30, "broker 2 to be missed")
        produce(pair.bootstrap, topic, 5, first=5)
        wait_until(lambda: ends.refresh(0.2).ends[here] == 10, 30, "the other partition")
        assert ends.racks() == {topic: [{"rack-1"}, {"rack-2"}]}
        with pytest.raises(CohortError, match=f"{topic}-1"):
            ends.beginnings([gone])
        pair.start()
        wait_until(lambda: not ends.refresh(0.2).unreachable, 30, "broker 2 to be back")


def test_beginnings_and_timestamps(broker: Broker, topic: str) -> None:
    """The first offsets after a deletion of records; the first offset at or after a time, None where there is none."""
    broker.admin.create_topic(topic, 2, configs={"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for second in range(5):
        producer.produce(topic, b"x", partition=0, timestamp=1_700_000_000_000 + second * 1000)
    producer.flush()
    broker.admin.delete_records(topic, {0: 2})
    first, second_ = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with log_ends(broker.bootstrap, subscribe=topic) as ends:
        ends.start()
        assert ends.beginnings([first, second_]) == {first: 2, second_: 0}
        assert ends.at_timestamp({first: 1_700_000_002_500, second_: 5}) == {first: 3, second_: None}
        assert ends.at_timestamp({first: 1_800_000_000_000}) == {first: None}
    with pytest.raises(CohortError, match="ending"):
        ends.beginnings([first])


def test_read_committed_ends_at_the_last_stable_offset(broker: Broker, topic: str) -> None:
    """An open transaction holds the end back, for read_committed only."""
    broker.admin.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.flush()
    only = TopicPartition(topic, 0)
    try:
        with log_ends(broker.bootstrap, subscribe=topic) as ends:
            ends.start()
            assert ends.refresh(2).ends == {only: 1}
        with log_ends(broker.bootstrap, subscribe=topic, kafka__isolation__level="read_committed") as ends:
            ends.start()
            assert ends.refresh(2).ends == {only: 0}
            producer.commit_transaction(20)
            wait_until(lambda: ends.refresh(2).ends == {only: 2}, 10, "the commit marker to be behind us")
    finally:
        producer.flush()


def test_new_partitions_and_topics_are_found(broker: Broker, topic: str) -> None:
    """A pattern is searched in the names, internal topics never match, listeners hear of every change."""
    broker.admin.create_topic(f"pre-{topic}", 1)
    heard: list[int] = []
    with log_ends(broker.bootstrap, subscribePattern=f"{topic}|__consumer") as ends:
        ends.start()
        ends.on_change(lambda: heard.append(len(ends.snapshot().partitions)))
        assert ends.topics() == {f"pre-{topic}": 1}
        broker.admin.add_partitions(f"pre-{topic}", 3)
        wait_until(lambda: ends.topics() == {f"pre-{topic}": 3}, 20, "the new partitions")
        broker.admin.create_topic(f"{topic}-post", 2)
        wait_until(lambda: len(ends.topics()) == 2, 20, "the new topic")
        wait_until(lambda: len(ends.refresh(1).ends) == 5, 20, "their ends")
        assert heard[-1] == 5


def test_assign_reads_what_it_names(broker: Broker, topic: str) -> None:
    """The partitions named and no other; one that does not exist is an error."""
    broker.admin.create_topic(topic, 3)
    with log_ends(broker.bootstrap, assign=f'{{"{topic}":[0,2]}}') as ends:
        ends.start()
        assert ends.snapshot().partitions == {TopicPartition(topic, 0), TopicPartition(topic, 2)}
    name, text = refusal(broker.bootstrap, assign=f'{{"{topic}":[0,7]}}')
    assert name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert f"{topic}-7" in text


def test_a_missing_topic_is_named(broker: Broker, topic: str) -> None:
    """Long before the limit, naming the option, the topic and what to do."""
    name, text = refusal(broker.bootstrap, subscribe=f"{topic}-missing", kafka__default__api__timeout__ms="600000")
    assert name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert "option subscribe" in text
    assert f"{topic}-missing" in text


def test_a_wrong_address_is_an_error_within_the_limit() -> None:
    """The message names both options: the address, and the limit that has passed."""
    _, text = refusal("127.0.0.1:1", subscribe="t", kafka__default__api__timeout__ms="1000")
    assert "kafka.bootstrap.servers=127.0.0.1:1" in text
    assert "kafka.default.api.timeout.ms" in text


def test_missing_permission_and_wrong_password_are_named(guarded: Broker, topic: str) -> None:
    """No DESCRIBE on the topic, and failed authentication, end the start long before its limit; no secret is shown."""
    guarded.admin.create_topic(topic, 1)
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{}";'
    sasl = {"kafka__security__protocol": "SASL_PLAINTEXT", "kafka__sasl__mechanism": "PLAIN"}
    sasl |= {"kafka__default__api__timeout__ms": "600000"}  # beyond the test's own limit
    for password, error, words in (
        (guarded.users["alice"], "TOPIC_AUTHORIZATION_FAILED", f"Topic:{topic}"),
        ("hunter2", "SASL_AUTHENTICATION_FAILED", ""),
    ):
        login = {**sasl, "kafka__sasl__jaas__config": jaas.format(password)}
        name, text = refusal(guarded.sasl_bootstrap, subscribe=topic, **login)
        assert (name, words in text, password in text) == (error, True, False)
