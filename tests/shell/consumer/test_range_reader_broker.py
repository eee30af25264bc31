"""RangeReader against a real broker: odd data, gaps, transactions, loss, brokers that go and come back."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.kafka.consumer.range_reader import DataLossError, FetchError, RangeReader
from tests.kit.admin import COMPACTED, LOG_APPEND_TIME
from tests.kit.broker import Broker
from tests.kit.produce import abort, open_transaction, produce, producer, transact, value_of
from tests.kit.proxy import SilentProxy
from tests.kit.ranges import direct, offsets
from tests.kit.waiting import wait_until


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


@pytest.mark.usefixtures("each_source")
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches(broker: Broker, topic: str, compression: str) -> None:
    """A range that starts and ends in the middle of compressed batches has exactly its rows."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 5_000, compression=compression)
    rows = direct(conf(broker), [Range(topic, 0, 1_234, 4_321)])[TopicPartition(topic, 0)]
    assert [row["value"] for row in rows] == [value_of(0, at) for at in range(1_234, 4_321)]


@pytest.mark.usefixtures("each_source")
def test_values_of_a_megabyte(broker: Broker, topic: str) -> None:
    """Values as large as a fetch come whole, in batches that stay near eight megabytes."""
    broker.admin.create_topic(topic, configs={"max.message.bytes": str(8 << 20)})
    size = 1 << 20
    produce(broker.bootstrap, topic, 60, partitions=1, value_bytes=size)
    client = producer(broker.bootstrap)
    client.produce(topic, b"y" * (5 << 20), None, 0)
    client.flush(30)
    reader = RangeReader(conf(broker))
    sizes: list[int] = []
    for _, _, batch in reader.read([Range(topic, 0, 0, 61)]):
        assert batch is not None
        assert batch.nbytes < 40 << 20
        sizes += [len(value) for value in batch.column("value").to_pylist()]
    reader.close()
    assert sizes == [size] * 60 + [5 << 20]


def test_gaps_of_compaction(broker: Broker, topic: str) -> None:
    """Offsets that compaction took away are legal gaps, at the end of a range, too."""
    broker.admin.create_topic(topic, configs=COMPACTED)
    client = producer(broker.bootstrap)

    def gaps() -> list[int] | None:
        client.produce(topic, b"v", b"same", 0)  # rolls the segment, so that those before it are cleaned
        client.flush(10)
        end = broker.admin.ends(topic)[0]
        seen = offsets(direct(conf(broker), [Range(topic, 0, 0, end)])[TopicPartition(topic, 0)])
        return seen if len(seen) < end - 2 else None

    left = wait_until(gaps, 60, "compaction", every_s=0.3)
    assert left is not None
    hole = next(at for at in range(left[-1]) if at not in left)
    assert direct(conf(broker), [Range(topic, 0, hole, hole + 1)]) == {}


@pytest.mark.usefixtures("each_source")
def test_aborted_transactions(broker: Broker, topic: str) -> None:
    """read_committed passes over aborted records and control records, read_uncommitted over the latter only."""
    broker.admin.create_topic(topic)
    transact(broker.bootstrap, topic, 10)  # 0-9, commit marker 10
    abort(broker.bootstrap, topic, 10)  # 11-20, abort marker 21
    transact(broker.bootstrap, topic, 5, first=10)  # 22-26, marker 27
    abort(broker.bootstrap, topic, 300)  # 28-327, marker 328: the tail
    tp, whole = TopicPartition(topic, 0), Range(topic, 0, 0, 329)
    seen = [*range(10), *range(22, 27)]
    assert broker.admin.ends(topic, committed_only=True) == {0: 329}
    assert offsets(direct(committed(broker), [whole])[tp]) == seen
    assert offsets(direct(conf(broker), [whole])[tp]) == [*range(10), *range(11, 21), *range(22, 27), *range(28, 328)]
    for start, end in ((11, 22), (10, 11), (27, 329), (100, 200), (21, 28)):
        rows = direct(committed(broker), [Range(topic, 0, start, end)])
        assert offsets(rows.get(tp, [])) == [at for at in seen if start <= at < end]


