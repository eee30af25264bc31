"""Everything that can happen to a range, read directly and by the agent: the same rows, or the same error.

What the agent has fetched ahead may be older than what happens then; whatever it misses the task reads directly.  Cases,
ways and sources are all pairs, on real brokers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest

from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher
from sparkcohort.runtime.shell.kafka.fetch.range_reader import DataLossError, FetchError, RangeReader
from sparkcohort.runtime.values.columns import KAFKA_ROW_WITH_HEADERS
from tests.kit.admin import COMPACTED
from tests.kit.broker import Broker, Cluster
from tests.kit.buffered import buffered
from tests.kit.produce import FLUSH_TIMEOUT_S, abort, open_transaction, produce, producer, transact, value_of
from tests.kit.ranges import Rows, offsets, pull, tasks_read
from tests.kit.record_sources import SOURCES, read_by
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.usefixtures("impatience")
WAYS = ("directly", "by the agent")


def pairs(first: int) -> pytest.MarkDecorator:
    """Each source with a way, in turn: tables that begin with another way have the other half of the pairs."""
    table = [(source, WAYS[(first + number) % 2]) for number, source in enumerate(SOURCES)]
    return pytest.mark.parametrize(("each_source", "way"), table, indirect=["each_source"])


def conf(broker: Cluster, **more: Any) -> dict[str, Any]:
    """The settings of a reader; ``more`` with ``_`` for ``.``."""
    return {"bootstrap.servers": broker.bootstrap, **{key.replace("_", "."): value for key, value in more.items()}}


@contextmanager
def fetched_ahead(conf: dict[str, Any], tp: TopicPartition, end: int, start: int = 0) -> Iterator[Prefetcher]:
    """An agent's prefetcher that has the partition's records up to ``end``."""
    prefetcher = Prefetcher(conf, columns=KAFKA_ROW_WITH_HEADERS, patience_s=2)
    prefetcher.assign({tp: start})
    try:
        wait_until(lambda: buffered(prefetcher)[tp].position >= end, 30, f"{tp} fetched up to {end}")
        yield prefetcher
    finally:
        prefetcher.close()


def after(
    prefetcher: Prefetcher, conf: dict[str, Any], wanted: Range, plan_seq: int = 1, **options: Any
) -> tuple[list[dict[str, Any]], list[Range]]:
    """The rows of a range by way of this prefetcher, and what it missed."""
    found: Rows = {}
    missed = pull(prefetcher, [wanted], plan_seq, found)
    rest = tasks_read(conf, missed, "directly", **options)
    return found.get(wanted.tp, []) + rest.get(wanted.tp, []), missed


@pairs(0)
def test_gaps_of_compaction(broker: Broker, topic: str, way: str, each_source: str) -> None:
    """Compacted offsets are passed by position, wherever the range begins and ends in the gaps."""
    broker.admin.create_topic(topic, configs=COMPACTED)
    client = producer(broker.bootstrap)
    for number in range(200):
        client.produce(topic, b"%d" % number, b"k%d" % (number % 7), 0)
    assert client.flush(FLUSH_TIMEOUT_S) == 0
    threading.Event().wait(0.2)  # past segment.ms, so that the next write rolls the segment
    client.produce(topic, b"last", b"last", 0)
    assert client.flush(FLUSH_TIMEOUT_S) == 0
    broker.wait_compacted(topic, 0, 200)
    tp = TopicPartition(topic, 0)
    for start, end, seen in (
        (0, 201, range(193, 201)),
        (0, 195, range(193, 195)),
        (50, 60, ()),
        (198, 201, range(198, 201)),
    ):
        rows = tasks_read(conf(broker), [Range(topic, 0, start, end)], way)
        assert offsets(rows.get(tp, [])) == list(seen)


@pytest.fixture(scope="module")
def transactions(broker: Broker) -> str:
    """A topic of committed and aborted transactions, one behind the other, the last one aborted."""
    topic = "either-way-transactions"
    broker.admin.create_topic(topic)
    transact(broker.bootstrap, topic, 10)  # 0-9, commit marker 10
    abort(broker.bootstrap, topic, 10)  # 11-20, abort marker 21
    transact(broker.bootstrap, topic, 5, first=10)  # 22-26, marker 27
    abort(broker.bootstrap, topic, 300)  # 28-327, marker 328
    return topic


@pairs(1)
@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_transactions(broker: Broker, transactions: str, level: str, way: str, each_source: str) -> None:
    """Control records are nobody's rows, aborted ones read_uncommitted's only; ranges of nothing else end, too."""
    committed, tp = [*range(10), *range(22, 27)], TopicPartition(transactions, 0)
    seen = committed if level == "read_committed" else sorted({*committed, *range(11, 21), *range(28, 328)})
    for start, end in ((0, 329), (11, 22), (10, 11), (27, 329), (100, 200), (21, 28), (328, 329)):
        rows = tasks_read(conf(broker, isolation_level=level), [Range(transactions, 0, start, end)], way)
        assert offsets(rows.get(tp, [])) == [at for at in seen if start <= at < end]


@pairs(0)
def test_an_open_transaction_is_waited_for(broker: Broker, topic: str, way: str, each_source: str) -> None:
    """Behind the last stable offset nothing is read and nothing is lost; the end of the transaction brings the rows."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 5)
    client = open_transaction(broker.bootstrap, topic, 5, 10)
    committed, wanted = conf(broker, isolation_level="read_committed"), Range(topic, 0, 0, 10)
    found: Rows = {}
    with pytest.raises(FetchError, match=r"transaction is open at offset 5"):
        tasks_read(committed, [wanted], way, into=found, patience_s=1, poll_timeout_ms=6_000)
    assert offsets(found[wanted.tp]) == list(range(5))
    client.commit_transaction(30)
    rows = tasks_read(committed, [wanted], way)[wanted.tp]
    assert [row["value"] for row in rows] == [value_of(0, at) for at in range(10)]


