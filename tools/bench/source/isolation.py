"""The part ``isolation``: one leader of two gets slow, or falls silent; what the batches of the others make of it.

Two brokers of its own, one partition of eight on the second, a steady load over all, trigger 0.  The *worst* batch is the
longest that overlaps the fault: as a rule the one in flight.  *Later* ones began when the fault had been there for some
seconds and what was in flight had ended.  Spark's own source reads all partitions in every batch: there, later batches
wait as well, if there are any.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from rich.table import Table

from tests.kit.broker import Cluster
from tools.bench.figures import Bound, middle, paired, shown, spread
from tools.bench.results import Batch, BenchError, order
from tools.bench.source.load import Load, merged
from tools.bench.source.peers import COHORT, KAFKA, Peer
from tools.bench.source.runs import Bench
from tools.bench.source.world import Found, World, say

ON = (1, 1, 1, 1, 1, 1, 1, 2)  # the leaders of the partitions
APART = 2
RATE = 4_000  # records a second in all: 70 kB/s of each partition
SLOWED = 30_000  # bytes a second that the slow leader answers
SLOW, SILENT = "slow", "silent"
FAULTS = (SLOW, SILENT)
UNMEASURED, CALM_BATCHES = 8, 20
PATIENCE_S, RECOVERY_S = 120.0, 240.0
SETTLING_S = 8.0
LEAST_LATER = 5


@dataclass(frozen=True)
class Run:
    """One source through one fault, in ms: a batch before it, the worst one of it, one behind that (None: hardly any)."""

    peer: str
    fault: str
    before_ms: float
    worst_ms: float
    later_ms: float | None
    later: int

    @property
    def told(self) -> str:
        """In words."""
        later = "hardly any later ones" if self.later_ms is None else f"{self.later} later ones {self.later_ms:.0f} ms"
        return f"{self.fault}, {self.peer}: before {self.before_ms:.0f} ms, worst {self.worst_ms:.0f} ms, {later}"


def measure(world: World) -> Found:
    """Everybody through each fault, in turns."""
    runs: list[Run] = []
    with Cluster(2, relayed=[APART]) as cluster, world.application(world.plan.masters[0], counting=False) as bench:
        todo = order([(fault, peer) for fault in FAULTS for peer in world.chosen(COHORT, KAFKA)], world.plan.rounds)
        for number, (fault, peer) in enumerate(todo, 1):
            topic = f"isolation-{number}"
            cluster.admin.create_topic(topic, assignment=list(ON))
            runs.append(_run(bench, cluster, peer, topic, fault, world.plan.window_s))
            say(f"[{number}/{len(todo)}] {runs[-1].told}")
    return summary(runs)


@contextmanager
def _at_fault(cluster: Cluster, fault: str) -> Iterator[None]:
    """The second broker answers slowly, or not at all."""
    if fault == SLOW:
        cluster.relays[APART].rate(SLOWED)
    else:
        cluster.nodes[APART - 1].pause()
    try:
        yield
    finally:
        if fault == SLOW:
            cluster.relays[APART].rate(None)
        else:
            cluster.nodes[APART - 1].resume()


def _run(bench: Bench, cluster: Cluster, peer: Peer, topic: str, fault: str, window_s: float) -> Run:
    """One query through one fault, and on until a batch began after it; raises BenchError when none does."""
    frame = bench.read(peer, topic, cluster.bootstrap, startingOffsets="earliest")
    with (
        Load(cluster.bootstrap, topic, len(ON), RATE) as load,
        bench.streaming(peer, frame.writeStream.format("noop")) as query,
    ):
        bench.await_batches(query, UNMEASURED + CALM_BATCHES, PATIENCE_S)
        with _at_fault(cluster, fault):
            began = time.time()
            bench.wait(query, lambda: False, window_s)
            ended = time.time()
        if not bench.wait(query, lambda: bench.progress.newest(query) > ended, RECOVERY_S):
            raise BenchError(f"{peer.name}, {fault}: no batch within {RECOVERY_S:.0f} s of the end of the fault")
    batches = bench.progress.batches(query)
    bench.check(peer, topic, merged([load.sums]), bootstrap=cluster.bootstrap)
    return run_of(peer.name, fault, batches[UNMEASURED:], began, ended)


def run_of(peer: str, fault: str, batches: Sequence[Batch], began: float, ended: float) -> Run:
    """What a run's batches come to, the fault lasting from ``began`` to ``ended`` (epoch s); raises BenchError without a calm."""
    before = [batch.seconds * 1000 for batch in batches if batch.ended <= began]
    during = [batch for batch in batches if batch.ended > began and batch.began < ended]
    if not before or not during:
        raise BenchError(f"{peer}, {fault}: no batch before the fault, or none while it lasted")
    in_flight = [batch.ended for batch in during if batch.began < began + SETTLING_S]
    settled = max([began + SETTLING_S, *in_flight])
    later = [batch.seconds * 1000 for batch in during if batch.began >= settled]
    typical = median(later) if len(later) >= LEAST_LATER else None
    worst = max(batch.seconds for batch in during) * 1000
    return Run(peer, fault, median(before), worst, typical, len(later))


