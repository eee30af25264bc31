"""The part ``sink``: rows into Kafka.

A batch write of cached rows, and what the way through Python costs of it; from topic to topic at a low rate, until a plain
consumer has the record; the producer alone in a process of its own, without Spark.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame

from tools.bench.figures import Demand, Sample, percentile
from tools.bench.report import Column
from tools.bench.results import BenchError, order
from tools.bench.source import topics
from tools.bench.source.clients import between
from tools.bench.source.latency import PATIENCE_S, SHARES, UNMEASURED, UNMEASURED_S
from tools.bench.source.load import Load
from tools.bench.source.peers import COHORT, KAFKA, Peer
from tools.bench.source.runs import Bench
from tools.bench.source.sink_client import BATCH_ROWS
from tools.bench.source.world import World, say

MOST_ROWS = 2_000_000  # that fit into the cache of a small driver
CODECS = ("none", "lz4")
WRITES = {f"cached rows to a topic, {codec}": codec for codec in CODECS}
PYTHON, DRAIN = "cached rows through Python alone", "mapInArrow"
RATE = 1_000
COPY = f"topic to topic, {RATE:,} records/s"
ALONE, ENCODER = "the producer without Spark", "cohort, encoder"
PRODUCERS = {ENCODER: "encoder", "cohort, producer": "producer", "confluent-kafka": "confluent"}
"""What each is called, and by ``sink_client``; the encoder sends nothing."""
CLIENT = Path(__file__).with_name("sink_client.py")
CLIENT_TIMEOUT_S = 300
WARM_RECORDS = 10_000_000
TITLE = "Rows into Kafka"
COLUMNS = (
    Column("rows_per_s", "M rows/s", 1e-6, compared=True),
    Column("cpu_s_per_million", "CPU-s per M rows", compared=True),
    Column("cpu/", "of which"),
    Column("p50_ms", "p50, ms", digits=0),
    Column("p99_ms", "p99, ms", digits=0, compared=True),
    Column("rows_per_cpu_s", "M rows per CPU-s", 1e-6),
)


def measure(world: World) -> list[Sample]:
    """All of it; raises BenchError when a topic holds something else than was written."""
    warm_broker(world)
    with world.application(world.plan.masters[0]) as bench:
        found = _writes(world, bench)
    with world.application(world.plan.masters[0], counting=False) as bench:
        found += _copies(world, bench)
    return found + _alone(world)


def warm_broker(world: World) -> None:
    """Write until the broker's JVM has compiled what takes records in: before, it is what all writers wait for."""
    for codec in CODECS:
        say(f"warming the broker up, {codec}")
        topic = f"sink-{time.monotonic_ns()}"
        world.broker.admin.create_topic(topic, topics.PARTITIONS)
        _run_client("producer", world, topic, WARM_RECORDS, codec)
        world.broker.admin.delete_topic(topic)


# --- cached rows --------------------------------------------------------------------------------


def _writes(world: World, bench: Bench) -> list[Sample]:
    records, found = min(world.plan.records, MOST_ROWS), list[Sample]()
    rows = topics.rows(bench.spark, topics.Shape(), records, topics.PARTITIONS).select("key", "value").cache()
    written = topics.values_of(topics.valued(rows).collect())
    peers = world.chosen(COHORT, KAFKA)
    for case, codec in WRITES.items():
        for peer in peers:
            say(f"checking every byte and warming up: {peer.name}, {case}")
            topic = _write(bench, peer, rows, codec)
            asked = {"kafka.bootstrap.servers": bench.broker.bootstrap, "subscribe": topic}
            read = bench.spark.read.format("kafka").options(**asked).load()
            held = topics.valued(read.selectExpr("cast(key as string) as key", "value"))
            topics.compare_values(f"{peer.name}, {case}", held.collect(), written)
            bench.broker.admin.delete_topic(topic)
        for peer in order(peers, world.plan.rounds):
            with _counted(bench, case, peer.name, records, found):
                topic = _write(bench, peer, rows, codec)
            if (ends := sum(bench.broker.admin.ends(topic).values())) != records:
                raise BenchError(f"{peer.name}, {case}: {ends} records instead of {records}")
            bench.broker.admin.delete_topic(topic)
    for measured in (False, *(True,) * world.plan.rounds):
        with _counted(bench, PYTHON, DRAIN, records, found if measured else []):
            _drain(rows)
    return found


def _write(bench: Bench, peer: Peer, rows: DataFrame, codec: str) -> str:
    """Write all rows to a new topic; its name."""
    topic = f"sink-{time.monotonic_ns()}"
    bench.broker.admin.create_topic(topic, topics.PARTITIONS)
    asked = {"kafka.bootstrap.servers": bench.broker.bootstrap, "topic": topic, "kafka.compression.type": codec}
    rows.write.format(peer.format).options(**asked).mode("append").save()
    return topic


def _drain(rows: DataFrame) -> None:
    def drained(batches: Iterable[Any]) -> Iterator[Any]:  # pickled by its code: workers have no module of the bench
        for _ in batches:
            pass
        yield from ()

    rows.mapInArrow(drained, "n BIGINT").write.format("noop").mode("overwrite").save()


@contextmanager
def _counted(bench: Bench, case: str, source: str, records: int, found: list[Sample]) -> Iterator[None]:
    """Add the sample of what is done in this block."""
    before, began = bench.clients.cpu(), time.monotonic()
    yield
    seconds = time.monotonic() - began
    cpu = {kind: used / records * 1e6 for kind, used in between(before, bench.clients.cpu()).items()}
    figures = {"rows_per_s": records / seconds, "cpu_s_per_million": sum(cpu.values())}
    found.append(Sample(case, source, figures | {f"cpu/{kind}": used for kind, used in cpu.items()}))
    told = f"{figures['rows_per_s'] / 1e6:.2f} M rows/s, {figures['cpu_s_per_million']:.2f} CPU-s per M rows"
    say(f"{case}, {source}: {told}")


