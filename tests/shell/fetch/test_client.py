"""The fetching client on real brokers that move, throttle, hang up, go silent, and forget: nothing lost, doubled, altered."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.agent.owned_buffers import OwnedBuffers
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher
from sparkcohort.runtime.shell.kafka.fetch.broker import FetchLink
from sparkcohort.runtime.shell.kafka.fetch.events import EndOfLog, Event, PartitionError, Records
from sparkcohort.runtime.shell.kafka.fetch.fetch_client import FetchClient
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.values.columns import KAFKA_ROW, KAFKA_ROW_WITH_HEADERS
from tests.kit import consumer_groups
from tests.kit.broker import Cluster
from tests.kit.buffered import buffered
from tests.kit.produce import FLUSH_TIMEOUT_S, Steady, produce, producer, value_of
from tests.kit.waiting import wait_until

NO_END = 2**63 - 1
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Reader:
    """A source whose records are checked as they come: gapless, in order, as ``produce`` wrote them."""

    def __init__(self, pair: Cluster, **conf: Any) -> None:
        """Nothing is assigned yet; ``conf`` with ``_`` for ``.``."""
        settings = {key.replace("_", "."): value for key, value in conf.items()}
        self.source = RecordSource({"bootstrap.servers": pair.bootstrap, **settings}, columns=KAFKA_ROW_WITH_HEADERS)
        self.stands: dict[TopicPartition, int] = {}
        self.errors: list[PartitionError] = []
        self.ends: list[EndOfLog] = []

    @property
    def fetcher(self) -> FetchClient:
        """The fetching client itself."""
        assert self.source._fetcher is not None, "librdkafka fetches"
        return self.source._fetcher

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read on from here, without an end."""
        self.stands.update(starts)
        self.source.assign({tp: (start, NO_END) for tp, start in starts.items()})

    def poll(self, timeout_s: float = 0.1, records: int = 10_000) -> list[Event]:
        """Poll once, and check."""
        events = self.source.poll(timeout_s, records)
        for event in events:
            if isinstance(event, PartitionError):
                self.errors.append(event)
            elif isinstance(event, EndOfLog):
                self.ends.append(event)
            else:
                self._check(event)
        return events

    def _check(self, event: Records) -> None:
        if event.batch is not None:
            found = event.batch.column("offset").to_pylist()
            assert found == list(range(self.stands[event.tp], event.next_offset))
            last = event.batch.column("value")[-1].as_py()
            assert last == value_of(event.tp.partition, found[-1], len(last))
        assert event.next_offset > self.stands[event.tp]
        self.stands[event.tp] = event.next_offset

    def until(self, done: Callable[[], object], timeout_s: float, what: str) -> None:
        """Poll until it is done; no partition may fail."""

        def polled() -> object:
            self.poll()
            assert self.errors == []
            return done()

        wait_until(polled, timeout_s, what, every_s=0)

    def read_to(self, ends: Mapping[TopicPartition, int], timeout_s: float = 30) -> None:
        """Poll until every one of these is at its end."""
        self.until(lambda: all(self.stands[tp] >= end for tp, end in ends.items()), timeout_s, f"{len(ends)} ends")


@contextmanager
def reading(pair: Cluster, **conf: Any) -> Iterator[Reader]:
    """A reader that is closed at the end, and has never needed librdkafka."""
    reader = Reader(pair, **conf)
    try:
        yield reader
        assert reader.source._fetcher is not None, "librdkafka took over"
    finally:
        reader.source.close()


@pytest.mark.parametrize("by", ["producer", "broker"])
def test_every_codec(pair: Cluster, topic: str, by: str) -> None:
    """As librdkafka's producer writes it, and as the broker's own Java does (snappy in frames)."""
    names = {codec: f"{topic}-{codec}" for codec in CODECS}
    for codec, name in names.items():
        said = "uncompressed" if codec == "none" else codec
        pair.admin.create_topic(name, configs={"compression.type": said} if by == "broker" else {})
        produce(pair.bootstrap, name, 3_000, compression=codec if by == "producer" else "none", headers=[("h", b"1")])
    with reading(pair) as reader:
        reader.assign({TopicPartition(name, 0): 17 for name in names.values()})
        reader.read_to({TopicPartition(name, 0): 3_000 for name in names.values()})