@pairs(1)
def test_retention_has_passed_the_range(broker: Broker, topic: str, way: str, each_source: str) -> None:
    """Records that were deleted before anybody fetched them are a loss, or passed over where that is allowed."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 100)
    broker.admin.delete_records(topic, {0: 40})
    tp, wanted = TopicPartition(topic, 0), Range(topic, 0, 10, 60)
    with pytest.raises(DataLossError, match=r"COULD_NOT_READ_OFFSET_RANGE.*\[10, 40\)"):
        tasks_read(conf(broker), [wanted], way)
    losses: list[str] = []
    lenient: dict[str, Any] = {"fail_on_data_loss": False, "on_data_loss": losses.append}
    assert offsets(tasks_read(conf(broker), [wanted], way, **lenient)[tp]) == list(range(40, 60))
    assert tasks_read(conf(broker), [wanted._replace(end=30)], way, **lenient) == {}
    assert len(losses) == 2


@pytest.mark.usefixtures("each_source")
def test_retention_passes_what_is_fetched_already(broker: Broker, topic: str) -> None:
    """What the agent has is what Kafka had: it comes, although Kafka has it no more."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 100)
    with fetched_ahead(conf(broker), TopicPartition(topic, 0), 100) as prefetcher:
        broker.admin.delete_records(topic, {0: 90})
        rows, missed = after(prefetcher, conf(broker), Range(topic, 0, 10, 95))
    assert missed == []
    assert [row["value"] for row in rows] == [value_of(0, at) for at in range(10, 95)]


@pairs(0)
def test_the_log_is_shorter_than_the_range(broker: Broker, topic: str, way: str, each_source: str) -> None:
    """What there is comes, then the loss by Spark's name; a range wholly behind the end is a loss, too."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 10)
    tp = TopicPartition(topic, 0)
    found: Rows = {}
    with pytest.raises(DataLossError, match=r"COULD_NOT_READ_OFFSET_RANGE.*\[10, 15\).*ends at 10"):
        tasks_read(conf(broker), [Range(topic, 0, 5, 15)], way, into=found, patience_s=1)
    assert offsets(found[tp]) == list(range(5, 10))
    losses: list[str] = []
    lenient: dict[str, Any] = {"fail_on_data_loss": False, "on_data_loss": losses.append, "patience_s": 1}
    assert tasks_read(conf(broker), [Range(topic, 0, 100, 110)], way, **lenient) == {}
    assert len(losses) == 1


@pytest.mark.usefixtures("each_source")
def test_a_batch_that_runs_again(broker: Broker, topic: str) -> None:
    """After a restart the agent stands behind the batch: the rows are those of the first time, whoever reads them."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 300)
    tp, batch = TopicPartition(topic, 0), Range(topic, 0, 50, 150)
    with fetched_ahead(conf(broker), tp, 300) as first, fetched_ahead(conf(broker), tp, 300, start=200) as second:
        before, missed = after(first, conf(broker), batch)
        assert missed == []
        again, _ = after(second, conf(broker), batch)
    assert again == before
    assert offsets(before) == list(range(50, 150))