def summary(runs: Sequence[Run]) -> Found:
    """Per fault and source the spreads, and Cohort's worst batches against Spark's own, round by round."""
    return {fault: _of_fault([run for run in runs if run.fault == fault]) for fault in FAULTS}


def _of_fault(runs: Sequence[Run]) -> Found:
    by_peer: dict[str, list[Run]] = {}
    for run in runs:
        by_peer.setdefault(run.peer, []).append(run)
    ours, theirs = (by_peer.get(peer.name, []) for peer in (COHORT, KAFKA))
    return {
        "sources": {peer: _one(of) for peer, of in by_peer.items()},
        "worst_over_kafka": paired([run.worst_ms for run in ours], [run.worst_ms for run in theirs]),
    }


def _one(runs: Sequence[Run]) -> Found:
    later = [run for run in runs if run.later_ms is not None]
    return {
        "runs": len(runs),
        "before_ms": spread([run.before_ms for run in runs]),
        "worst_ms": spread([run.worst_ms for run in runs]),
        "later_ms": spread([run.later_ms or 0.0 for run in later]) if later else None,
        "later_over_before": paired([run.later_ms or 0.0 for run in later], [run.before_ms for run in later]),
        "later": sum(run.later for run in runs),
    }


def bounds(found: Found) -> list[Bound]:
    """The batch in flight waits no longer than Spark's own does, the later ones hardly."""
    held: list[Bound] = []
    for fault, seen in found.items():
        if seen["worst_over_kafka"] is not None:
            worst = middle(seen["worst_over_kafka"])
            held.append(Bound(f"isolation, {fault}: worst batch : {KAFKA.name}'s", worst, 1.0, at_least=False))
        if COHORT.name in seen["sources"]:
            over = middle(seen["sources"][COHORT.name]["later_over_before"])
            held.append(Bound(f"isolation, {fault}: later batches : before", over, 1.1, at_least=False, aim=1.0))
    return held


def tables(found: Found) -> list[Table]:
    """One line a fault and source."""
    table = Table(title="A leader of one partition of eight at fault: a batch's time, ms (median, least to greatest)")
    for name in ("fault", "source", "before", "worst", "later ones", "how many", "later : before"):
        table.add_column(name, justify="left" if name in {"fault", "source"} else "right")
    for fault, seen in found.items():
        for peer, each in seen["sources"].items():
            spreads = (shown(each[name], 1, 0) for name in ("before_ms", "worst_ms", "later_ms"))
            table.add_row(fault, peer, *spreads, str(each["later"]), shown(each["later_over_before"]))
    return [table]
