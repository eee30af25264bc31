"""The part ``start``: what a query costs before it flows, on a broker with Kafka's defaults.

Each source in an application of its own, in turns: one query cold, then whole AvailableNow queries of few and of many
records in the warm application, CPU of the whole process tree included.  Then a driver that is killed with all that
it started, and started again on its checkpoint: from the kill to the next batch in the commit log.  And a query that is
stopped and started again in its application, on a local cluster of two executors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median

from rich.table import Table

from tools.bench.figures import Bound, Spread, middle, paired, shown, spread
from tools.bench.results import BenchError, Whole, order
from tools.bench.source import restart, source
from tools.bench.source.again import Starts
from tools.bench.source.again import measure as again_in_application
from tools.bench.source.peers import COHORT, KAFKA, KAFKA_TUNED, Peer
from tools.bench.source.runs import Bench
from tools.bench.source.topics import Shape, Sums
from tools.bench.source.ways import RECOMMENDED, ways
from tools.bench.source.world import Found, World, say

FEW, SOME = 100, 100_000
AGAIN, AGAIN_ON = 4, "local-cluster[2,1,1024]"
COLD, WARM = "cold", "warm"
FIGURES = ("load_s", "first_batch_s", "wall_s", "cpu_s")


@dataclass(frozen=True)
class Run:
    """One source in one application: its queries by name, and the seconds from a driver's kill to its next batch."""

    peer: str
    queries: Mapping[str, Whole] = field(default_factory=dict)
    restart_s: float | None = None
    starts: Starts | None = None


def measure(world: World) -> Found:
    """All queries of each source, in turns; then the restarts, in turns."""
    asked = ways(world.chosen(COHORT, KAFKA, KAFKA_TUNED), world.plan.recommended)
    todo = order(asked, world.plan.rounds)
    master = world.plan.masters[0]
    sizes = (FEW, SOME, world.plan.records)
    with world.application(master) as bench:
        written = {size: source.fill(bench, topic_of(size), Shape(), size) for size in sizes}
    runs: list[Run] = []
    for number, way in enumerate(todo, 1):
        with world.application(master, way.settings) as bench:
            runs.append(Run(way.name, _queries(bench, way.peer, sizes)))
            if number > len(todo) - len(asked):
                _check(bench, way.peer, written)
        say(f"[{number}/{len(todo)}] {told(runs[-1])}")
    again = order(world.chosen(COHORT, KAFKA), world.plan.rounds)
    for number, peer in enumerate(again, 1):
        seconds = restart.seconds(world.broker, peer, f"restart-{number}", master)
        runs.append(Run(peer.name, restart_s=seconds))
        say(f"[{number}/{len(again)}] {peer.name}: {seconds:.1f} s from a driver's kill to its next batch")
    for number, peer in enumerate(again, 1):
        with world.application(AGAIN_ON) as bench:
            runs.append(Run(peer.name, starts=again_in_application(bench, peer, f"again-{number}", AGAIN)))
        say(f"[{number}/{len(again)}] {peer.name}: {runs[-1].starts}")
    return summary(runs)


def topic_of(records: int) -> str:
    """The topic of so many records."""
    return f"start-{records}"


def warm(records: int) -> str:
    """The name of a query in a warm application."""
    return f"{WARM}, {records:,} records"


def _queries(bench: Bench, peer: Peer, sizes: Sequence[int]) -> dict[str, Whole]:
    """A cold one, then one of each size."""
    found = {COLD: bench.whole(peer, topic_of(FEW), FEW, 1)}
    for size in sizes:
        found[warm(size)] = bench.whole(peer, topic_of(size), size, source.BATCHES if size > SOME else 1)
    return found


def _check(bench: Bench, peer: Peer, written: Mapping[int, Sums]) -> None:
    say(f"checking every byte: {peer.name}")
    for size, sums in written.items():
        bench.check(peer, topic_of(size), sums)


def told(run: Run) -> str:
    """One application in words."""
    each = (f"{name} {seen.wall_s:.1f} s (first batch {seen.first_batch_s:.1f})" for name, seen in run.queries.items())
    return f"{run.peer}: {'; '.join(each)}"


