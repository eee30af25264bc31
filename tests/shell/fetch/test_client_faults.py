"""The fetching client and brokers that misbehave: no storm, no stall, nothing kept, nothing lost when memory runs out."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
import time
from contextlib import AbstractContextManager
from typing import Any

import psutil
import pytest
from confluent_kafka import KafkaError

from sparkcohort.runtime.kafka.fetch_messages import FETCH, METADATA
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.events import EndOfLog, Event, PartitionError, Records
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.values.columns import KAFKA_ROW_WITH_HEADERS
from tests.kit.mock import MockCluster
from tests.kit.polled import complaint, fetching
from tests.kit.produce import produce
from tests.kit.record_batches import Batch, Record, encode
from tests.kit.scripted_broker import Script, ScriptedBroker, fetched, partition
from tests.kit.waiting import wait_until

TP = TopicPartition("t", 0)
YOUNG = {"topic_metadata_refresh_interval_ms": 100, "socket_timeout_ms": 60_000}
DATA = encode(Batch(0, tuple(Record(n, value=b"v") for n in range(10))))


def slow(number: int) -> bytes:
    """An empty log, as a broker tells of one: not at once."""
    threading.Event().wait(0.02)
    return fetched(number, partition(end=0))


def fetching_from(bootstrap: str, **conf: Any) -> AbstractContextManager[RecordSource]:
    """A source of the partition, from its beginning; ``_`` in ``conf`` is a dot."""
    settings = {"bootstrap.servers": bootstrap, **{key.replace("_", "."): value for key, value in conf.items()}}
    return fetching(settings, TP, columns=KAFKA_ROW_WITH_HEADERS)


def polled_for(source: RecordSource, seconds: float) -> list[Event]:
    """All that comes in this time."""
    events: list[Event] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        events += source.poll(0.05)
    return events


@pytest.mark.parametrize(
    ("script", "nodes"),
    [
        (lambda number: fetched(number, partition(records=DATA[:70])), 1),  # a batch without an end
        (lambda number: fetched(number, partition(error=KafkaError.NOT_LEADER_FOR_PARTITION)), 1),
        (lambda number: fetched(number, partition(preferred=7)), 1),  # a replica that nobody knows
        (lambda number: fetched(number, partition(error=9 if number % 2 == 0 else 0, preferred=2)), 2),
        (lambda number: fetched(number, partition(end=0)), 1),  # nothing, and without a wait
        (lambda number: fetched(number, partition(), error=KafkaError.FETCH_SESSION_ID_NOT_FOUND), 1),
        (lambda _: None, 1),
        (lambda number: fetched(number + 1, partition()), 1),
    ],
)
def test_no_answer_makes_a_storm(script: Script, nodes: int) -> None:
    """Whatever is of no use is asked for at the pace of a broker that waits, not as fast as the network allows."""
    with ScriptedBroker(script, nodes=nodes) as broker, fetching_from(broker.bootstrap) as source:
        before = time.process_time()
        events = polled_for(source, 0.6)
        used = time.process_time() - before
        counts = dict(broker.counts)
    assert [event for event in events if not isinstance(event, EndOfLog)] == []
    assert 1 <= counts[FETCH] <= 35
    assert counts[METADATA] <= 10
    assert counts["connections"] <= 16
    assert used < 0.5


def test_a_broker_whose_address_is_none() -> None:
    """It is left out and named; nothing is raised, and the cluster isn't asked without a pace."""
    script: Script = lambda number: fetched(number, partition())  # noqa: E731
    with ScriptedBroker(script, host=b"two\nlines") as broker, fetching_from(broker.bootstrap) as source:
        assert polled_for(source, 0.6) == []
        assert source.complaints == {KafkaError._TRANSPORT}
        assert r"two\nlines" in source.last_error
        assert source.last_error.isprintable()
        assert len(source.last_error) < 300
        assert 1 <= broker.counts[METADATA] <= 10
        assert broker.counts["connections"] == 1


def test_nobody_leads() -> None:
    """A partition without a leader is asked about once a second in the end, whoever else is fetched."""
    with (
        ScriptedBroker(lambda number: fetched(number, partition()), leader=-1) as broker,
        fetching_from(broker.bootstrap) as source,
    ):
        polled_for(source, 2.5)
        assert 3 <= broker.counts[METADATA] <= 8
        assert source.complaints == {KafkaError.LEADER_NOT_AVAILABLE}


@pytest.mark.parametrize("age", [-1, 300_000])
def test_nothing_is_asked_without_need(age: int) -> None:
    """One question about the cluster, also where the refreshing of its answer is turned off."""
    more = {"topic_metadata_refresh_interval_ms": age}
    with ScriptedBroker(slow) as broker, fetching_from(broker.bootstrap, **more) as source:
        events = polled_for(source, 0.6)
        assert [event.offset for event in events if isinstance(event, EndOfLog)] == [0]
        assert broker.counts[METADATA] == 1


def test_nothing_stays_open(mock_broker: MockCluster) -> None:
    """However far connecting had come when a source was closed: its sockets, pipes and threads go."""
    produce(mock_broker.bootstrap, "t", 10)

    def held() -> tuple[int, int]:
        names = [thread.name for thread in threading.enumerate()]
        return psutil.Process().num_fds(), names.count("cohort-fetch-job")

    before = held()[0]
    for number in range(30):
        with fetching_from(mock_broker.bootstrap) as source:
            for _ in range(number % 6):
                source.poll(0.001)
    wait_until(lambda: held()[0] <= before and held()[1] == 0, 20, "what was open to be closed")


