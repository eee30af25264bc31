"""Batches that stand for a hundred times their bytes, and records beyond every bound, among ordinary ones on a real broker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import psutil
import pytest

from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher
from sparkcohort.runtime.shell.agent.task_client import TaskClient
from sparkcohort.runtime.shell.kafka.fetch.consumer_client import CHUNK
from sparkcohort.runtime.shell.kafka.fetch.events import BATCH_BYTES, MalformedRecordError, Records
from sparkcohort.runtime.shell.kafka.fetch.range_reader import FetchError, RangeReader
from sparkcohort.runtime.shell.rpc.executor import Executor
from sparkcohort.runtime.values.columns import KAFKA_ROW
from tests.kit.agents import TOPIC, World, pulled
from tests.kit.broker import Broker
from tests.kit.buffered import buffered
from tests.kit.mock import MockCluster
from tests.kit.produce import FLUSH_TIMEOUT_S, gathering, produce, value_of
from tests.kit.ranges import direct
from tests.kit.record_sources import by_librdkafka, read_by
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a producer of so many bytes slow

MIB = 1 << 20
FIRST, HEAVY = 100, 160  # ordinary records, then so many of a megabyte in one batch
END = FIRST + HEAVY + FIRST
MORE = 140 * MIB  # resident beside the buffer: Python, Arrow, librdkafka, and a few pieces


def write(bootstrap: str, topic: str, sizes: list[int], partition: int = 0) -> None:
    """One batch of zeros."""
    client = gathering(bootstrap, topic, compression_type="zstd", message_max_bytes=10**9, batch_size=2**31 - 1)
    for size in sizes:
        client.produce(topic, bytes(size), None, partition)
    assert client.flush(FLUSH_TIMEOUT_S) == 0


def resident_most(process: psutil.Process) -> int:
    """The most memory that a process has had."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    assert found is not None
    return int(found[1]) << 10


class Running(NamedTuple):
    """A group of one agent."""

    world: World
    executor: Executor
    agent: psutil.Process

    @property
    def most(self) -> int:
        """What the agent may have had resident at any moment."""
        return self.world.config(self.executor).buffer_bytes + MORE


@pytest.fixture(scope="module")
def running(guarded: Broker) -> Iterator[Running]:
    """On a real broker, which has to let it through: a topic with one heavy batch in the middle of partition 0."""
    world = World(cast("Any", SimpleNamespace(bootstrap=guarded.bootstrap, create_topic=guarded.admin.create_topic)))
    write(guarded.bootstrap, TOPIC, [MIB] * HEAVY)
    produce(guarded.bootstrap, TOPIC, FIRST, partitions=1, first=FIRST)
    try:
        executor, agent = world.start("1")
        wait_until(world.settled(), 20, "the agent to own the partitions")
        yield Running(world, executor, agent)
    finally:
        world.close()


def test_an_agent_with_a_heavy_batch(running: Running) -> None:
    """Its memory stays bounded; the heavy records come whole, and the other partitions'."""

    def read(wanted: Range) -> list[bytes]:
        pieces = wait_until(lambda: pulled(running.world, running.executor, wanted), 60, "the agent to have it")
        assert pieces[-1][0] == wanted.end
        assert all(batch.nbytes < 3 * MIB for _, batch in pieces if batch is not None)
        return [value for _, batch in pieces if batch is not None for value in batch.column("value").to_pylist()]

    values = read(Range(TOPIC, 0, 0, END))
    assert values[:FIRST] == [value_of(0, at) for at in range(FIRST)]
    assert values[FIRST : FIRST + HEAVY] == [bytes(MIB)] * HEAVY
    assert values[FIRST + HEAVY :] == [value_of(0, at) for at in range(FIRST, 2 * FIRST)]
    for partition in (1, 2):
        assert read(Range(TOPIC, partition, 0, FIRST)) == [value_of(partition, at) for at in range(FIRST)]
    assert read(Range(TOPIC, 0, FIRST + HEAVY - 3, FIRST + HEAVY)) == [bytes(MIB)] * 3  # from the middle of the batch
    assert resident_most(running.agent) < running.most


def missed(running: Running, wanted: Range) -> list[str]:
    """Why the agent hasn't got a range."""
    client = TaskClient(running.executor.address("run"), running.world.authority.client.token, 10)
    try:
        return [why for step in client.read([wanted], [wanted.start], 2) for _, why in step.missed]
    finally:
        client.close()