@pytest.mark.usefixtures("each_source")
def test_an_aborted_tail_ends_quickly(broker: Broker, topic: str) -> None:
    """A range that ends in aborted records ends at the log's end by position, with no row to say so."""
    broker.admin.create_topic(topic)
    abort(broker.bootstrap, topic, 50)
    assert direct(committed(broker), [Range(topic, 0, 0, 51)], poll_timeout_ms=3_000) == {}
    produce(broker.bootstrap, topic, 5)
    assert direct(committed(broker), [Range(topic, 0, 0, 51)], poll_timeout_ms=3_000) == {}


def test_an_open_transaction_is_no_loss(broker: Broker, topic: str) -> None:
    """A range behind the last stable offset waits for the transaction, and the error says what it waited for."""
    broker.admin.create_topic(topic)
    client = open_transaction(broker.bootstrap, topic, 0, 10)
    with pytest.raises(FetchError, match=r"transaction is open at offset 0.*isolation.level is read_committed"):
        direct(committed(broker), [Range(topic, 0, 0, 5)], poll_timeout_ms=2_000)
    end = threading.Timer(1, client.commit_transaction, [30])
    end.start()
    rows = direct(committed(broker), [Range(topic, 0, 0, 5)], poll_timeout_ms=30_000)
    end.join()
    assert offsets(rows[TopicPartition(topic, 0)]) == list(range(5))


