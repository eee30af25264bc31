"""The part ``batch``: ``spark.read`` of a whole topic, and of one hour of a day by a filter, into a noop sink, warm."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import Producer
from pyspark.sql import DataFrame

from tests.kit.produce import FLUSH_TIMEOUT_S, producer
from tools.bench.figures import Demand, Sample
from tools.bench.report import Column
from tools.bench.results import BenchError, order
from tools.bench.source import source, topics
from tools.bench.source.peers import COHORT, KAFKA_TUNED, Peer
from tools.bench.source.runs import Bench
from tools.bench.source.world import World, say

FULL, DAY = "batch-full", "batch-day"
WHOLE, HOUR = "the whole topic", "an hour of a day"
HOURS, HOUR_MS = 24, 3_600_000
HOUR_NUMBER = 12  # in the middle, so that both bounds of the filter count
DAY_TIMES = 4  # the day has so many times the records of the other topic: a day is long
PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
BEST = 1 << 16  # records between two looks at what the producer has delivered
TITLE = "spark.read, from load() to the end"
COLUMNS = (
    Column("rows", "rows", digits=0),
    Column("wall_s", "seconds"),
    Column("rows_per_s", "M rows/s", 1e-6, compared=True),
    Column("cpu_s_per_million", "CPU-s per M rows", compared=True),
)


def measure(world: World) -> list[Sample]:
    """Both sources ``rounds`` times on the whole topic and on the hour, after their rows were compared with what was written."""
    found: list[Sample] = []
    peers, rounds = world.chosen(COHORT, KAFKA_TUNED), world.plan.rounds
    with world.application(world.plan.masters[0]) as bench:
        written = source.fill(bench, FULL, topics.Shape(), world.plan.records)
        say(f"-- {WHOLE}")
        found += _rounds(bench, WHOLE, peers, rounds, lambda peer: _load(bench, peer, FULL), written)
        first_ms, written = _fill_day(bench, world.plan.records * DAY_TIMES)
        condition = hour_of(first_ms, HOUR_NUMBER)
        say(f"-- {HOUR}: {condition}")
        with _pushed_down(bench):
            found += _rounds(bench, HOUR, peers, rounds, lambda peer: _filtered(bench, peer).where(condition), written)
    return found


def hour_of(first_ms: int, number: int) -> str:
    """The filter that wants one hour of the day that began at ``first_ms``."""
    begin = first_ms + number * HOUR_MS
    return f"timestamp >= timestamp_millis({begin}) and timestamp < timestamp_millis({begin + HOUR_MS})"


def _load(bench: Bench, peer: Peer, topic: str, **more: str) -> DataFrame:
    asked = {"kafka.bootstrap.servers": bench.broker.bootstrap, "subscribe": topic, **peer.options, **more}
    return bench.spark.read.format(peer.format).options(**asked).load()


def _filtered(bench: Bench, peer: Peer) -> DataFrame:
    """The day, whose timestamps are in order, which only Cohort can be told."""
    mine = {"pushDownPredicate": "true", "maxOutOfOrderness": "0s"} if peer is COHORT else {}
    return _load(bench, peer, DAY, **mine)


@contextmanager
def _pushed_down(bench: Bench) -> Iterator[None]:
    bench.spark.conf.set(PUSH_DOWN, "true")
    try:
        yield
    finally:
        bench.spark.conf.unset(PUSH_DOWN)


def _rounds(
    bench: Bench, case: str, peers: Sequence[Peer], count: int, load: Callable[[Peer], DataFrame], written: topics.Sums
) -> list[Sample]:
    records = sum(seen[0] for seen in written.values())
    for peer in peers:
        say(f"checking every byte and warming up: {peer.name}")
        topics.compare(f"{peer.name}, batch", topics.totals(topics.summed(load(peer)).collect()), written)
        _run(bench, peer, load, records)
    runs: list[Sample] = []
    todo = order(peers, count)
    for number, peer in enumerate(todo, 1):
        seen = _run(bench, peer, load, records)
        runs.append(Sample(case, peer.name, seen))
        say(f"[{number}/{len(todo)}] {peer.name}: {seen['wall_s']:.2f} s, {seen['rows_per_s'] / 1e6:.2f} M rows/s")
    return runs


def _run(bench: Bench, peer: Peer, load: Callable[[Peer], DataFrame], records: int) -> dict[str, float]:
    """One action from ``load()`` to its end; rates are of the rows that the query wants."""
    before, began = sum(bench.clients.cpu().values()), time.monotonic()
    load(peer).write.format("noop").mode("overwrite").save()
    wall = time.monotonic() - began
    cpu = (sum(bench.clients.cpu().values()) - before) / records * 1e6
    return {"rows": records, "wall_s": wall, "rows_per_s": records / wall, "cpu_s_per_million": cpu}


def _fill_day(bench: Bench, records: int) -> tuple[int, topics.Sums]:
    """A topic whose records lie a day's length apart from first to last: when it began, and what its hour has, in sums.

    Spark's sink sets no timestamps.
    """
    say(f"filling a topic: {records:,} records of {HOURS} hours")
    bench.broker.admin.create_topic(DAY, topics.PARTITIONS)
    first_ms = int(time.time() * 1000) // HOUR_MS * HOUR_MS - (HOURS + 1) * HOUR_MS
    client = producer(bench.broker.bootstrap)
    tail = b":" + topics.WORDS.encode() * 2
    for number in range(records):
        at = first_ms + number * HOURS * HOUR_MS // records
        value = (b"%d" % number + tail)[:100]
        client.produce(DAY, value, b"%d" % number, number % topics.PARTITIONS, timestamp=at)
        if number % BEST == 0:
            _let_through(client)
    if client.flush(FLUSH_TIMEOUT_S):
        raise BenchError(f"{DAY}: not all records were taken")
    plain = bench.spark.read.format("kafka").options(
        **{"kafka.bootstrap.servers": bench.broker.bootstrap, "subscribe": DAY}
    )
    wanted = topics.totals(topics.summed(plain.load().where(hour_of(first_ms, HOUR_NUMBER))).collect())
    seen = sum(each[0] for each in wanted.values())
    if abs(seen - records // HOURS) > 1:
        raise BenchError(f"{DAY}: an hour has {seen} records instead of {records // HOURS}")
    return first_ms, wanted


def _let_through(client: Producer) -> None:
    """Wait until the producer has room for what comes before the next look."""
    while len(client) > 4 * BEST:
        client.poll(0.05)
    client.poll(0)


def demands(cases: Sequence[str]) -> list[Demand]:  # noqa: ARG001  the cases are always the same
    """A whole topic faster than Spark's own tuned source reads it, an hour of a day by far."""
    return [
        Demand(case, "rows_per_s", "rows/s", must, beside=KAFKA_TUNED.name, at_least=True)
        for case, must in ((WHOLE, 1.1), (HOUR, 10.0))
    ]