def test_a_record_too_large_for_the_agent(running: Running) -> None:
    """It is told why, with the place, the size and the option; the task reads it directly; other partitions go on."""
    (world, executor, agent), end = running, FIRST + 3
    write(world.bootstrap, TOPIC, [10, 20 * MIB, 10], 1)
    place = f"a record of topic {TOPIC} partition 1 offset {FIRST + 1} takes"
    why = wait_until(
        lambda: [each for each in missed(running, Range(TOPIC, 1, FIRST, end)) if each.startswith(place)], 30, "why"
    )
    assert re.search(rf"takes 2097\d{{4}} bytes.* {2 * MIB} .*buffer\.bytes", why[0])
    pieces = wait_until(lambda: pulled(world, executor, Range(TOPIC, 2, 0, FIRST)), 20, "another partition")
    assert pieces[-1][0] == FIRST
    pieces = wait_until(lambda: pulled(world, executor, Range(TOPIC, 1, FIRST + 2, end), 3), 20, "what lies behind it")
    assert pieces[-1][0] == end
    rows = direct({"bootstrap.servers": world.bootstrap}, [Range(TOPIC, 1, FIRST, end)])[TopicPartition(TOPIC, 1)]
    assert [len(row["value"]) for row in rows] == [10, 20 * MIB, 10]
    assert resident_most(agent) < running.most


def test_a_record_beyond_every_bound(mock_broker: MockCluster, topic: str) -> None:
    """A task's error names topic, partition, offset, size and option; with that option it is read; what lies around it, too."""
    mock_broker.create_topic(topic, 2)
    write(mock_broker.bootstrap, topic, [10, 30 * MIB, 10], 1)
    conf = {"bootstrap.servers": mock_broker.bootstrap, "receive.message.max.bytes": 20 * MIB, "fetch.max.bytes": MIB}
    reader = RangeReader(conf)
    place = rf"a record of topic {topic} partition 1 offset 1 takes 314572\d\d bytes.* at most {20 * MIB} "
    with pytest.raises(
        MalformedRecordError, match=place + r".*set kafka\.receive\.message\.max\.bytes to more"
    ) as caught:
        list(reader.read([Range(topic, 1, 0, 3)]))
    assert caught.value.error == "RECORD_TOO_LARGE"
    reader.close()
    assert sum(map(len, direct(conf, [Range(topic, 1, 0, 1)]).values())) == 1
    assert sum(map(len, direct(conf, [Range(topic, 1, 2, 3)]).values())) == 1
    assert sum(map(len, direct({**conf, "receive.message.max.bytes": 40 * MIB}, [Range(topic, 1, 0, 3)]).values())) == 3


def test_the_ends_of_heavy_batches(mock_broker: MockCluster, topic: str) -> None:
    """Whoever wants their last records passes over the others, in turns with those who want something else."""
    mock_broker.create_topic(topic, 3)
    for partition in (0, 1):
        write(mock_broker.bootstrap, topic, [MIB] * 80 + [10], partition)
    write(mock_broker.bootstrap, topic, [10] * 50, 2)
    ranges = [Range(topic, 0, 78, 81), Range(topic, 1, 0, 2), Range(topic, 1, 79, 81), Range(topic, 2, 10, 50)]
    rows = direct({"bootstrap.servers": mock_broker.bootstrap}, ranges)
    found = {tp.partition: [(row["offset"], len(row["value"])) for row in each] for tp, each in rows.items()}
    assert found == {
        0: [(78, MIB), (79, MIB), (80, 10)],
        1: [(0, MIB), (1, MIB), (79, MIB), (80, 10)],
        2: [(at, 10) for at in range(10, 50)],
    }


def test_librdkafka_stops_at_its_own_bound(mock_broker: MockCluster, topic: str) -> None:
    """A batch of zstd that it won't unpack is for it a damaged one: the error says that it needn't be, and the option."""
    write(mock_broker.bootstrap, topic, [MIB] * 40)
    conf = {"bootstrap.servers": mock_broker.bootstrap, "receive.message.max.bytes": 20 * MIB}
    with (
        read_by("librdkafka"),
        pytest.raises(FetchError, match=rf"offset 0: .*kafka\.receive\.message\.max\.bytes, {20 * MIB}: set"),
    ):
        direct(conf, [Range(topic, 0, 0, 40)])
    with read_by("librdkafka"):
        rows = direct({**conf, "receive.message.max.bytes": 400 * MIB}, [Range(topic, 0, 0, 40)])
    assert sum(map(len, rows.values())) == 40


