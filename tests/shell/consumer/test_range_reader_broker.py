"""RangeReader against a real broker: odd data, gaps, transactions, loss, brokers that go and come back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.kafka import blocking_client
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.kafka.fetch.range_reader import FetchError, RangeReader
from tests.kit.admin import LOG_APPEND_TIME
from tests.kit.broker import Broker
from tests.kit.produce import open_transaction, produce, producer
from tests.kit.proxy import SilentProxy
from tests.kit.ranges import direct

pytestmark = pytest.mark.usefixtures("impatience")


def conf(broker: Broker, **more: Any) -> dict[str, Any]:
    """The settings of a reader; ``more`` with ``_`` for ``.``."""
    return {"bootstrap.servers": broker.bootstrap, **{key.replace("_", "."): value for key, value in more.items()}}


def committed(broker: Broker) -> dict[str, Any]:
    """The settings of a reader that sees committed records only."""
    return conf(broker, isolation_level="read_committed")


@pytest.mark.usefixtures("each_source")
def test_nulls_headers_and_the_brokers_clock(broker: Broker, topic: str) -> None:
    """LogAppendTime is timestampType 1 with the broker's time; nulls, empties and header lists arrive as written."""
    broker.admin.create_topic(topic, configs=LOG_APPEND_TIME)
    client = producer(broker.bootstrap)
    client.produce(topic, None, b"", 0, timestamp=1)
    client.produce(topic, b"", None, 0, timestamp=2, headers=[("k", None), ("k", b""), ("k", b"v")])
    client.flush(10)
    rows = direct(conf(broker), [Range(topic, 0, 0, 2)])[TopicPartition(topic, 0)]
    assert [(row["key"], row["value"]) for row in rows] == [(b"", None), (None, b"")]
    headers = [{"key": "k", "value": None}, {"key": "k", "value": b""}, {"key": "k", "value": b"v"}]
    assert [row["headers"] for row in rows] == [None, headers]
    assert {row["timestampType"] for row in rows} == {1}
    assert min(row["timestamp"].timestamp() for row in rows) > 1_000_000_000


def test_a_broker_that_falls_silent_hides_no_open_transaction(broker: Broker, topic: str) -> None:
    """While it waits for the transaction, the last question is late, and the reason is still told."""
    broker.admin.create_topic(topic)
    client = open_transaction(broker.bootstrap, topic, 0, 1)
    silence = threading.Timer(2, broker.pause)
    silence.start()
    try:
        with pytest.raises(FetchError, match=r"transaction is open at offset 0.*isolation.level is read_committed"):
            direct(committed(broker), [Range(topic, 0, 0, 1)], poll_timeout_ms=5_000)
    finally:
        silence.join()
        broker.resume()
    client.commit_transaction(30)


@pytest.fixture
def silent_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is asked besides records goes to a port that takes connections and never answers."""
    with SilentProxy() as nobody:
        cluster = ClusterClient({"bootstrap.servers": f"127.0.0.1:{nobody.port}"})

        def ask_nobody(question: Callable[..., Any], _: ClusterClient, *arguments: Any, **more: Any) -> Any:
            return question(cluster, *arguments, **more)

        for question in (blocking_client.topic, blocking_client.topic_ids, blocking_client.log_range):
            monkeypatch.setattr(blocking_client, question.__name__, partial(ask_nobody, question))
        yield
        cluster.close()


@pytest.mark.usefixtures("silent_cluster")
def test_nobody_tells_whether_a_transaction_is_open(broker: Broker, topic: str) -> None:
    """That is no loss and no bare time-out: the range fails by its own time, and says what was asked in vain."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 5)
    with pytest.raises(
        FetchError, match=f"topic {topic} partition 0 .*no progress at offset 5 for 1000 ms.*(no answer|[Tt]imed out)"
    ):
        direct(committed(broker), [Range(topic, 0, 0, 10)], poll_timeout_ms=1_000)