SMALL = {"queued_max_messages_kbytes": 100, "max_partition_fetch_bytes": 50_000, "fetch_max_bytes": 1_000_000}
MANY = 20_000  # records, of which no reader has fetched a great part ahead


def led_by(cluster: Cluster, topic: str, node: int) -> None:
    """Wait until this broker leads the only partition."""
    wait_until(lambda: cluster.admin.leaders(topic) == {0: node}, 60, f"broker {node} to lead {topic}")


@contextmanager
def begun(cluster: Cluster, topic: str) -> Iterator[dict[tuple[str, str], Iterator[pa.RecordBatch | None]]]:
    """A read of all of a topic for each way and source, its first batch already taken."""
    settings, whole = conf(cluster, **SMALL), Range(topic, 0, 0, MANY)
    with ExitStack() as running:
        found: dict[tuple[str, str], Iterator[pa.RecordBatch | None]] = {}
        for source in SOURCES:
            with read_by(source):
                reader, prefetcher = RangeReader(settings), Prefetcher(settings, buffer_bytes=1 << 20, patience_s=300)
            running.callback(reader.close)
            running.callback(prefetcher.close)
            prefetcher.assign({whole.tp: 0})
            found["directly", source] = (batch for _, _, batch in reader.read([whole]))
            found["by the agent", source] = (step.batch for step in prefetcher.serve([whole], [0], 1))
        yield {how: chain([next(batches)], batches) for how, batches in found.items()}


@pytest.mark.thorough("three brokers, and an unclean election")
@pytest.mark.timeout(600)
def test_leaders_that_go_away() -> None:
    """A new leader goes on in mid-range; one that knows less is a loss, and what comes in the place of that is read.

    The first topic's leader is killed while it is read.  Of the second one, its follower was away for the second half:
    that half is lost, other records come in its place, and whoever has the lost ones buffered gives them to nobody.
    """
    with Cluster(3) as cluster:
        cluster.admin.create_topic("moving", assignment=[[2, 3]])
        cluster.admin.create_topic("losing", assignment=[[3, 2]])
        led_by(cluster, "moving", 2)
        led_by(cluster, "losing", 3)
        produce(cluster.bootstrap, "moving", MANY)
        produce(cluster.bootstrap, "losing", 100)
        with begun(cluster, "moving") as reads:
            cluster.node(2).kill()
            for how, batches in reads.items():
                seen = [at for batch in batches if batch is not None for at in batch.column("offset").to_pylist()]
                assert seen == list(range(MANY)), how
        produce(cluster.bootstrap, "losing", 100, first=100)
        with ExitStack() as ahead:
            prefetchers = {}
            for source in SOURCES:
                with read_by(source):
                    prefetchers[source] = ahead.enter_context(fetched_ahead(conf(cluster), LOSING, 200))
            truncate(cluster)
            for source, prefetcher in prefetchers.items():
                with read_by(source):
                    check_truncated(cluster, prefetcher)


LOSING = TopicPartition("losing", 0)


def truncate(cluster: Cluster) -> None:
    """The second broker, which has the first half, leads instead of the third; the rest is written anew."""
    cluster.node(3).kill()
    cluster.node(2).start()
    # Whoever is dead for less than its session still leads, and nobody is elected.
    wait_until(lambda: cluster.admin.brokers() == {1, 2}, 60, "broker 2 to be back, and 3 to be missed")
    cluster.admin.elect_anyone("losing")
    led_by(cluster, "losing", 2)
    assert cluster.admin.ends("losing") == {0: 100}
    lost = Range("losing", 0, 50, 150)
    for source in SOURCES:
        found: Rows = {}
        with read_by(source), pytest.raises(DataLossError, match=r"OFFSET_RANGE.*\[100, 150\).*ends at 100"):
            tasks_read(conf(cluster), [lost], "directly", into=found)
        assert offsets(found[LOSING]) == list(range(50, 100))
    produce(cluster.bootstrap, "losing", 150, first=1_000)


def check_truncated(cluster: Cluster, prefetcher: Prefetcher) -> None:
    """The agent and Kafka agree on what there is now."""
    wait_until(lambda: buffered(prefetcher)[LOSING].position != 200, 60, "the agent to see it")
    rows, _ = after(prefetcher, conf(cluster), Range("losing", 0, 50, 150))
    assert [row["value"] for row in rows] == [value_of(0, at) for at in (*range(50, 100), *range(1_000, 1_050))]