def test_a_client_that_is_throttled(pair: Cluster, topic: str) -> None:
    """It gets about what its quota allows, and asks no more often for it."""
    rate, size = 1 << 20, 10_000
    pair.admin.create_topic(topic, assignment=[1])
    produce(pair.bootstrap, topic, 300, value_bytes=size)
    quota = (
        "--entity-type",
        "clients",
        "--entity-name",
        f"client-{topic}",
        "--add-config",
        f"consumer_byte_rate={rate}",
    )
    consumer_groups.run(pair.bootstrap, "--alter", *quota, program="kafka.admin.ConfigCommand")

    throttled: list[float | None] = []

    def read() -> float:
        with reading(pair, client_id=f"client-{topic}", max_partition_fetch_bytes=500_000) as reader:
            before = time.monotonic()
            reader.assign({TopicPartition(topic, 0): 0})
            reader.read_to({TopicPartition(topic, 0): 300})
            assert reader.fetcher._links[1].correlation_id < 100
            throttled.append(reader.source.throttled_s())
            return time.monotonic() - before

    least, most = 300 * size / rate / 4, 300 * size / rate * 8
    took = wait_until(lambda: taken if (taken := read()) > least else None, 60, "a broker that has heard of the quota")
    assert took < most
    assert (throttled[-1] or 0) > 0


def test_a_session_that_the_broker_forgot(pair: Cluster, topic: str) -> None:
    """It is begun anew at once, where it stood."""
    pair.admin.create_topic(topic, assignment=[1, 1])
    produce(pair.bootstrap, topic, 200, partitions=2)
    both = [TopicPartition(topic, number) for number in range(2)]
    with reading(pair) as reader:
        reader.assign(dict.fromkeys(both, 0))
        reader.read_to(dict.fromkeys(both, 100))
        session = reader.fetcher._links[1].session
        known = session.session_id
        session.epoch += 5  # the broker takes us for somebody who has lost count
        produce(pair.bootstrap, topic, 200, partitions=2, first=100)
        reader.read_to(dict.fromkeys(both, 200))
        assert session.session_id not in (0, known)
        assert not reader.source.complaints


def test_a_topic_that_is_made_anew(pair: Cluster, topic: str) -> None:
    """More records under the old name are not the old log's: an error of every partition."""
    parts = [TopicPartition(topic, number) for number in range(12)]
    pair.admin.create_topic(topic, len(parts))
    produce(pair.bootstrap, topic, 600, partitions=len(parts))
    with reading(pair) as reader:
        reader.assign(dict.fromkeys(parts, 0))
        reader.read_to(dict.fromkeys(parts, 50))
        pair.admin.delete_topic(topic)
        pair.admin.create_topic(topic, len(parts))
        produce(pair.bootstrap, topic, 2_400, partitions=len(parts), first=10_000)
        wait_until(lambda: reader.poll() and len(reader.errors) == len(parts), 20, "errors", every_s=0)
        assert {event.code for event in reader.errors} <= {
            KafkaError.UNKNOWN_TOPIC_ID,
            KafkaError.UNKNOWN_TOPIC_OR_PART,
        }
        assert {event.tp: event.offset for event in reader.errors} == dict.fromkeys(parts, 50)


def elect(pair: Cluster, topic: str, partitions: Sequence[int], leader: int) -> None:
    """Let the preferred replica lead, which has to be this broker by now."""
    asked = [KafkaPartition(topic, number) for number in partitions]

    def led() -> bool:
        pair.admin._client.elect_leaders(ElectionType.PREFERRED, asked).result(20)
        return set(pair.admin.leaders(topic).values()) == {leader}

    wait_until(led, 30, f"broker {leader} to lead")


