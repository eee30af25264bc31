"""The part ``latency``: from a record's timestamp until its batch is in the sink, trigger 0, at a low and a high rate.

The same for all: the query itself observes the distribution of its batch's timestamps, in the JVM, and Spark's progress
tells when all of the batch was in the sink, so that nothing but the source differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.functions import expr
from rich.table import Table

from tools.bench.figures import Bound, middle, paired, percentile, shown, spread
from tools.bench.results import Batch, BenchError, order
from tools.bench.source.load import Load, Sums, merged
from tools.bench.source.peers import COHORT, KAFKA, Peer
from tools.bench.source.runs import Bench
from tools.bench.source.world import Found, World, say

RATES = (1_000, 50_000)
PARTITIONS = 8
UNMEASURED = 8  # first batches
LEAST_BATCHES = 5
PATIENCE_S = 60.0
STEPS = 20  # of a batch's distribution
OBSERVED = "timestamps"
SHARES = {"p50_ms": 0.5, "p99_ms": 0.99}


@dataclass(frozen=True)
class Run:
    """Milliseconds below which half, and 99 of 100, of one run's records were in the sink; its batches and records."""

    peer: str
    rate: int
    p50_ms: float
    p99_ms: float
    batches: int
    records: int


def measure(world: World) -> Found:
    """Everybody at each rate, in turns; then the bytes of all that was written."""
    found: Found = {}
    with world.application(world.plan.masters[0]) as bench:
        for rate in RATES:
            found[str(rate)] = summary(_at(bench, world, rate))
    return found


def _at(bench: Bench, world: World, rate: int) -> list[Run]:
    topic, peers = f"latency-{rate}", world.chosen(COHORT, KAFKA)
    bench.broker.admin.create_topic(topic, PARTITIONS)
    written: list[Sums] = []
    for peer in peers:
        say(f"warming up: {peer.name}, {rate:,} records a second")
        _run(bench, peer, topic, rate, world.plan.stretch_s / 2, written)
    runs: list[Run] = []
    todo = order(peers, world.plan.rounds)
    for number, peer in enumerate(todo, 1):
        seen = _run(bench, peer, topic, rate, world.plan.stretch_s, written)
        runs.append(run_of(peer.name, rate, seen))
        say(
            f"[{number}/{len(todo)}] {rate:,} records/s, {peer.name}: p50 {runs[-1].p50_ms:.0f} ms, "
            f"p99 {runs[-1].p99_ms:.0f} ms, {runs[-1].batches} batches"
        )
    for peer in peers:
        say(f"checking every byte: {peer.name}")
        bench.check(peer, topic, merged(written))
    return runs


def _run(bench: Bench, peer: Peer, topic: str, rate: int, seconds: float, written: list[Sums]) -> list[Batch]:
    shares = ", ".join(f"{step / STEPS}D" for step in range(STEPS + 1))
    at = f"percentile_approx(unix_millis(timestamp), array({shares}), 10000)"
    frame = bench.read(peer, topic, startingOffsets="latest").observe(OBSERVED, expr(at).alias("at_ms"))
    with (
        Load(bench.broker.bootstrap, topic, PARTITIONS, rate) as load,
        bench.streaming(peer, frame.writeStream.format("noop")) as query,
    ):
        bench.await_batches(query, UNMEASURED, PATIENCE_S)
        bench.wait(query, lambda: False, seconds)
    written.append(load.sums)
    return bench.progress.batches(query)


def run_of(peer: str, rate: int, batches: Sequence[Batch]) -> Run:
    """What one run's batches come to; raises BenchError when there were hardly any."""
    measured = batches[UNMEASURED:]
    if len(measured) < LEAST_BATCHES:
        raise BenchError(f"{peer}, {rate} records/s: only {len(measured)} measured batches")
    values = [value for batch in measured for value in latencies(batch)]
    found = {name: percentile(values, share) for name, share in SHARES.items()}
    return Run(peer, rate, found["p50_ms"], found["p99_ms"], len(measured), sum(batch.rows for batch in measured))


def latencies(batch: Batch) -> list[tuple[float, float]]:
    """(milliseconds, records) of one batch: as many records as lie between two steps of its distribution, at their middle."""
    marks: Sequence[float] = batch.observed[OBSERVED]["at_ms"]
    share = batch.rows / (len(marks) - 1)
    return [(batch.sunk * 1000 - (before + after) / 2, share) for before, after in pairwise(marks)]


def summary(runs: Sequence[Run]) -> Found:
    """Per source the spread over the rounds, and Cohort's against each other one's."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.peer, []).append(run)
    values = {peer: {name: [getattr(run, name) for run in of] for name in SHARES} for peer, of in found.items()}
    ours = values.get(COHORT.name)
    return {
        "sources": {
            peer: {"runs": len(found[peer]), "batches": sum(run.batches for run in found[peer])}
            | {name: spread(each) for name, each in of.items()}
            for peer, of in values.items()
        },
        "cohort_over": _over(ours, values) if ours else {},
    }


def _over(ours: Mapping[str, list[float]], values: Mapping[str, Mapping[str, list[float]]]) -> Found:
    others = {peer: of for peer, of in values.items() if of is not ours}
    return {peer: {name: paired(ours[name], each) for name, each in of.items()} for peer, of in others.items()}


def bounds(found: Found) -> list[Bound]:
    """The slowest hundredth beside Spark's own."""
    return [
        Bound(
            f"latency, {int(rate):,} records/s: p99 of {KAFKA.name}'s",
            middle(seen["cohort_over"][KAFKA.name]["p99_ms"]),
            0.8,
            at_least=False,
            aim=0.6,
        )
        for rate, seen in found.items()
        if KAFKA.name in seen["cohort_over"]
    ]


def tables(found: Found) -> list[Table]:
    """One line a rate and source."""
    table = Table(
        title="From a record's timestamp to the sink, trigger 0, ms (median of the rounds, least to greatest)"
    )
    for name in ("records/s", "source", "p50", "p99", "batches", "cohort's p50 : its", "cohort's p99 : its"):
        table.add_column(name, justify="left" if name == "source" else "right")
    for rate, seen in found.items():
        for peer, of in seen["sources"].items():
            over = seen["cohort_over"].get(peer, {})
            times = [shown(of[name], 1, 0) for name in SHARES]
            table.add_row(
                f"{int(rate):,}", peer, *times, str(of["batches"]), *(shown(over.get(name)) for name in SHARES)
            )
    return [table]
