"""The part ``start``: what a query costs before it flows, on a broker with Kafka's defaults.

Each source in an application of its own, in turns: one query cold, then whole AvailableNow queries of few and of many
records in the warm application, CPU of the whole process tree included.  Then a driver that is killed with all that
it started, and started again on its checkpoint: from the kill to the next batch in the commit log.  And a query that is
stopped and started again in its application, on a local cluster of two executors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from tools.bench.figures import Demand, Sample, difference
from tools.bench.report import Column
from tools.bench.results import order
from tools.bench.source import again, restart, source
from tools.bench.source.peers import COHORT, KAFKA, KAFKA_TUNED, Peer
from tools.bench.source.runs import Bench
from tools.bench.source.topics import Shape, Sums
from tools.bench.source.ways import PLAIN, RECOMMENDED, ways
from tools.bench.source.world import World, say

FEW, SOME = 100, 100_000
AGAIN, AGAIN_ON = 4, "local-cluster[2,1,1024]"
COLD, KILLED, STOPPED = "cold", "a driver killed and started again", f"stopped and started again, {AGAIN_ON}"
TITLE = "Whole AvailableNow queries, and starts"
COLUMNS = (
    Column("load_s", "load(), s"),
    Column("first_batch_s", "first batch, s", compared=True),
    Column("wall_s", "whole query, s", compared=True),
    Column("cpu_s", "CPU-s"),
    Column("again_s", "started again, s"),
)


def measure(world: World) -> list[Sample]:
    """All queries of each source, in turns; then the restarts, in turns."""
    asked = ways(world.chosen(COHORT, KAFKA, KAFKA_TUNED), world.plan.recommended)
    todo = order(asked, world.plan.rounds)
    master = world.plan.masters[0]
    sizes = (FEW, SOME, world.plan.records)
    with world.application(master) as bench:
        written = {size: source.fill(bench, topic_of(size), Shape(), size) for size in sizes}
    runs: list[Sample] = []
    for number, way in enumerate(todo, 1):
        with world.application(master, way.settings) as bench:
            queries = _queries(bench, way.peer, sizes)
            runs += [Sample(name, way.name, figures) for name, figures in queries.items()]
            if number > len(todo) - len(asked):
                _check(bench, way.peer, written)
        told = (
            f"{name} {each['wall_s']:.1f} s (first batch {each['first_batch_s']:.1f})" for name, each in queries.items()
        )
        say(f"[{number}/{len(todo)}] {way.name}: {'; '.join(told)}")
    for number, peer in enumerate(order(world.chosen(COHORT, KAFKA), world.plan.rounds), 1):
        seconds = restart.seconds(world.broker, peer, f"restart-{number}", master)
        runs.append(Sample(KILLED, peer.name, {"first_batch_s": seconds}))
        say(f"{peer.name}: {seconds:.1f} s from a driver's kill to its next batch")
    for number, peer in enumerate(order(world.chosen(COHORT, KAFKA), world.plan.rounds), 1):
        with world.application(AGAIN_ON) as bench:
            cold_s, later_s = again.measure(bench, peer, f"again-{number}", AGAIN)
        again_s = median(later_s)
        figures = {"first_batch_s": cold_s, "again_s": again_s, "again_over_first": again_s / cold_s}
        runs.append(Sample(STOPPED, peer.name, figures))
        say(f"{peer.name}: first batch after {cold_s:.1f} s, started again {again_s:.1f} s")
    return runs


def topic_of(records: int) -> str:
    """The topic of so many records."""
    return f"start-{records}"


def warm(records: int) -> str:
    """The name of a query in a warm application."""
    return f"warm, {records:,} records"


def _queries(bench: Bench, peer: Peer, sizes: Sequence[int]) -> dict[str, dict[str, float]]:
    """A cold one, then one of each size."""
    found = {COLD: bench.whole(peer, topic_of(FEW), FEW, 1)[0]}
    for size in sizes:
        found[warm(size)] = bench.whole(peer, topic_of(size), size, source.BATCHES if size > SOME else 1)[0]
    return found


def _check(bench: Bench, peer: Peer, written: Mapping[int, Sums]) -> None:
    say(f"checking every byte: {peer.name}")
    for size, sums in written.items():
        bench.check(peer, topic_of(size), sums)


def demands(cases: Sequence[str]) -> list[Demand]:
    """A start is hardly slower than Spark's own, and a large query no slower than that source tuned."""
    ours = (PLAIN.name, RECOMMENDED.name)
    few, some = warm(FEW), warm(SOME)
    large = [case for case in cases if case not in {COLD, few, some, KILLED, STOPPED}]
    return [
        *(Demand(case, "first_batch_s", "first batch", 1.15, ours, KAFKA.name, aim=1.0) for case in (COLD, few)),
        *(Demand(case, "wall_s", "whole query", 1.0, ours, KAFKA.name, aim=0.8) for case in (few, some)),
        *(Demand(case, "wall_s", "whole query", 1.0, ours, KAFKA_TUNED.name, aim=0.8) for case in large),
        Demand(few, "cpu_s", "CPU-s more", 2.0, ours, KAFKA.name, by=difference),
        Demand(KILLED, "first_batch_s", "its next batch", 1.2, ours, KAFKA.name, aim=1.0),
        Demand(STOPPED, "again_over_first", "its first batch : that of the first query", 0.5, ours),
    ]