def test_leaders_that_move_under_load(pair: Cluster, topic: str, tmp_path: Path) -> None:
    """From one broker to the other and back while records are written and read."""
    file, tool = tmp_path / "replicas.json", "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    pair.admin.create_topic(topic, assignment=[[1, 2]] * 4)
    parts = [TopicPartition(topic, number) for number in range(4)]
    with reading(pair) as reader, Steady(pair.bootstrap, topic, partitions=4, rate=2_000) as steady:
        reader.assign(dict.fromkeys(parts, 0))
        for leader, other in ((2, 1), (1, 2), (2, 1)):
            moved = [{"topic": topic, "partition": number, "replicas": [leader, other]} for number in range(4)]
            file.write_text(json.dumps({"version": 1, "partitions": moved}))
            consumer_groups.run(pair.bootstrap, "--reassignment-json-file", str(file), "--execute", program=tool)
            elect(pair, topic, range(4), leader)
            mark = dict(reader.stands)
            reader.read_to({tp: at + 100 for tp, at in mark.items()})
            assert {reader.fetcher._assigned[tp].leader for tp in parts} == {leader}
    counts = steady.counts
    with reading(pair) as again:
        again.assign(dict.fromkeys(parts, 0))
        again.read_to({tp: counts[tp.partition] for tp in parts})


def test_connections_that_end_in_the_middle(pair: Cluster, topic: str) -> None:
    """Half an answer is none: it is asked for again."""
    pair.admin.create_topic(topic, assignment=[2])
    produce(pair.bootstrap, topic, 3_000, value_bytes=1_000)
    tp, relay = TopicPartition(topic, 0), pair.relays[2]
    with reading(pair) as reader:
        relay.rate(2 << 20)
        try:
            reader.assign({tp: 0})
            cuts = 0
            while reader.stands[tp] < 1_500 or cuts < 3:
                reader.poll(0.02)
                link = reader.fetcher._links.get(2)
                if link is not None and link.frames.filled > 200_000 and cuts < 3:
                    relay.cut()
                    cuts += 1
        finally:
            relay.rate(None)
        reader.read_to({tp: 3_000})
        assert KafkaError._TRANSPORT in reader.source.complaints


def test_a_broker_that_says_nothing(pair: Cluster, topic: str) -> None:
    """After socket.timeout.ms it is left; whoever leads instead is asked, although the old one still takes connections."""
    pair.admin.create_topic(topic, assignment=[[2, 1]])
    produce(pair.bootstrap, topic, 100)
    tp = TopicPartition(topic, 0)
    with reading(pair, socket_timeout_ms=1_000) as reader:
        reader.assign({tp: 0})
        reader.read_to({tp: 100})
        pair.node(2).pause()
        try:
            reader.until(lambda: KafkaError._TRANSPORT in reader.source.complaints, 10, "a complaint")
            wait_until(lambda: pair.admin.leaders(topic) == {0: 1}, 30, "another leader")
            produce(f"127.0.0.1:{pair.node(1).port}", topic, 100, first=100)  # not by the one that says nothing
            reader.read_to({tp: 200}, 10)
        finally:
            pair.node(2).resume()
    wait_until(lambda: pair.admin.brokers() == {1, 2}, 30, "broker 2 to be back")


