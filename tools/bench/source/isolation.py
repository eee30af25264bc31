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
from statistics import median

from tests.kit.broker import Cluster
from tools.bench.figures import Demand, Sample, Value, ratio
from tools.bench.report import Column
from tools.bench.results import Batch, BenchError, order
from tools.bench.source.load import Load, merged
from tools.bench.source.peers import COHORT, KAFKA, Peer
from tools.bench.source.runs import Bench
from tools.bench.source.world import World, say

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
TITLE = "A leader of one partition of eight at fault: a batch's time, ms"
COLUMNS = (
    Column("before_ms", "before", digits=0),
    Column("worst_ms", "worst", digits=0, compared=True),
    Column("later_ms", "later ones", digits=0),
    Column("later", "how many", digits=0),
    Column("later_over_before", "later : before"),
)


def measure(world: World) -> list[Sample]:
    """Everybody through each fault, in turns."""
    runs: list[Sample] = []
    with Cluster(2, relayed=[APART]) as cluster, world.application(world.plan.masters[0], counting=False) as bench:
        todo = order([(fault, peer) for fault in FAULTS for peer in world.chosen(COHORT, KAFKA)], world.plan.rounds)
        for number, (fault, peer) in enumerate(todo, 1):
            topic = f"isolation-{number}"
            cluster.admin.create_topic(topic, assignment=list(ON))
            figures = _run(bench, cluster, peer, topic, fault, world.plan.window_s)
            runs.append(Sample(fault, peer.name, figures))
            told = ", ".join(f"{name} {value:.1f}" for name, value in figures.items() if value is not None)
            say(f"[{number}/{len(todo)}] {fault}, {peer.name}: {told}")
    return runs


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


def _run(bench: Bench, cluster: Cluster, peer: Peer, topic: str, fault: str, window_s: float) -> dict[str, Value]:
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
    return figures_of(f"{peer.name}, {fault}", batches[UNMEASURED:], began, ended)


def figures_of(who: str, batches: Sequence[Batch], began: float, ended: float) -> dict[str, Value]:
    """A batch before the fault, the worst one of it, one behind that (None: hardly any); it lasts from ``began`` to ``ended`` (epoch s).

    Raises BenchError without a calm.
    """
    before = [batch.seconds * 1000 for batch in batches if batch.ended <= began]
    during = [batch for batch in batches if batch.ended > began and batch.began < ended]
    if not before or not during:
        raise BenchError(f"{who}: no batch before the fault, or none while it lasted")
    in_flight = [batch.ended for batch in during if batch.began < began + SETTLING_S]
    settled = max([began + SETTLING_S, *in_flight])
    later = [batch.seconds * 1000 for batch in during if batch.began >= settled]
    typical = median(later) if len(later) >= LEAST_LATER else None
    return {
        "before_ms": median(before),
        "worst_ms": max(batch.seconds for batch in during) * 1000,
        "later_ms": typical,
        "later": len(later),
        "later_over_before": ratio(typical, median(before)),
    }


def demands(cases: Sequence[str]) -> list[Demand]:
    """The batch in flight waits no longer than Spark's own does, the later ones hardly."""
    worst = [Demand(fault, "worst_ms", "worst batch", 1.0, beside=KAFKA.name) for fault in cases]
    return worst + [Demand(fault, "later_over_before", "later batches : before", 1.1, aim=1.0) for fault in cases]
