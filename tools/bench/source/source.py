"""The part ``source``: all of a topic of 100-byte values into a noop sink, warm, AvailableNow, per Spark master."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tools.bench.figures import Demand, Sample
from tools.bench.report import Column
from tools.bench.results import order
from tools.bench.source import topics
from tools.bench.source.peers import COHORT, KAFKA, KAFKA_TUNED, ROW, Peer, View
from tools.bench.source.runs import Bench
from tools.bench.source.world import World, say

BATCHES = 6  # of which the first and the last are not measured
TOPIC = "source"
TITLE = "All of a topic, steady batches"
COLUMNS = (
    Column("rows_per_s", "M rows/s", 1e-6, compared=True),
    Column("cpu_s_per_million", "CPU-s per M rows", compared=True),
    Column("cpu/", "of which"),
    Column("query_rows_per_s", "whole query, M rows/s", 1e-6),
    Column("first_batch_s", "first batch, s", digits=1),
)


def measure(world: World) -> list[Sample]:
    """Every source ``rounds`` times on each master, after its bytes were checked and it was warmed up."""
    found: list[Sample] = []
    written: topics.Sums = {}
    for master in world.plan.masters:
        with world.application(master) as bench:
            if not written:
                written = fill(bench, TOPIC, topics.Shape(), world.plan.records)
            records = sum(seen[0] for seen in written.values())

            def check(peer: Peer, bench: Bench = bench, written: topics.Sums = written) -> None:
                bench.check(peer, TOPIC, written)

            peers = world.chosen(COHORT, KAFKA, KAFKA_TUNED)
            found += checked_rounds(bench, master, peers, TOPIC, records, world.plan.rounds, check, ROW)
    return found


def fill(bench: Bench, topic: str, shape: topics.Shape, records: int) -> topics.Sums:
    """The records of a shape in a new topic."""
    say(f"filling a topic: {records:,} records, {shape.name}, in {topics.PARTITIONS} partitions")
    return topics.fill(bench.spark, bench.broker, topic, shape, records)


def checked_rounds(
    bench: Bench,
    case: str,
    peers: Sequence[Peer],
    topic: str,
    records: int,
    count: int,
    check: Callable[[Peer], None],
    view: View,
) -> list[Sample]:
    """Each peer ``count`` times, there and back, after a checked and a warming run of each.

    ``check`` raises BenchError when a source delivers something else than was written.
    """
    for peer in peers:
        say(f"checking every byte and warming up: {peer.name}")
        check(peer)
        bench.throughput(peer, topic, records, BATCHES, view=view)
    runs: list[Sample] = []
    todo = order(peers, count)
    for number, peer in enumerate(todo, 1):
        figures = bench.throughput(peer, topic, records, BATCHES, view=view)
        runs.append(Sample(case, peer.name, figures))
        say(
            f"[{number}/{len(todo)}] {peer.name}: {figures['rows_per_s'] / 1e6:.2f} M rows/s, "
            f"{figures['cpu_s_per_million']:.2f} CPU-s per M rows; whole query {figures['query_s']:.1f} s"
        )
    return runs


def demands(cases: Sequence[str]) -> list[Demand]:
    """Wall time and CPU beside Spark's own source, default and tuned."""
    return [
        demand
        for case in cases
        for demand in (
            Demand(case, "rows_per_s", "rows/s", 1.5, beside=KAFKA.name, at_least=True),
            Demand(case, "cpu_s_per_million", "CPU", 1.4, beside=KAFKA.name, aim=1.0),
            Demand(case, "rows_per_s", "rows/s", 1.4, beside=KAFKA_TUNED.name, at_least=True, aim=1.6),
            Demand(case, "cpu_s_per_million", "CPU", 0.85, beside=KAFKA_TUNED.name, aim=0.7),
        )
    ]
