"""The part ``source``: all of a topic of 100-byte values into a noop sink, warm, AvailableNow, per Spark master."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from rich.table import Table

from tools.bench.figures import Bound, middle, paired, shown, spread
from tools.bench.results import Throughput, order
from tools.bench.source import topics
from tools.bench.source.peers import COHORT, KAFKA, KAFKA_TUNED, PEERS, ROW, Peer, View
from tools.bench.source.runs import Bench
from tools.bench.source.world import Found, World, say

BATCHES = 6  # of which the first and the last are not measured
TOPIC = "source"


def measure(world: World) -> Found:
    """Every source ``rounds`` times on each master, after its bytes were checked and it was warmed up."""
    found: Found = {}
    written: topics.Sums = {}
    for master in world.plan.masters:
        with world.application(master) as bench:
            if not written:
                written = fill(bench, TOPIC, topics.Shape(), world.plan.records)
            runs = rounds(bench, world.chosen(*PEERS), TOPIC, written, world.plan.rounds)
            found[master] = summary(runs)
    return found


def fill(bench: Bench, topic: str, shape: topics.Shape, records: int) -> topics.Sums:
    """The records of a shape in a new topic."""
    say(f"filling a topic: {records:,} records, {shape.name}, in {topics.PARTITIONS} partitions")
    return topics.fill(bench.spark, bench.broker, topic, shape, records)


def rounds(
    bench: Bench, peers: Sequence[Peer], topic: str, written: topics.Sums, count: int, *, view: View = ROW
) -> list[Throughput]:
    """Each peer ``count`` times, there and back, after a checked and a warming run of each."""
    records = sum(seen[0] for seen in written.values())

    def check(peer: Peer) -> None:
        bench.check(peer, topic, written, view=view)

    return checked_rounds(bench, peers, topic, records, count, check, view)


def checked_rounds(
    bench: Bench,
    peers: Sequence[Peer],
    topic: str,
    records: int,
    count: int,
    check: Callable[[Peer], None],
    view: View,
) -> list[Throughput]:
    """As ``rounds``; ``check`` raises BenchError when a source delivers something else than was written."""
    for peer in peers:
        say(f"checking every byte and warming up: {peer.name}")
        check(peer)
        bench.throughput(peer, topic, records, BATCHES, view=view)
    runs: list[Throughput] = []
    todo = order(peers, count)
    for number, peer in enumerate(todo, 1):
        runs.append(bench.throughput(peer, topic, records, BATCHES, view=view))
        say(f"[{number}/{len(todo)}] {told(runs[-1])}")
    return runs


def told(run: Throughput) -> str:
    """One run in words."""
    return (
        f"{run.peer}: {run.rows_per_s / 1e6:.2f} M rows/s, {run.cpu_per_million:.2f} CPU-s per M rows; "
        f"whole query {run.query_wall_s:.1f} s"
    )


def by_peer(runs: Sequence[Throughput]) -> dict[str, list[Throughput]]:
    """The runs of each source, in the order of the rounds."""
    found: dict[str, list[Throughput]] = {}
    for run in runs:
        found.setdefault(run.peer, []).append(run)
    return found


def summary(runs: Sequence[Throughput]) -> Found:
    """Per source its figures, and Cohort's against each other one's, round by round."""
    found = by_peer(runs)
    ratios = {
        peer: {
            "rows_per_s": paired([run.rows_per_s for run in found[COHORT.name]], [run.rows_per_s for run in theirs]),
            "cpu": paired([run.cpu_per_million for run in found[COHORT.name]], [run.cpu_per_million for run in theirs]),
        }
        for peer, theirs in found.items()
        if peer != COHORT.name and COHORT.name in found
    }
    return {"sources": {peer: one_source(theirs) for peer, theirs in found.items()}, "cohort_over": ratios}


def one_source(runs: Sequence[Throughput]) -> Found:
    """Rows per second, CPU-seconds per million rows and their shares, whole-query figures."""
    kinds = sorted({kind for run in runs for kind in run.cpu_s})
    shares = {kind: median(run.cpu_s.get(kind, 0.0) / run.rows * 1e6 for run in runs) for kind in kinds}
    return {
        "runs": len(runs),
        "rows_per_s": spread([run.rows_per_s for run in runs]),
        "cpu_s_per_million": spread([run.cpu_per_million for run in runs]),
        "cpu_s_per_million_by_process": {kind: used for kind, used in shares.items() if used > 0},
        "query_rows_per_s": spread([run.query_rows / run.query_wall_s for run in runs]),
        "query_cpu_s_per_million": spread([run.query_cpu_s / run.query_rows * 1e6 for run in runs]),
        "first_batch_s": spread([run.first_batch_s for run in runs]),
    }


def bounds(found: Found) -> list[Bound]:
    """Wall time and CPU beside Spark's own source, default and tuned."""
    held: list[Bound] = []
    for master, seen in found.items():
        over = seen["cohort_over"]
        name = f"source, {master}"
        if KAFKA.name in over:
            held.append(Bound(f"{name}: rows/s of {KAFKA.name}'s", middle(over[KAFKA.name]["rows_per_s"]), 1.5))
            cpu = middle(over[KAFKA.name]["cpu"])
            held.append(Bound(f"{name}: CPU of {KAFKA.name}'s", cpu, 1.4, at_least=False, aim=1.0))
        if KAFKA_TUNED.name in over:
            tuned = middle(over[KAFKA_TUNED.name]["rows_per_s"])
            held.append(Bound(f"{name}: rows/s of {KAFKA_TUNED.name}'s", tuned, 1.05))
    return held


def tables(found: Found) -> list[Table]:
    """One table a master."""
    return [
        rates_table(f"All of a topic, {master}, steady batches (median, least to greatest)", seen)
        for master, seen in found.items()
    ]


def rates_table(title: str, seen: Found) -> Table:
    """The sources of one setting, and how Cohort compares with each."""
    table = Table(title=title)
    for name in ("source", "M rows/s", "CPU-s per M rows", "of which", "whole query, M rows/s", "first batch, s"):
        table.add_column(name, justify="left" if name in {"source", "of which"} else "right")
    for name in ("cohort's rows/s : its", "cohort's CPU : its"):
        table.add_column(name, justify="right")
    for peer, each in seen["sources"].items():
        shares = sorted(each["cpu_s_per_million_by_process"].items(), key=lambda share: -share[1])
        over = seen["cohort_over"].get(peer, {})
        table.add_row(
            peer,
            shown(each["rows_per_s"], 1e-6),
            shown(each["cpu_s_per_million"]),
            ", ".join(f"{kind} {used:.2f}" for kind, used in shares if used >= 0.005),
            shown(each["query_rows_per_s"], 1e-6),
            f"{each['first_batch_s']['median']:.1f}",
            shown(over.get("rows_per_s")),
            shown(over.get("cpu")),
        )
    return table