# --- topic to topic -----------------------------------------------------------------------------


@contextmanager
def _arrivals(bootstrap: str, topic: str) -> Iterator[list[float]]:
    """How many milliseconds each record was on its way to a plain consumer of this topic, whose values are when it began."""
    settings = {"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False, "log_level": 0}
    client = Consumer(settings | {"fetch.wait.max.ms": 10})
    client.assign([TopicPartition(topic, number, 0) for number in range(topics.PARTITIONS)])
    ended, taken_ms = threading.Event(), list[float]()

    def read() -> None:
        while not ended.is_set():
            message = client.poll(0.1)
            if message is not None and message.error() is None:
                taken_ms.append(time.time() * 1000 - int(message.value() or b""))

    thread = threading.Thread(target=read, name="bench-arrivals", daemon=True)
    thread.start()
    try:
        yield taken_ms
    finally:
        ended.set()
        thread.join()
        client.close()


def _copies(world: World, bench: Bench) -> list[Sample]:
    """From each record's timestamp in the first topic until a consumer has it from the second."""
    found, peers = list[Sample](), world.chosen(COHORT, KAFKA)
    bench.broker.admin.create_topic("sink-from", topics.PARTITIONS)
    for peer in peers:
        say(f"warming up: {peer.name}, {COPY}")
        copied_while(bench, peer, world.plan.stretch_s / 2)
    for peer in order(peers, world.plan.rounds):
        figures = copied_while(bench, peer, world.plan.stretch_s)
        found.append(Sample(COPY, peer.name, figures))
        say(f"{COPY}, {peer.name}: {', '.join(f'{name} {value:.0f}' for name, value in figures.items())}")
    return found


def copied_while(
    bench: Bench, peer: Peer, seconds: float, options: Mapping[str, str] | None = None
) -> dict[str, float]:
    """Copy what comes at a low rate for so long, with these options of the write: milliseconds to a ``read_committed`` consumer, and of a batch."""
    topic, bootstrap = f"sink-to-{time.monotonic_ns()}", bench.broker.bootstrap
    bench.broker.admin.create_topic(topic, topics.PARTITIONS)
    frame = bench.read(peer, "sink-from", startingOffsets="latest")
    frame = frame.selectExpr("key", "cast(unix_millis(timestamp) as string) as value")
    asked = {"kafka.bootstrap.servers": bootstrap, "topic": topic, **(options or {})}
    writer = frame.writeStream.format(peer.format).options(**asked)
    with (
        Load(bootstrap, "sink-from", topics.PARTITIONS, RATE),
        _arrivals(bootstrap, topic) as taken_ms,
        bench.streaming(peer, writer) as query,
    ):
        bench.await_batches(query, UNMEASURED, PATIENCE_S)
        bench.wait(query, lambda: False, UNMEASURED_S)
        unmeasured, first = len(taken_ms), bench.progress.count(query)
        bench.wait(query, lambda: False, seconds)
        taken = [(value, 1.0) for value in taken_ms[unmeasured:]]
    if len(taken) < RATE * seconds / 2:
        raise BenchError(f"{peer.name}, {COPY}: only {len(taken)} records within {seconds:g} s")
    batch_ms = median(batch.seconds * 1000 for batch in bench.progress.batches(query)[first:])
    return {name: percentile(taken, share) for name, share in SHARES.items()} | {"batch_ms": batch_ms}


# --- without Spark ------------------------------------------------------------------------------


def _alone(world: World) -> list[Sample]:
    """Each in a process of its own, all of whose CPU time counts."""
    found, records = list[Sample](), min(world.plan.records, MOST_ROWS)
    records -= records % BATCH_ROWS
    for name in order(list(PRODUCERS), world.plan.rounds):
        topic = f"sink-{time.monotonic_ns()}"
        world.broker.admin.create_topic(topic, topics.PARTITIONS)
        figures = _run_client(PRODUCERS[name], world, topic, records)
        if name != ENCODER and (ends := sum(world.broker.admin.ends(topic).values())) != records:
            raise BenchError(f"{name}: {ends} records instead of {records}")
        found.append(Sample(ALONE, name, figures))
        say(f"{ALONE}, {name}: " + ", ".join(f"{figure} {value / 1e6:.2f} M" for figure, value in figures.items()))
        world.broker.admin.delete_topic(topic)
    return found


def _run_client(kind: str, world: World, topic: str, records: int, codec: str = CODECS[0]) -> dict[str, float]:
    command = [sys.executable, "-P", str(CLIENT), kind, world.broker.bootstrap, topic, str(records), codec]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise BenchError(f"{kind} failed: {done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def demands(cases: Sequence[str]) -> list[Demand]:
    """Beside Spark's own sink: more rows for less CPU, and sooner there; the encoder by itself."""
    writes = [case for case in cases if case in WRITES]
    return [
        *(Demand(case, "rows_per_s", "rows/s", 1.2, beside=KAFKA.name, at_least=True) for case in writes),
        *(Demand(case, "cpu_s_per_million", "CPU", 0.9, beside=KAFKA.name) for case in writes),
        Demand(COPY, "p99_ms", "p99", 0.85, beside=KAFKA.name),
        Demand(ALONE, "rows_per_cpu_s", "rows per CPU-s", 10e6, (ENCODER,), at_least=True),
    ]
