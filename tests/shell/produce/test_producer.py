"""The producer against real brokers: what is written is there, once where nothing went wrong, at least once and in order else."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from hypothesis import HealthCheck, Phase, given, settings

from sparkcohort.runtime.kafka.fetch_messages import PRODUCE
from sparkcohort.runtime.shell.kafka.produce.produce_report import ProduceError, ProduceReport
from sparkcohort.runtime.shell.kafka.produce.row_producer import Producer
from sparkcohort.runtime.shell.kafka.produce.wire_sender import WireSender
from sparkcohort.runtime.shell.options.producer_settings import ProducerSettings
from tests.kit import consumer_groups
from tests.kit.broker import Broker, Cluster
from tests.kit.record_batches import CODECS
from tests.kit.scripted_broker import ScriptedBroker
from tests.kit.shared_brokers import PASSWORD, Guarded
from tests.kit.tokens import Desk, token_options
from tests.kit.waiting import wait_until
from tests.kit.written_records import ROWS, WrittenRecords, WrittenRow, arrow_rows, plain_murmur2


@contextmanager
def producing(bootstrap: str, **options: str) -> Iterator[Producer]:
    """A producer; ``options`` with ``_`` for ``.``."""
    named = {name.replace("_", "."): value for name, value in options.items()}
    producer = Producer(ProducerSettings.parse({"bootstrap.servers": bootstrap, **named}))
    try:
        yield producer
    finally:
        producer.close()


def _numbered(topic: str, first: int, count: int, partitions: int, size: int = 100) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.record_batch(
        {
            "topic": pa.array([topic] * count, pa.string()),
            "partition": pa.array([number % partitions for number in numbers], pa.int32()),
            "value": pa.array([b"%d " % number + b"x" * size for number in numbers], pa.binary()),
        }
    )


def _read(bootstrap: str, topic: str, ends: dict[int, int]) -> dict[int, list[Any]]:
    """All messages, by partition."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "read", "enable.auto.commit": False, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    read: dict[int, list[Any]] = {partition: [] for partition in ends}

    def whole() -> bool:
        for message in consumer.consume(10_000, 0.2):
            assert message.error() is None, message.error()
            read[message.partition() or 0].append(message)
        return all(len(read[partition]) >= end for partition, end in ends.items())

    try:
        wait_until(whole, 60, f"all of {topic}", every_s=0)
    finally:
        consumer.close()
    return read


def _numbers(bootstrap: str, topic: str, ends: dict[int, int]) -> dict[int, list[int]]:
    return {
        partition: [int(message.value().split(b" ")[0]) for message in messages]
        for partition, messages in _read(bootstrap, topic, ends).items()
    }


def _check_at_least_once(numbers: dict[int, list[int]], count: int) -> None:
    """Each number is there, the first times in order; a number that comes again does so with those that followed it."""
    assert {number for run in numbers.values() for number in run} == set(range(count))
    for run in numbers.values():
        first_times = list(dict.fromkeys(run))
        assert first_times == sorted(first_times)


def test_random_rows_are_read_by_librdkafka_and_kafka_clients(broker: Broker, topic: str, java: WrittenRecords) -> None:
    """Keys, nulls, tombstones, headers, times; in every codec, by one producer for all of a codec's rows."""
    broker.admin.create_topic(topic, 5, configs={"retention.ms": "-1"})  # some rows are of 1970
    written: list[WrittenRow] = []
    for codec in CODECS:
        with producing(broker.bootstrap, compression_type=codec, batch_size="2000") as producer:
            written += _write_random_rows(producer, topic)
    ends = broker.admin.ends(topic)
    assert sum(ends.values()) == len(written)
    got: list[WrittenRow] = []
    for partition, messages in _read(broker.bootstrap, topic, ends).items():
        rows = [
            WrittenRow(message.timestamp()[1], message.key(), message.value(), message.headers() or [], partition)
            for message in messages
        ]
        got += rows
        assert java.topic(broker.bootstrap, topic, partition, ends[partition]) == [
            row._replace(partition=None) for row in rows
        ]
    for row in got:
        assert row.key is None or row.partition is not None
    free = {(row.time, row.key, row.value, str(row.headers)) for row in written if row.partition is None}
    placed = {
        (row.time, row.key, row.value, str(row.headers), row.partition) for row in written if row.partition is not None
    }
    for row in got:
        known = (row.time, row.key, row.value, str(row.headers), row.partition) in placed
        assert known or (row.time, row.key, row.value, str(row.headers)) in free
        if not known and row.key is not None:
            assert row.partition == (plain_murmur2(row.key) & 0x7FFFFFFF) % 5