def test_many_partitions_with_a_trickle(pair: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 partitions, some records in some of them: all come, and requests name what has changed only."""
    sent: list[int] = []
    send = FetchLink.send

    def noted(link: Any, body: bytes, *rest: Any) -> None:
        sent.append(len(body))
        send(link, body, *rest)

    monkeypatch.setattr(FetchLink, "send", noted)
    parts = [TopicPartition(topic, number) for number in range(300)]
    pair.admin.create_topic(topic, len(parts))
    produce(pair.bootstrap, topic, len(parts), partitions=len(parts))
    with reading(pair, fetch_min_bytes=65_536, fetch_wait_max_ms=40) as reader:
        reader.assign(dict.fromkeys(parts, 0))
        reader.read_to(dict.fromkeys(parts, 1))
        reader.until(lambda: len({end.tp for end in reader.ends}) == len(parts), 20, "all ends")
        sent.clear()
        begun = time.monotonic()
        with Steady(pair.bootstrap, topic, partitions=range(0, 300, 30), rate=200, first=1) as steady:
            reader.until(lambda: sum(reader.stands.values()) > len(parts) + 200, 20, "a trickle")
        reader.read_to({tp: 1 + steady.counts.get(tp.partition, 0) for tp in parts})
        assert len(sent) < 2 * (time.monotonic() - begun) / 0.040 + 20
        assert max(sent) < 2_000


def test_the_nearest_replica(pair: Cluster, topic: str) -> None:
    """With client.rack records come from the follower in the rack; from the leader when the follower can't be had."""
    pair.admin.create_topic(topic, assignment=[[1, 2]])
    produce(pair.bootstrap, topic, 1_000)
    tp = TopicPartition(topic, 0)
    with reading(pair, client_rack="rack-2") as reader:
        reader.assign({tp: 0})
        reader.read_to({tp: 1_000})
        of = reader.fetcher._assigned[tp]
        reader.until(lambda: of.replica == 2, 10, "the follower's turn")
        asked = reader.fetcher._links[1].correlation_id
        produce(pair.bootstrap, topic, 1_000, first=1_000)
        reader.read_to({tp: 2_000})
        assert (of.leader, reader.fetcher._links[1].correlation_id) == (1, asked)
        pair.relays[2].cut()
        produce(pair.bootstrap, topic, 1_000, first=2_000)
        reader.read_to({tp: 3_000})


def test_handing_over_in_the_middle(pair: Cluster, topic: str) -> None:
    """librdkafka goes on with each partition where it stands, what was fetched and not taken included."""
    pair.admin.create_topic(topic, 3)
    produce(pair.bootstrap, topic, 9_000, partitions=3)
    parts = [TopicPartition(topic, number) for number in range(3)]
    reader = Reader(pair, fetch_max_bytes=100_000, message_max_bytes=100_000)
    reader.assign(dict.fromkeys(parts, 0))
    reader.assign({TopicPartition(topic, 99): 0})
    wait_until(lambda: reader.poll(0.1, 70) and reader.errors, 20, "the error", every_s=0)
    reader.errors.clear()
    wait_until(lambda: reader.poll(0.1, 70) and sum(reader.stands.values()) > 500, 20, "records", every_s=0)
    reader.fetcher._give_up("a test wants it")
    reader.read_to(dict.fromkeys(parts, 3_000))
    assert reader.source._fetcher is None
    reader.source.close()
    with pytest.raises(RuntimeError, match="closed"):
        reader.source.poll(0)


def test_what_goes_well_is_not_looked_at_again(pair: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trickle over many partitions costs what its records cost: nobody goes through all partitions for each."""
    pair.admin.create_topic(topic, 200)
    looks: Counter[str] = Counter()
    for kind, name in ((FetchClient, "_go_through"), (OwnedBuffers, "_fetchable_partitions")):
        monkeypatch.setattr(kind, name, counted(looks, getattr(kind, name)))
    prefetcher = Prefetcher({"bootstrap.servers": pair.bootstrap}, columns=KAFKA_ROW)
    try:
        partitions = [TopicPartition(topic, number) for number in range(200)]
        client = producer(pair.bootstrap)
        prefetcher.assign(dict.fromkeys(partitions, 0))
        for number, tp in enumerate(partitions[:40]):
            if number == 10:  # by now all are asked for
                before = Counter(looks)
            client.produce(topic, b"x", None, tp.partition)
            assert client.flush(FLUSH_TIMEOUT_S) == 0
            wait_until(lambda tp=tp: buffered(prefetcher)[tp].position == 1, 20, "the record")  # type: ignore[misc]
        assert before and looks == before
        prefetcher.revoke(partitions[:100])
        wait_until(lambda: looks["_fetchable_partitions"] > before["_fetchable_partitions"], 20, "another look")
    finally:
        prefetcher.close()


def counted(calls: Counter[str], method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, each call of it counted by its name."""

    def wrapper(*arguments: Any, **keywords: Any) -> Any:
        calls[method.__name__] += 1
        return method(*arguments, **keywords)

    return wrapper
