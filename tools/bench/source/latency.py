"""The part ``latency``: from a record's timestamp until its batch is in the sink, trigger 0, at a low and a high rate.

The same for all: the query itself observes the distribution of its batch's timestamps, in the JVM, and Spark's progress
tells when all of the batch was in the sink, so that nothing but the source differs.  Each rate also with asynchronous
progress, where Spark writes its log files beside the next batches.
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
UNMEASURED, UNMEASURED_S = (
    8,
    5.0,
)  # first batches, and seconds after them: with asynchronous progress eight take half a second
LEAST_BATCHES = 5
PATIENCE_S = 60.0
STEPS = 20  # of a batch's distribution
OBSERVED = "timestamps"
ASYNCHRONOUS = {"asyncProgressTrackingEnabled": "true"}
SHARES = {"p50_ms": 0.5, "p99_ms": 0.99}


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


@dataclass(frozen=True)
class Run:
    """Milliseconds below which half, and 99 of 100, of one run's records were in the sink; its batches and records."""

    peer: str
    setting: str
    p50_ms: float
    p99_ms: float
    batches: int
    records: int


def measure(world: World) -> Found:
    """Everybody in each setting, in turns; then the bytes of all that was written."""
    found: Found = {}
    with world.application(world.plan.masters[0], counting=False) as bench:
        for name, setting in SETTINGS.items():
            found[name] = summary(_at(bench, world, setting))
    return found


def _at(bench: Bench, world: World, setting: Setting) -> list[Run]:
    topic, peers = setting.topic, world.chosen(COHORT, KAFKA)
    bench.broker.admin.create_topic(topic, PARTITIONS)
    written: list[Sums] = []
    for peer in peers:
        say(f"warming up: {peer.name}, {setting.name}")
        _run(bench, peer, setting, world.plan.stretch_s / 2, written)
    runs: list[Run] = []
    todo = order(peers, world.plan.rounds)
    for number, peer in enumerate(todo, 1):
        seen = _run(bench, peer, setting, world.plan.stretch_s, written)
        runs.append(run_of(peer.name, setting.name, seen))
        say(
            f"[{number}/{len(todo)}] {setting.name}, {peer.name}: p50 {runs[-1].p50_ms:.0f} ms, "
            f"p99 {runs[-1].p99_ms:.0f} ms, {runs[-1].batches} batches"
        )
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


def run_of(peer: str, setting: str, batches: Sequence[Batch]) -> Run:
    """What one run's measured batches come to; raises BenchError when there were hardly any."""
    if len(batches) < LEAST_BATCHES:
        raise BenchError(f"{peer}, {setting}: only {len(batches)} measured batches")
    values = [value for batch in batches for value in latencies(batch)]
    found = {name: percentile(values, share) for name, share in SHARES.items()}
    return Run(peer, setting, found["p50_ms"], found["p99_ms"], len(batches), sum(batch.rows for batch in batches))


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
    """The slowest hundredth beside Spark's own; with asynchronous progress and few records hardly anybody waits."""
    held: list[Bound] = []
    for name, seen in found.items():
        setting = SETTINGS[name]
        must, aim = (0.8, None) if setting.asynchronous else (0.75, 0.6)
        if KAFKA.name in seen["cohort_over"]:
            over = middle(seen["cohort_over"][KAFKA.name]["p99_ms"])
            held.append(Bound(f"latency, {name}: p99 of {KAFKA.name}'s", over, must, at_least=False, aim=aim))
        if setting == Setting(RATES[0], asynchronous=True) and COHORT.name in seen["sources"]:
            own = middle(seen["sources"][COHORT.name]["p99_ms"])
            held.append(Bound(f"latency, {name}: p99, ms", own, None, at_least=False, aim=100.0))
    return held


def tables(found: Found) -> list[Table]:
    """One line a setting and source."""
    table = Table(
        title="From a record's timestamp to the sink, trigger 0, ms (median of the rounds, least to greatest)"
    )
    for name in ("what", "source", "p50", "p99", "batches", "cohort's p50 : its", "cohort's p99 : its"):
        table.add_column(name, justify="left" if name in {"what", "source"} else "right")
    for name, seen in found.items():
        for peer, of in seen["sources"].items():
            over = seen["cohort_over"].get(peer, {})
            times = [shown(of[which], 1, 0) for which in SHARES]
            table.add_row(name, peer, *times, str(of["batches"]), *(shown(over.get(which)) for which in SHARES))
    return [table]
