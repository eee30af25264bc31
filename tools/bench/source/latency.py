"""The part ``latency``: from a record's timestamp until its batch is in the sink, trigger 0, at a low and a high rate.

The same for all: the query itself observes the distribution of its batch's timestamps, in the JVM, and Spark's progress
tells when all of the batch was in the sink, so that nothing but the source differs.  Each rate also with asynchronous
progress, where Spark writes its log files beside the next batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.functions import expr

from tools.bench.figures import Demand, Sample, percentile
from tools.bench.report import Column
from tools.bench.results import Batch, BenchError, order
from tools.bench.source.load import Load, Sums, merged
from tools.bench.source.peers import COHORT, KAFKA, PYTHON_READER, Peer
from tools.bench.source.runs import Bench
from tools.bench.source.world import World, say

RATES = (1_000, 50_000)
PARTITIONS = 8
# First batches, and seconds after them: with asynchronous progress eight take half a second.
UNMEASURED, UNMEASURED_S = 8, 5.0
LEAST_BATCHES = 5
PATIENCE_S = 60.0
STEPS = 20  # of a batch's distribution
OBSERVED = "timestamps"
ASYNCHRONOUS = {"asyncProgressTrackingEnabled": "true"}
SHARES = {"p50_ms": 0.5, "p99_ms": 0.99}
TITLE = "From a record's timestamp to the sink, trigger 0, ms"
COLUMNS = (
    Column("p50_ms", "p50", digits=0, compared=True),
    Column("p99_ms", "p99", digits=0, compared=True),
    Column("batches", "batches", digits=0),
)


@dataclass(frozen=True)
class Setting:
    """What is measured: records a second, with Spark's usual progress or with asynchronous progress."""

    rate: int
    asynchronous: bool = False

    @property
    def name(self) -> str:
        """As in reports."""
        return f"{self.rate:,} records/s" + ", asynchronous progress" * self.asynchronous

    @property
    def topic(self) -> str:
        """Its own."""
        return f"latency-{self.rate}" + "-asynchronous" * self.asynchronous


SETTINGS = {setting.name: setting for setting in (Setting(rate, kind) for kind in (False, True) for rate in RATES)}


def measure(world: World) -> list[Sample]:
    """Everybody in each setting, in turns; then the bytes of all that was written."""
    with world.application(world.plan.masters[0], counting=False) as bench:
        return [sample for setting in SETTINGS.values() for sample in _at(bench, world, setting)]


def _at(bench: Bench, world: World, setting: Setting) -> list[Sample]:
    topic, peers = setting.topic, world.chosen(COHORT, PYTHON_READER, KAFKA)
    bench.broker.admin.create_topic(topic, PARTITIONS)
    written: list[Sums] = []
    for peer in peers:
        say(f"warming up: {peer.name}, {setting.name}")
        _run(bench, peer, setting, world.plan.stretch_s / 2, written)
    runs: list[Sample] = []
    todo = order(peers, world.plan.rounds)
    for number, peer in enumerate(todo, 1):
        seen = _run(bench, peer, setting, world.plan.stretch_s, written)
        figures = figures_of(f"{peer.name}, {setting.name}", seen)
        runs.append(Sample(setting.name, peer.name, figures))
        told = ", ".join(f"{name} {value:.0f}" for name, value in figures.items())
        say(f"[{number}/{len(todo)}] {setting.name}, {peer.name}: {told}")
    for peer in peers:
        say(f"checking every byte: {peer.name}")
        bench.check(peer, topic, merged(written))
    return runs


def _run(bench: Bench, peer: Peer, setting: Setting, seconds: float, written: list[Sums]) -> list[Batch]:
    shares = ", ".join(f"{step / STEPS}D" for step in range(STEPS + 1))
    at = f"percentile_approx(unix_millis(timestamp), array({shares}), 10000)"
    frame = bench.read(peer, setting.topic, startingOffsets="latest").observe(OBSERVED, expr(at).alias("at_ms"))
    writer = frame.writeStream.format("noop").options(**(ASYNCHRONOUS if setting.asynchronous else {}))
    with (
        Load(bench.broker.bootstrap, setting.topic, PARTITIONS, setting.rate) as load,
        bench.streaming(peer, writer) as query,
    ):
        bench.await_batches(query, UNMEASURED, PATIENCE_S)
        bench.wait(query, lambda: False, UNMEASURED_S)
        unmeasured = bench.progress.count(query)
        bench.wait(query, lambda: False, seconds)
    written.append(load.sums)
    return bench.progress.batches(query)[unmeasured:]


def figures_of(who: str, batches: Sequence[Batch]) -> dict[str, float]:
    """Milliseconds below which half, and 99 of 100, of one run's records were in the sink; raises BenchError when there were hardly any batches."""
    if len(batches) < LEAST_BATCHES:
        raise BenchError(f"{who}: only {len(batches)} measured batches")
    values = [value for batch in batches for value in latencies(batch)]
    return {name: percentile(values, share) for name, share in SHARES.items()} | {"batches": len(batches)}


def latencies(batch: Batch) -> list[tuple[float, float]]:
    """(milliseconds, records) of one batch: as many records as lie between two steps of its distribution, at their middle."""
    marks: Sequence[float] = batch.observed[OBSERVED]["at_ms"]
    share = batch.rows / (len(marks) - 1)
    return [(batch.sunk * 1000 - (before + after) / 2, share) for before, after in pairwise(marks)]


def demands(cases: Sequence[str]) -> list[Demand]:
    """The slowest hundredth beside Spark's own; with asynchronous progress and few records hardly anybody waits."""
    found: list[Demand] = []
    for case in cases:
        must, aim = (0.8, None) if SETTINGS[case].asynchronous else (0.75, 0.6)
        found.append(Demand(case, "p99_ms", "p99", must, beside=KAFKA.name, aim=aim))
        found += [Demand(case, f"{name}_ms", name, 0.8, beside=PYTHON_READER.name) for name in ("p50", "p99")]
    return [*found, Demand(Setting(RATES[0], asynchronous=True).name, "p99_ms", "p99, ms", None, aim=100.0)]