def test_a_record_that_can_not_be_had_is_not_asked_for_without_end(mock_broker: MockCluster, topic: str) -> None:
    """An agent tries again ever more rarely, until the query is past it."""
    write(mock_broker.bootstrap, topic, [10, 4 * MIB, 10])
    prefetcher = Prefetcher({"bootstrap.servers": mock_broker.bootstrap}, buffer_bytes=2 * MIB, patience_s=0.2)
    tp = TopicPartition(topic, 0)
    prefetcher.assign({tp: 0})
    wait_until(lambda: buffered(prefetcher)[tp].error, 20, "the error")
    buffer = prefetcher._owned.by_partition[tp]
    wait_until(lambda: buffer.failures >= 3, 30, "three tries")
    tried = buffer.failures
    assert buffer.retry_at > 0
    steps = list(prefetcher.serve([Range(topic, 0, 2, 3)], [2], 1, 10))
    assert [step.positions for step in steps] == [[(0, 3)]]
    assert tried <= 4
    assert buffer.failures == 0
    prefetcher.close()


SHORT = """
import ctypes, sys
from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.kafka.fetch.range_reader import FetchError, RangeReader
bootstrap, topic, failures = sys.argv[1:]
reader = RangeReader({"bootstrap.servers": bootstrap, "log_level": 0})
process, rows = ctypes.CDLL(None), 0
list(reader.read([Range(topic, 0, 0, 1)]))
process.fail_large(int(failures))
try:
    for tp, position, batch in reader.read([Range(topic, 0, 0, 200)]):
        rows += batch.num_rows
    print("rows", rows)
except FetchError as error:
    print(error)
process.fail_large(0)
reader.close()
"""


def test_memory_that_has_run_out(mock_broker: MockCluster, topic: str, short_of_memory: dict[str, str]) -> None:
    """The error says where and what to do: no MemoryError without a word."""
    produce(mock_broker.bootstrap, topic, 200, value_bytes=4_200)
    command = [sys.executable, "-P", "-c", SHORT, mock_broker.bootstrap, topic, "100000"]
    environment = {**os.environ, **short_of_memory}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert re.match(r"no memory for what is read of .* offsets \[0, 200\) at offset 0 .*memoryOverhead", done.stdout)


def test_what_librdkafka_has_is_copied_some_at_a_time(mock_broker: MockCluster, topic: str) -> None:
    """Large records behind small ones: a poll has a batch's bytes and a chunk more; what it leaves is not lost, nor stale."""
    mock_broker.create_topic(topic, 2)
    write(mock_broker.bootstrap, topic, [10] * 2_000 + [MIB] * 40, 0)
    write(mock_broker.bootstrap, topic, [10] * 2_000 + [MIB] * 40, 1)
    source = by_librdkafka({"bootstrap.servers": mock_broker.bootstrap, "log_level": 0}, columns=KAFKA_ROW)
    stands = dict.fromkeys((TopicPartition(topic, 0), TopicPartition(topic, 1)), 0)
    source.assign(dict.fromkeys(stands, (0, 2040)))
    begun_anew = 0

    def polled() -> bool:
        nonlocal begun_anew
        events = [event for event in source.poll(0.1) if isinstance(event, Records)]
        assert sum(event.nbytes for event in events) < BATCH_BYTES + CHUNK * (MIB + 1000)
        for event in events:
            assert event.batch is not None
            assert event.batch.column("offset").to_pylist() == list(range(stands[event.tp], event.next_offset))
            stands[event.tp] = event.next_offset
        if begun_anew < 3 and stands[TopicPartition(topic, 0)] > 2_005:
            begun_anew += 1
            source.unassign([TopicPartition(topic, 0)])
            source.assign({TopicPartition(topic, 0): (0, 2_040)})
            stands[TopicPartition(topic, 0)] = 0
        return begun_anew == 3 and set(stands.values()) == {2_040}

    wait_until(polled, 60, "all records", every_s=0)
    source.close()