def test_a_broker_that_falls_silent_hides_no_open_transaction(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it waits for the transaction, one client asks; the last question is late, and the reason is still told."""
    broker.admin.create_topic(topic)
    client = open_transaction(broker.bootstrap, topic, 0, 1)
    new_admin = clients.new_admin
    made: list[Mapping[str, str]] = []

    def counted(settings: Mapping[str, str]) -> AdminClient:
        made.append(settings)
        return new_admin(settings)

    monkeypatch.setattr(clients, "new_admin", counted)
    silence = threading.Timer(4, broker.pause)
    silence.start()
    try:
        with pytest.raises(FetchError, match=r"transaction is open at offset 0.*isolation.level is read_committed"):
            direct(committed(broker), [Range(topic, 0, 0, 1)], poll_timeout_ms=8_000)
    finally:
        silence.join()
        broker.resume()
    assert len(made) == 1
    client.commit_transaction(30)


@pytest.fixture
def silent_admins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is asked of an administrator goes to a port that takes connections and never answers."""
    new_admin = clients.new_admin
    with SilentProxy() as nobody:
        silent = {"bootstrap.servers": f"127.0.0.1:{nobody.port}"}
        monkeypatch.setattr(clients, "new_admin", lambda conf: new_admin({**conf, **silent}))
        yield


@pytest.mark.usefixtures("silent_admins")
def test_nobody_tells_whether_a_transaction_is_open(broker: Broker, topic: str) -> None:
    """That is no loss and no bare time-out: the range fails by its own time, and says what was asked in vain."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 5)
    with pytest.raises(
        FetchError, match=f"topic {topic} partition 0 .*no progress at offset 5 for 1000 ms.*(no answer|[Tt]imed out)"
    ):
        direct(committed(broker), [Range(topic, 0, 0, 10)], poll_timeout_ms=1_000)


@pytest.mark.usefixtures("silent_admins")
def test_nobody_tells_which_topic_it_is(broker: Broker, topic: str) -> None:
    """As above, where the records are of another topic of that name; librdkafka, which tells no id, asks before it reads."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 5)
    words = rf"(topic {topic} partition 0 .*no progress at offset 0|no broker tells the ids).*(no answer|[Tt]imed out)"
    with closing(RangeReader(conf(broker), poll_timeout_ms=1_000)) as reader, pytest.raises(FetchError, match=words):
        list(reader.read([Range(topic, 0, 0, 5)], {topic: "lj7XrdGBSHu-2_Ybcic80w"}))


@pytest.mark.usefixtures("each_source")
def test_retention_passes_the_range(broker: Broker, topic: str) -> None:
    """Records deleted under a range fail it by Spark's condition, or are skipped to the next available offset."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 100)
    broker.admin.delete_records(topic, {0: 40})
    with pytest.raises(DataLossError, match=r"^\[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE\].*\[10, 40\)"):
        direct(conf(broker), [Range(topic, 0, 10, 60)])
    losses: list[str] = []
    options: dict[str, Any] = {"fail_on_data_loss": False, "on_data_loss": losses.append}
    rows = direct(conf(broker), [Range(topic, 0, 10, 60)], **options)
    assert offsets(rows[TopicPartition(topic, 0)]) == list(range(40, 60))
    assert direct(conf(broker), [Range(topic, 0, 10, 30)], **options) == {}
    assert direct(conf(broker), [Range(topic, 0, 100, 120)], **options) == {}
    assert len(losses) == 3


def test_missing_and_deleted_topics(broker: Broker, topic: str) -> None:
    """A topic or partition that the cluster doesn't have is named within seconds."""
    with pytest.raises(FetchError, match=f"topic {topic} partition 0 .*no such partition"):
        direct(conf(broker), [Range(topic, 0, 0, 5)], poll_timeout_ms=60_000)
    broker.admin.create_topic(topic, partitions=2)
    produce(broker.bootstrap, topic, 10, partitions=2)
    with pytest.raises(FetchError, match=f"topic {topic} partition 2 .*no such partition"):
        direct(conf(broker), [Range(topic, 0, 0, 5), Range(topic, 2, 0, 5)], poll_timeout_ms=60_000)


@pytest.mark.parametrize("how", ["stopped", "frozen"])
def test_a_broker_away_for_some_seconds(how: str) -> None:
    """Stopped and started, or frozen and thawed, in the middle of a range: the read goes on and has every row once."""
    with Broker() as broker:
        broker.admin.create_topic("t", partitions=2)
        produce(broker.bootstrap, "t", 100_000, partitions=2)
        away, back = (broker.kill, broker.start) if how == "stopped" else (broker.pause, broker.resume)
        small = {
            "queued_max_messages_kbytes": 1_000,
            "max_partition_fetch_bytes": 200_000,
            "fetch_max_bytes": 1_000_000,
        }
        reader = RangeReader(conf(broker, socket_timeout_ms=2_000, **small))
        seen: dict[int, list[int]] = {0: [], 1: []}
        begun, gone = threading.Event(), threading.Event()

        def read() -> None:
            for tp, _, batch in reader.read([Range("t", number, 0, 50_000) for number in range(2)]):
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


def test_permissions() -> None:
    """READ on the topic is all that reading takes: no permission on any group; without it the error names the topic."""
    with Broker(users={"alice": "secret-of-alice"}) as broker:
        broker.admin.create_topic("open")
        broker.admin.create_topic("closed")
        for name in ("open", "closed"):
            produce(broker.bootstrap, name, 10)
        broker.admin.allow("alice", "topic", "open", "read")
        broker.admin.allow("alice", "topic", "closed", "describe")
        settings = broker.sasl_conf("alice")
        rows = direct(settings, [Range("open", 0, 0, 10)], poll_timeout_ms=20_000)
        assert len(rows[TopicPartition("open", 0)]) == 10
        with pytest.raises(FetchError, match="no permission to read topic closed"):
            direct(settings, [Range("closed", 0, 0, 10)], poll_timeout_ms=20_000)
        with pytest.raises(FetchError) as caught:
            direct(broker.sasl_conf("alice", "wrong-word"), [Range("open", 0, 0, 10)])
        assert "uthentication" in str(caught.value)
        assert "wrong-word" not in str(caught.value)
