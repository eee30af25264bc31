"""The part ``partitions``: the same trickle of records over few and over very many partitions, trigger 0."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.table import Table

from tests.kit.admin import Admin
from tools.bench.figures import Bound, middle, ratio, shown, spread
from tools.bench.results import Trickle, order
from tools.bench.source.load import Load, Sums, merged
from tools.bench.source.peers import COHORT, KAFKA, Peer
from tools.bench.source.runs import Bench
from tools.bench.source.world import Found, Plan, World, say

FEW, SOME, MANY, MOST = 8, 300, 1_000, 3_000
RATE = 900  # records a second, however many partitions: the rows of a batch are the same
AT_ONCE = 500  # partitions created
UNMEASURED = 5  # first batches of a trickle


def measure(world: World) -> Found:
    """Trigger times per size; Spark's own at 300 partitions last and once, since it may crawl, and at no more."""
    sizes = (FEW, SOME, MANY, MOST)
    for size in sizes:
        say(f"creating a topic of {size:,} partitions")
        _create(world.broker.admin, topic_of(size), size)
    steps = order(steps_of(world.chosen(COHORT, KAFKA), sizes), world.plan.rounds)
    crawl = (KAFKA, SOME)
    todo = [step for step in steps if step != crawl] + [crawl] * (crawl in steps)
    runs: list[Trickle] = []
    written: dict[int, list[Sums]] = {size: [] for size in sizes}
    with world.application(world.plan.masters[0], counting=False) as bench:
        for peer in world.chosen(COHORT, KAFKA):
            say(f"warming up: {peer.name}")
            trickle(bench, peer, FEW, world.plan, written[FEW])
        for number, (peer, size) in enumerate(todo, 1):
            run = trickle(bench, peer, size, world.plan, written[size])
            runs.append(run)
            typical = "no measured batch" if run.median_ms is None else f"{run.median_ms:.0f} ms a trigger"
            count = len(run.trigger_ms) + run.unmeasured
            say(
                f"[{number}/{len(todo)}] trickle, {size} partitions, {peer.name}: {typical} "
                f"({count} batches in {run.seconds:.0f} s)"
            )
        for peer, size in steps_of(world.chosen(COHORT, KAFKA), sizes):
            if (peer, size) != crawl:
                say(f"checking every byte: {peer.name}, {size} partitions")
                bench.check(peer, topic_of(size), merged(written[size]))
    return summary(runs)


def _create(admin: Admin, topic: str, size: int) -> None:
    """In steps: a broker that makes thousands of files at once leaves everybody waiting."""
    admin.create_topic(topic, min(size, AT_ONCE))
    for total in range(AT_ONCE, size, AT_ONCE):
        admin.add_partitions(topic, min(total + AT_ONCE, size))


def topic_of(size: int) -> str:
    """The topic of so many partitions."""
    return f"trickle-{size}"


def steps_of(peers: Sequence[Peer], sizes: Sequence[int]) -> list[tuple[Peer, int]]:
    """Who reads what: Spark's own no more than 300 partitions."""
    return [(peer, size) for size in sizes for peer in peers if peer is COHORT or size <= SOME]


def trickle(bench: Bench, peer: Peer, size: int, plan: Plan, written: list[Sums]) -> Trickle:
    """Run with trigger 0 while a producer writes to every partition, for so many batches or ``cap_s`` seconds."""
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
    measured = tuple(batch.seconds * 1000 for batch in seen[UNMEASURED:])
    return Trickle(peer.name, size, measured, min(UNMEASURED, len(seen)), seconds)


def summary(runs: Sequence[Trickle]) -> Found:
    """Per source and number of partitions: batches, the spread of the runs' median trigger times, the seconds it took."""
    pooled: dict[str, dict[str, list[Trickle]]] = {}
    for run in runs:
        pooled.setdefault(run.peer, {}).setdefault(str(run.partitions), []).append(run)
    return {peer: {at: _one(found) for at, found in by_size.items()} for peer, by_size in pooled.items()}


def _one(runs: Sequence[Trickle]) -> Found:
    times = [run.median_ms for run in runs if run.median_ms is not None]
    batches = sum(len(run.trigger_ms) + run.unmeasured for run in runs)
    seconds = sum(run.seconds for run in runs)
    return {
        "runs": len(runs),
        "batches": batches,
        "measured": sum(len(run.trigger_ms) for run in runs),
        "trigger_ms": spread(times) if times else None,
        # What a batch takes at least, where hardly one ended in time.
        "no_less_than_ms": seconds * 1000 / max(batches, 1) if not times else None,
        "seconds": seconds,
    }


def bounds(found: Found) -> list[Bound]:
    """Flat over the number of partitions, and far below Spark's own."""
    held: list[Bound] = []
    ours, theirs = found.get(COHORT.name, {}), found.get(KAFKA.name, {})
    few = _trigger(ours, FEW)
    for size, must in ((SOME, None), (MANY, 1.3), (MOST, 1.5)):
        if str(size) in ours:
            over = ratio(_trigger(ours, size), few)
            held.append(Bound(f"partitions: trigger time at {size:,} : at {FEW}", over, must, at_least=False, aim=1.1))
    if str(SOME) in theirs and str(SOME) in ours:
        crawl = _trigger(theirs, SOME) or theirs[str(SOME)]["no_less_than_ms"]
        below = ratio(crawl, _trigger(ours, SOME))
        held.append(Bound(f"partitions: trigger time of {KAFKA.name} : cohort at {SOME}", below, 10))
    return held


def _trigger(by_size: Found, size: int) -> float | None:
    """The median, None when no batch was measured."""
    return middle(by_size.get(str(size), {}).get("trigger_ms"))


def tables(found: Found) -> list[Table]:
    """One line a source and size."""
    table = Table(title="A trickle of data, trigger 0 (median of the runs' medians, least to greatest)")
    for name in ("source", "partitions", "trigger, ms", "batches", "in s"):
        table.add_column(name, justify="left" if name == "source" else "right")
    for peer, by_size in found.items():
        for size, seen in by_size.items():
            slow = seen["no_less_than_ms"]
            times = f"about {slow:,.0f}" if slow else shown(seen["trigger_ms"], 1, 0)
            table.add_row(peer, size, times, str(seen["batches"]), f"{seen['seconds']:.0f}")
    return [table]