SHORT = """
import ctypes, sys
from sparkcohort.runtime.protocol.messages import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.background import BackgroundWork
from sparkcohort.runtime.shell.kafka.fetch.events import Records
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.values.columns import KAFKA_ROW
bootstrap, topic, failures = sys.argv[1:]
source = RecordSource({"bootstrap.servers": bootstrap}, columns=KAFKA_ROW)
source.assign({TopicPartition(topic, partition): (0, 2**63 - 1) for partition in range(2)})
process, short, offsets = ctypes.CDLL(None), 0, {0: [], 1: []}
while min(map(len, offsets.values())) < 200:
    process.fail_large(int(failures) if short < 5 else 0)
    try:
        events = source.poll(0.1, 30)
    except MemoryError:
        short += 1
        continue
    finally:
        process.fail_large(0)
    for event in events:
        if isinstance(event, Records) and event.batch is not None:
            event.batch.validate(full=True)
            offsets[event.tp.partition] += event.batch.column("offset").to_pylist()
assert offsets == {0: list(range(200)), 1: list(range(200))}
source.close()
print("short of memory", short)
"""


def test_memory_that_runs_out(mock_broker: MockCluster, topic: str, short_of_memory: dict[str, str]) -> None:
    """It is a MemoryError of one poll; whoever polls on misses nothing, and gets nothing twice."""
    mock_broker.create_topic(topic, 2)
    produce(mock_broker.bootstrap, topic, 400, partitions=2, value_bytes=4_200)
    command = [sys.executable, "-P", "-c", SHORT, mock_broker.bootstrap, topic, "3"]
    preloaded = {**os.environ, **short_of_memory}
    done = subprocess.run(command, env=preloaded, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.stdout == "short of memory 5\n"


def test_an_answer_of_an_earlier_position_is_nobodys() -> None:
    """The leader moves while it owes an answer, and the new one is faster: what then comes of the old one is no more wanted."""
    asked, may_answer = list[int](), threading.Event()

    def script(number: int) -> bytes:
        asked.append(number)
        records = DATA if len(asked) <= 2 else b""
        if len(asked) == 1:
            may_answer.wait(30)
        return fetched(number, partition(end=10, records=records))

    def polled() -> bool:
        seen.extend(source.poll(0.05))
        return True

    with ScriptedBroker(script, nodes=2) as broker, fetching_from(broker.bootstrap, **YOUNG) as source:
        seen = list[Event]()
        wait_until(lambda: source.poll(0.05) or asked, 10, "the first request", every_s=0)
        broker.leader = 2
        wait_until(lambda: polled() and seen, 10, "the new leader's records", every_s=0)
        assert len(asked) > 1
        before = broker.counts[FETCH]
        assert source._fetcher is not None
        old = source._fetcher._links[1]
        assert old.pending is not None
        may_answer.set()
        wait_until(lambda: polled() and old.pending is None, 10, "the old leader's answer", every_s=0)
        wait_until(lambda: polled() and broker.counts[FETCH] > before, 10, "another request", every_s=0)
    assert [event.batch.num_rows for event in seen if isinstance(event, Records) and event.batch is not None] == [10]
    assert [event for event in seen if isinstance(event, PartitionError)] == []


@pytest.mark.parametrize("size", [2**31 - 1, -1, 0, 1])
def test_an_answer_of_an_impossible_size(size: int) -> None:
    """Too large, no size at all, or less than what follows: a complaint, and the connection is made anew."""
    script = ScriptedBroker(lambda _: b"xy", said=struct.pack(">i", size))
    with script as broker, fetching_from(broker.bootstrap) as source:
        assert complaint(source) == {KafkaError._TRANSPORT}
        assert ("receive.message.max.bytes" if size != 1 else "shorter than it says") in source.last_error


def test_a_logs_end_is_asked_for_at_the_callers_pace() -> None:
    """After an answer with all there is the broker is left alone, until the caller is in a hurry; no wait outlasts that."""
    script: Script = lambda number: fetched(number, partition(end=10, records=DATA))  # noqa: E731
    with ScriptedBroker(script) as broker, fetching_from(broker.bootstrap) as source:
        source.pace(600)
        wait_until(lambda: any(isinstance(event, Records) for event in source.poll(1)), 10, "records")
        assert polled_for(source, 0.3) == []
        assert broker.counts[FETCH] == 1
        woken, began = threading.Event(), time.monotonic()

        def wake() -> None:  # again and again: the first may come before the wait that it is to end
            while not woken.wait(0.1):
                source.wake()

        waker = threading.Thread(target=wake)
        waker.start()
        assert source.poll(30) == []
        woken.set()
        waker.join(20)
        assert time.monotonic() - began < 20
        assert broker.counts[FETCH] == 1
        source.pace(0)
        source.poll(1)
        wait_until(lambda: broker.counts[FETCH] > 1 or source.poll(0.1) is None, 10, "another fetch")


def test_what_is_there_is_fetched_without_a_pause() -> None:
    """An answer that leaves something behind, however little it brought, is followed by the next request at once."""
    script: Script = lambda number: fetched(number, partition(end=100, records=DATA))  # noqa: E731
    with ScriptedBroker(script) as broker, fetching_from(broker.bootstrap) as source:
        source.pace(600)
        wait_until(lambda: source.poll(0.1) is not None and broker.counts[FETCH] > 1, 10, "another fetch")