@pytest.mark.usefixtures("silent_cluster")
def test_nobody_tells_which_topic_it_is(broker: Broker, topic: str) -> None:
    """As above, where the records are of another topic of that name; librdkafka, which tells no id, asks before it reads."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 5)
    words = rf"(topic {topic} partition 0 .*no progress at offset 0|no broker tells the ids).*(no answer|[Tt]imed out)"
    with closing(RangeReader(conf(broker), poll_timeout_ms=1_000)) as reader, pytest.raises(FetchError, match=words):
        list(reader.read([Range(topic, 0, 0, 5)], {topic: "lj7XrdGBSHu-2_Ybcic80w"}))


def test_missing_and_deleted_topics(broker: Broker, topic: str) -> None:
    """A topic or partition that the cluster doesn't have is named within seconds."""
    with pytest.raises(FetchError, match=f"topic {topic} partition 0 .*no such partition"):
        direct(conf(broker), [Range(topic, 0, 0, 5)], poll_timeout_ms=60_000)
    broker.admin.create_topic(topic, partitions=2)
    produce(broker.bootstrap, topic, 10, partitions=2)
    with pytest.raises(FetchError, match=f"topic {topic} partition 2 .*no such partition"):
        direct(conf(broker), [Range(topic, 0, 0, 5), Range(topic, 2, 0, 5)], poll_timeout_ms=60_000)


@pytest.mark.parametrize(
    "how", [pytest.param("stopped", marks=pytest.mark.thorough("a broker is killed and started")), "frozen"]
)
def test_a_broker_away_for_some_seconds(guarded: Broker, topic: str, how: str) -> None:
    """Stopped and started, or frozen and thawed, in the middle of a range: the read goes on and has every row once."""
    guarded.admin.create_topic(topic, partitions=2)
    produce(guarded.bootstrap, topic, 100_000, partitions=2)
    away, back = (guarded.kill, guarded.start) if how == "stopped" else (guarded.pause, guarded.resume)
    small = {
        "queued_max_messages_kbytes": 1_000,
        "max_partition_fetch_bytes": 200_000,
        "fetch_max_bytes": 1_000_000,
    }
    reader = RangeReader(conf(guarded, socket_timeout_ms=2_000, **small))
    seen: dict[int, list[int]] = {0: [], 1: []}
    begun, gone = threading.Event(), threading.Event()

    def read() -> None:
        for tp, _, batch in reader.read([Range(topic, number, 0, 50_000) for number in range(2)]):
            begun.set()
            gone.wait(30)
            assert batch is not None
            seen[tp.partition] += batch.column("offset").to_pylist()

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    assert begun.wait(30)
    away()
    gone.set()
    reading.join(3)
    assert reading.is_alive()
    back()
    reading.join(60)
    reader.close()
    assert seen == {0: list(range(50_000)), 1: list(range(50_000))}


def test_permissions(guarded: Broker, topic: str) -> None:
    """READ on the topic is all that reading takes: no permission on any group; without it the error names the topic."""
    opened, closed = f"{topic}-open", f"{topic}-closed"
    for name, operation in ((opened, "read"), (closed, "describe")):
        guarded.admin.create_topic(name)
        produce(guarded.bootstrap, name, 10)
        guarded.admin.allow("alice", "topic", name, operation)
    settings = guarded.sasl_conf("alice")
    rows = direct(settings, [Range(opened, 0, 0, 10)], poll_timeout_ms=20_000)
    assert len(rows[TopicPartition(opened, 0)]) == 10
    with pytest.raises(FetchError, match=f"no permission to read topic {closed}"):
        direct(settings, [Range(closed, 0, 0, 10)], poll_timeout_ms=20_000)
    with pytest.raises(FetchError) as caught:
        direct(guarded.sasl_conf("alice", "wrong-word"), [Range(opened, 0, 0, 10)])
    assert "uthentication" in str(caught.value)
    assert "wrong-word" not in str(caught.value)
