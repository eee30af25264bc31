"""The part ``partitions``: the same trickle of records over few and over very many partitions, trigger 0."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

from tests.kit.admin import Admin
from tools.bench.figures import Demand, Sample, Value
from tools.bench.report import Column
from tools.bench.results import order
from tools.bench.source.load import Load, Sums, merged
from tools.bench.source.peers import COHORT, KAFKA, Peer
from tools.bench.source.runs import Bench
from tools.bench.source.world import Plan, World, say

FEW, SOME, MANY, MOST = 8, 300, 1_000, 3_000
RATE = 900  # records a second, however many partitions: the rows of a batch are the same
AT_ONCE = 500  # partitions created
UNMEASURED = 5  # first batches of a trickle
TITLE = "A trickle of data, trigger 0"
COLUMNS = (
    Column("trigger_ms", "a run's median trigger, ms", digits=0, compared=True),
    Column("a_batch_ms", "its seconds by its batches, ms", digits=0),
    Column("batches", "batches", digits=0),
)


def measure(world: World) -> list[Sample]:
    """Trigger times per size; Spark's own at 300 partitions last and once, since it may crawl, and at no more."""
    sizes = (FEW, SOME, MANY, MOST)
    for size in sizes:
        say(f"creating a topic of {size:,} partitions")
        _create(world.broker.admin, topic_of(size), size)
    steps = order(steps_of(world.chosen(COHORT, KAFKA), sizes), world.plan.rounds)
    crawl = (KAFKA, SOME)
    todo = [step for step in steps if step != crawl] + [crawl] * (crawl in steps)
    runs: list[Sample] = []
    written: dict[int, list[Sums]] = {size: [] for size in sizes}
    with world.application(world.plan.masters[0], counting=False) as bench:
        for peer in world.chosen(COHORT, KAFKA):
            say(f"warming up: {peer.name}")
            trickle(bench, peer, FEW, world.plan, written[FEW])
        for number, (peer, size) in enumerate(todo, 1):
            seen = trickle(bench, peer, size, world.plan, written[size])
            runs.append(Sample(case_of(size), peer.name, seen))
            say(f"[{number}/{len(todo)}] {size} partitions, {peer.name}: a trigger {seen['trigger_ms']} ms")
        for peer, size in steps_of(world.chosen(COHORT, KAFKA), sizes):
            if (peer, size) != crawl:
                say(f"checking every byte: {peer.name}, {size} partitions")
                bench.check(peer, topic_of(size), merged(written[size]))
    return runs


def _create(admin: Admin, topic: str, size: int) -> None:
    """In steps: a broker that makes thousands of files at once leaves everybody waiting."""
    admin.create_topic(topic, min(size, AT_ONCE))
    for total in range(AT_ONCE, size, AT_ONCE):
        admin.add_partitions(topic, min(total + AT_ONCE, size))


def case_of(size: int) -> str:
    """As in reports."""
    return f"{size:,} partitions"


def topic_of(size: int) -> str:
    """The topic of so many partitions."""
    return f"trickle-{size}"


def steps_of(peers: Sequence[Peer], sizes: Sequence[int]) -> list[tuple[Peer, int]]:
    """Who reads what: Spark's own no more than 300 partitions."""
    return [(peer, size) for size in sizes for peer in peers if peer is COHORT or size <= SOME]


def trickle(bench: Bench, peer: Peer, size: int, plan: Plan, written: list[Sums]) -> dict[str, Value]:
    """Run with trigger 0 while a producer writes to every partition, for so many batches or ``cap_s`` seconds.

    Where hardly a batch ends in time there is no trigger time, but what a batch takes at least.
    """
    frame = bench.read(peer, topic_of(size), startingOffsets="latest")
    began = time.monotonic()
    with (
        Load(bench.broker.bootstrap, topic_of(size), size, RATE) as load,
        bench.streaming(peer, frame.writeStream.format("noop")) as query,
    ):
        bench.await_batches(query, plan.batches + UNMEASURED, plan.cap_s)
        seconds = time.monotonic() - began
    written.append(load.sums)
    seen = bench.progress.batches(query)
    measured = [batch.seconds * 1000 for batch in seen[UNMEASURED:]]
    typical = median(measured) if measured else None
    return {"trigger_ms": typical, "a_batch_ms": typical or seconds * 1000 / max(len(seen), 1), "batches": len(seen)}


def demands(cases: Sequence[str]) -> list[Demand]:
    """Flat over the number of partitions, and far below Spark's own."""
    few = case_of(FEW)
    flat = [(case_of(size), must) for size, must in ((SOME, None), (MANY, 1.3), (MOST, 1.5)) if case_of(size) in cases]
    return [
        *(Demand(case, "trigger_ms", f"a trigger : at {FEW}", must, beside_case=few, aim=1.1) for case, must in flat),
        Demand(case_of(SOME), "a_batch_ms", "a batch", 0.1, beside=KAFKA.name),
    ]