def summary(runs: Sequence[Run]) -> Found:
    """Per source and query the spread of each figure; Cohort's beside each other one's; restarts."""
    queries: dict[str, dict[str, dict[str, list[float]]]] = {}
    restarts: dict[str, list[float]] = {}
    first: dict[str, list[float]] = {}
    later: dict[str, list[float]] = {}
    for run in runs:
        for query, seen in run.queries.items():
            for name, value in asdict(seen).items():
                queries.setdefault(run.peer, {}).setdefault(query, {}).setdefault(name, []).append(value)
        if run.restart_s is not None:
            restarts.setdefault(run.peer, []).append(run.restart_s)
        if run.starts is not None:
            first.setdefault(run.peer, []).append(run.starts.cold_s)
            later.setdefault(run.peer, []).append(median(run.starts.again_s))
    if not queries and not restarts:
        raise BenchError("start: nothing was measured")
    ours = queries.get(COHORT.name) or queries.get(RECOMMENDED.name, {})
    return {
        "queries": {
            peer: {query: {name: spread(each) for name, each in of.items()} for query, of in by_query.items()}
            for peer, by_query in queries.items()
        },
        "cohort_over": {
            peer: {
                query: {name: paired(ours[query][name], each) for name, each in of.items()}
                for query, of in by_query.items()
            }
            for peer, by_query in queries.items()
            if ours and peer in (KAFKA.name, KAFKA_TUNED.name)
        },
        "cpu_more_s": _more(ours.get(warm(FEW), {}), queries.get(KAFKA.name, {}).get(warm(FEW), {})),
        "restart_s": {peer: spread(each) for peer, each in restarts.items()},
        "restart_over": paired(restarts.get(COHORT.name, []), restarts.get(KAFKA.name, [])),
        "in_application": {
            peer: {"cold_s": spread(each), "again_s": spread(later[peer]), "again_over": paired(later[peer], each)}
            for peer, each in first.items()
        },
    }


def _more(ours: Mapping[str, list[float]], theirs: Mapping[str, list[float]]) -> Spread | None:
    """CPU-seconds that Cohort's start takes beyond Spark's own, round by round."""
    more = [a - b for a, b in zip(ours.get("cpu_s", []), theirs.get("cpu_s", []), strict=False)]
    return spread(more) if more else None


def bounds(found: Found) -> list[Bound]:
    """A start is no slower than Spark's own, and costs hardly more."""
    held: list[Bound] = []
    beside = found["cohort_over"].get(KAFKA.name, {})
    for query in (COLD, warm(FEW)):
        if query in beside:
            over = middle(beside[query]["first_batch_s"])
            state = query.split(",", maxsplit=1)[0]
            held.append(Bound(f"start, {state}: first batch of {KAFKA.name}'s", over, 1.2, at_least=False, aim=1.0))
    for peer, by_query in found["cohort_over"].items():
        for query in by_query:
            many = query not in {COLD, warm(FEW), warm(SOME)}
            if query != COLD and many == (peer == KAFKA_TUNED.name):
                over = middle(by_query[query]["wall_s"])
                held.append(Bound(f"start, {query}: whole query of {peer}'s", over, 1.0, at_least=False, aim=0.8))
    if found["cpu_more_s"] is not None:
        more = found["cpu_more_s"]["median"]
        held.append(Bound(f"start: CPU-s more than {KAFKA.name}'s", more, 2.0, at_least=False))
    if found["restart_over"] is not None:
        over = middle(found["restart_over"])
        held.append(
            Bound(f"start: from a driver's kill to its next batch of {KAFKA.name}'s", over, 1.1, at_least=False)
        )
    if (started := found["in_application"].get(COHORT.name)) is not None and started["again_over"] is not None:
        over = middle(started["again_over"])
        held.append(Bound("start: first batch of a query started again, of a cold one's", over, 0.5, at_least=False))
    return held


def tables(found: Found) -> list[Table]:
    """One line a source and query, and one a source that was started again."""
    queries = Table(title="Whole AvailableNow queries (median of the rounds, least to greatest)")
    names = ("load(), s", "to the end of the first batch, s", "whole query, s", "CPU-s", "cohort's time : its")
    for name in ("source", "application", *names):
        queries.add_column(name, justify="left" if name in {"source", "application"} else "right")
    for peer, by_query in found["queries"].items():
        for query, seen in by_query.items():
            over = found["cohort_over"].get(peer, {}).get(query, {}).get("wall_s")
            queries.add_row(peer, query, *(shown(seen[name]) for name in FIGURES), shown(over))
    again = Table(title="A driver killed and started again on its checkpoint")
    for name in ("source", "from the kill to the next batch, s"):
        again.add_column(name, justify="left" if name == "source" else "right")
    for peer, seconds in found["restart_s"].items():
        again.add_row(peer, shown(seconds))
    flowing = Table(
        title=f"A flowing query stopped and started again in its application, {AGAIN_ON}: to its first batch"
    )
    for name in ("source", "first query of the application, s", "started again, s", "again : first"):
        flowing.add_column(name, justify="left" if name == "source" else "right")
    for peer, seen in found["in_application"].items():
        flowing.add_row(peer, *(shown(seen[name]) for name in ("cold_s", "again_s", "again_over")))
    return [queries, again, flowing]