@pytest.mark.parametrize("replicated", [False, True], ids=["acks all", "acks 1"])
def test_order_and_count_hold(broker: Broker, topic: str, replicated: bool) -> None:
    """Many writes, several topics in one, batches that linger; the report counts them."""
    other = f"{topic}-other"
    broker.admin.create_topic(topic, 3)
    broker.admin.create_topic(other, 1)
    with producing(
        broker.bootstrap, acks="1" if replicated else "all", batch_size="10000", linger_ms="1000"
    ) as producer:
        for first in range(0, 6000, 500):
            both = pa.Table.from_batches([_numbered(topic, first, 500, 3), _numbered(other, first, 500, 1)])
            producer.write(both.combine_chunks().to_batches()[0])
        report = producer.flush()
        assert producer.flush() == ProduceReport()
    assert report.rows == {topic: 6000, other: 6000}
    assert report.batches[other] >= 60
    assert report.bytes[other] > 600_000
    for name, partitions in ((topic, 3), (other, 1)):
        numbers = _numbers(broker.bootstrap, name, dict.fromkeys(range(partitions), 6000 // partitions))
        assert numbers == {number: list(range(number, 6000, partitions)) for number in range(partitions)}


def _write_random_rows(producer: Producer, topic: str) -> list[WrittenRow]:
    examples: list[list[WrittenRow]] = []

    @settings(max_examples=8, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    @given(rows=ROWS)
    def draw_rows(rows: list[WrittenRow]) -> None:
        examples.append([row._replace(time=row.time % (1 << 40)) for row in rows])  # brokers refuse times to come

    draw_rows()
    for rows in examples:
        producer.write(arrow_rows(rows, topic))
        report = producer.flush()
        assert sum(report.rows.values()) == len(rows)
        assert not report.retries
    return [row for rows in examples for row in rows]


def _write_beside(
    producer: Producer, topic: str, count: int, partitions: int, act: Callable[[], None]
) -> ProduceReport:
    """Write in a thread while something happens after a third: a broker ends with the thread that started it."""
    written, results = threading.Event(), Queue[ProduceReport | BaseException]()

    def write() -> None:
        try:
            for first in range(0, count, 200):
                if first >= count // 3:
                    written.set()
                producer.write(_numbered(topic, first, 200, partitions, 1000))
            results.put(producer.flush())
        except BaseException as error:  # noqa: BLE001  the test's, whatever it is
            results.put(error)
        written.set()

    threading.Thread(target=write, daemon=True).start()
    assert written.wait(60)
    act()
    result = results.get(timeout=90)
    assert isinstance(result, ProduceReport), result
    return result


def test_a_broker_that_is_killed_and_comes_back_loses_nothing(topic: str) -> None:
    """At least once, in order; the idempotent producer writes nothing twice that the log still knows."""
    with Broker() as broker:
        broker.admin.create_topic(topic, 4)
        with producing(broker.bootstrap, linger_ms="0", buffer_memory="1000000") as producer:

            def restart() -> None:
                broker.kill()
                broker.start()

            report = _write_beside(producer, topic, 20_000, 4, restart)
        assert report.rows == {topic: 20_000}
        _check_at_least_once(_numbers(broker.bootstrap, topic, broker.admin.ends(topic)), 20_000)


def test_connections_that_are_cut_write_nothing_twice(pair: Cluster, topic: str) -> None:
    """The broker knows a batch that comes again by its sequence."""
    pair.admin.create_topic(topic, assignment=[2, 2])
    with producing(pair.bootstrap, linger_ms="0", buffer_memory="500000") as producer:

        def cut() -> None:
            for _ in range(5):
                pair.relays[2].cut()
                threading.Event().wait(0.2)

        report = _write_beside(producer, topic, 20_000, 2, cut)
    numbers = _numbers(pair.bootstrap, topic, pair.admin.ends(topic))
    assert numbers == {0: list(range(0, 20_000, 2)), 1: list(range(1, 20_000, 2))}
    assert report.retries.get(topic, 0) > 0


def test_a_leader_that_moves_is_followed(topic: str) -> None:
    """Its replica leads when the broker stops; nothing is lost, nothing out of order."""
    with Cluster(2) as cluster:
        cluster.admin.create_topic(topic, assignment=[[2, 1], [1, 2]], configs={"min.insync.replicas": "1"})
        with producing(cluster.bootstrap, linger_ms="0", buffer_memory="1000000") as producer:
            report = _write_beside(producer, topic, 20_000, 2, cluster.node(2).stop)
        assert report.rows == {topic: 20_000}
        _check_at_least_once(_numbers(cluster.bootstrap, topic, cluster.admin.ends(topic)), 20_000)


def test_a_topic_with_a_smaller_limit_gets_smaller_batches(broker: Broker, topic: str) -> None:
    """Split until they fit, in order and once; a row that doesn't fit alone is an error, without what is in it."""
    broker.admin.create_topic(topic, 2, configs={"max.message.bytes": "3000"})
    with producing(broker.bootstrap) as producer:
        producer.write(_numbered(topic, 0, 1000, 2))
        producer.flush()
        ends = broker.admin.ends(topic)
        assert _numbers(broker.bootstrap, topic, ends) == {0: list(range(0, 1000, 2)), 1: list(range(1, 1000, 2))}
        secret = pa.record_batch({"topic": [topic], "key": [b"secret"], "value": [b"secret" * 1000]})
        producer.write(secret)
        with pytest.raises(ProduceError) as raised:
            producer.flush()
        assert f"topic {topic} partition" in str(raised.value)
        assert "max.message.bytes" in str(raised.value)
        assert "secret" not in str(raised.value)
        with pytest.raises(ProduceError):  # it has ended
            producer.write(secret)


def test_no_topic_and_no_permission_are_said_by_name(broker: Broker, guarded: Guarded, topic: str) -> None:
    """With the remedy; a missing topic within max.block.ms."""
    row = pa.record_batch({"topic": [topic], "value": [b"x"]})
    with (
        producing(broker.bootstrap, max_block_ms="500") as producer,
        pytest.raises(ProduceError, match="no such topic"),
    ):
        producer.write(row)
        producer.flush()
    guarded.admin.create_topic(topic, 1)
    login = {name: value for name, value in guarded.sasl_conf("alice").items() if name != "bootstrap.servers"}
    with producing(guarded.sasl_bootstrap, **login) as producer, pytest.raises(ProduceError) as raised:
        producer.write(row)
        producer.flush()
    assert raised.value.error == "TOPIC_AUTHORIZATION_FAILED"
    assert "--operation Write" in str(raised.value)
    guarded.admin.allow("alice", "topic", topic, "write", "describe")
    wait_until(lambda: _is_written(guarded.sasl_bootstrap, row, login), 20, "the permission")
    with (
        producing(guarded.sasl_bootstrap, **{**login, "sasl.password": "wrong"}) as producer,
        pytest.raises(ProduceError, match=r"see kafka\.sasl\.jaas\.config"),
    ):
        producer.write(row)


def _is_written(bootstrap: str, rows: pa.RecordBatch, login: dict[str, str]) -> bool:
    """Whether our own client may write these rows yet: a broker hears of a right a moment later."""
    with producing(bootstrap, **login) as producer:
        assert isinstance(producer._sender, WireSender)
        try:
            producer.write(rows)
            return bool(sum(producer.flush().rows.values()) == rows.num_rows)
        except ProduceError as error:
            assert error.error == "TOPIC_AUTHORIZATION_FAILED"
            return False


@pytest.mark.parametrize("login", ["TLS", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_logins(guarded: Guarded, topic: str, tmp_path: Path, login: str) -> None:
    """As the source's, by our own client."""
    guarded.admin.create_topic(topic, 1)
    assert guarded.authority is not None
    bootstrap, user = guarded.sasl_bootstrap, "alice"
    if login == "TLS":
        bootstrap = guarded.at["SSL"]
        given = {"security.protocol": "SSL", "ssl.ca.location": str(guarded.authority.path)}
    elif login == "OAUTHBEARER":
        named = token_options(bootstrap, Desk(tmp_path))
        given = {name.removeprefix("kafka."): value for name, value in named.items() if "bootstrap" not in name}
    else:
        user = f"user-of-{topic}"
        guarded.admin.add_users(login, {user: PASSWORD})
        given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": login}
        given |= {"sasl.username": user, "sasl.password": PASSWORD}
    guarded.admin.allow(user, "topic", topic, "write", "describe")
    rows = _numbered(topic, 0, 4000, 1, 2000)
    wait_until(lambda: _is_written(bootstrap, rows, given), 20, "the permission")
    assert _numbers(guarded.bootstrap, topic, {0: 4000}) == {0: list(range(4000))}


def test_an_answer_that_cannot_be_read() -> None:
    """Its batches are sent again, and the next answer counts."""
    share = struct.pack(">ihqqq", 0, 0, 5, -1, 0) + b"\1\0\0"
    answers = iter([b"\0\2\2t\2" + share[:-9], b"\0\2\2t\2" + share + bytes(6)])
    with ScriptedBroker(lambda number: struct.pack(">i", number) + next(answers)) as broker:
        broker.speaks[PRODUCE] = 9
        with producing(broker.bootstrap, enable_idempotence="false", delivery_timeout_ms="31000") as producer:
            producer.write(pa.record_batch({"topic": ["t"], "value": [b"x"]}))
            report = producer.flush()
    assert (report.rows, report.retries) == ({"t": 1}, {"t": 1})


@pytest.mark.thorough("Kafka's tool sets a quota, of which brokers hear later")
def test_a_quota_is_obeyed(pair: Cluster, topic: str) -> None:
    """The producer waits for as long as its broker says (KIP-219): each row once, in about the time that the quota allows."""
    rate, count, size = 1 << 20, 3000, 1000
    pair.admin.create_topic(topic, assignment=[1])
    quota = (
        "--entity-type",
        "clients",
        "--entity-name",
        f"client-{topic}",
        "--add-config",
        f"producer_byte_rate={rate}",
    )
    consumer_groups.run(pair.bootstrap, "--alter", *quota, program="kafka.admin.ConfigCommand")
    written = 0

    def write() -> float:
        nonlocal written
        with producing(pair.bootstrap, client_id=f"client-{topic}") as producer:
            began = time.monotonic()
            producer.write(_numbered(topic, written, count, 1, size))
            report = producer.flush()
            assert (report.rows, report.retries) == ({topic: count}, {})
            took, written = time.monotonic() - began, written + count
            assert isinstance(producer._sender, WireSender)
            delivery = producer._sender._delivery
            pauses.append(delivery._links[1].not_before - delivery.now())
        return took

    pauses: list[float] = []
    allowed = count * size / rate
    took = wait_until(
        lambda: took if (took := write()) and pauses[-1] > 0 else None, 60, "a broker that knows the quota"
    )
    assert allowed / 4 < took < allowed * 8
    assert _numbers(pair.bootstrap, topic, {0: written}) == {0: list(range(written))}


def test_a_writer_that_is_faster_than_its_broker_stops(pair: Cluster, topic: str) -> None:
    """At buffer.memory: nothing grows; the time is in the report.  A broker that stays away ends it by delivery.timeout.ms."""
    pair.admin.create_topic(topic, assignment=[2])
    with producing(
        pair.bootstrap, buffer_memory="2000000", request_timeout_ms="1000", delivery_timeout_ms="3000", linger_ms="0"
    ) as producer:
        producer.write(_numbered(topic, 0, 10, 1))
        producer.flush()
        pair.relays[2].hold()
        began, count = time.monotonic(), 0
        with pytest.raises(ProduceError, match=r"not acknowledged within 3 s \(kafka\.delivery\.timeout\.ms") as raised:
            for count in range(1000):  # noqa: B007  after the loop
                producer.write(_numbered(topic, 0, 1000, 1, 1000))
        assert count < 20
        assert 2 < time.monotonic() - began < 30
        assert f"topic {topic} partition 0" in str(raised.value)


def test_time_that_the_caller_takes_counts_for_no_limit(broker: Broker, topic: str) -> None:
    """A task may compute for longer than delivery.timeout.ms between two writes."""
    broker.admin.create_topic(topic, 1)
    with producing(
        broker.bootstrap, request_timeout_ms="1000", delivery_timeout_ms="2000", linger_ms="0", batch_size="1000"
    ) as producer:
        for first in range(0, 300, 100):
            producer.write(_numbered(topic, first, 100, 1))
            threading.Event().wait(1.0)
        assert producer.flush().rows == {topic: 300}
    assert _numbers(broker.bootstrap, topic, {0: 300}) == {0: list(range(300))}


def test_the_same_over_librdkafka(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For logins that only librdkafka has: the same rows in the same partitions, the same counts, an error by name."""
    broker.admin.create_topic(topic, 5, configs={"max.message.bytes": "3000"})
    monkeypatch.setattr(ProducerSettings, "librdkafka_reason", "this test")
    rows = [
        WrittenRow(1000 + at, b"%d" % at, None if at % 3 else b"v", [("h", b"1"), ("n", None)][: at % 3])
        for at in range(500)
    ]
    with producing(broker.bootstrap) as producer:
        producer.write(arrow_rows(rows, topic))
        assert producer.flush().rows == {topic: 500}
        got = [
            WrittenRow(message.timestamp()[1], message.key(), message.value(), message.headers() or [], partition)
            for partition, messages in _read(broker.bootstrap, topic, broker.admin.ends(topic)).items()
            for message in messages
        ]
        assert sorted(got) == sorted(
            row._replace(partition=(plain_murmur2(row.key or b"") & 0x7FFFFFFF) % 5) for row in rows
        )
        producer.write(pa.record_batch({"topic": [topic], "value": [b"secret" * 1000]}))
        with pytest.raises(ProduceError) as raised:
            producer.flush()
    assert "max.message.bytes" in str(raised.value)
    assert "secret" not in str(raised.value)
