"""The part ``many``: ten small queries in one application, and what they cost beside one, and beside Spark's own.

Until all of them have their first rows: seconds, CPU, memory (PSS) by kind of process.  Then, with nothing to read, the
CPU of all processes, and the memory at the end: Spark keeps idle Python workers for a minute.  Then one query alone, for the memory of its agent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.streaming import DataStreamWriter
from rich.table import Table

from tests.kit.produce import produce
from tools.bench.figures import Bound, middle, paired, ratio, shown, spread
from tools.bench.results import BenchError, order
from tools.bench.source.clients import AGENT
from tools.bench.source.memory import pss_mib
from tools.bench.source.peers import COHORT, KAFKA, Peer
from tools.bench.source.runs import Bench
from tools.bench.source.ways import PLAIN, RECOMMENDED, Way, ways
from tools.bench.source.world import Found, World, say

MASTER = "local[4]"
QUERIES, PARTITIONS, RECORDS = 10, 8, 800
EVERY = "5 seconds"
TOPIC = "many"
FIRST_ROWS_S = 180.0
FIGURES = ("first_rows_s", "cpu_s", "idle_cores", "idle_mib")


@dataclass(frozen=True)
class Run:
    """One way's ten queries; MiB by kind of process at the first rows of ten, of all when idle, and of the agents of one."""

    way: str
    first_rows_s: float
    cpu_s: float
    mib: Mapping[str, float]
    idle_cores: float
    idle_mib: float
    one_agents_mib: float


def measure(world: World) -> Found:
    """Each way in applications of its own, in turns."""
    world.broker.admin.create_topic(TOPIC, PARTITIONS)
    produce(world.broker.bootstrap, TOPIC, RECORDS, partitions=PARTITIONS)
    runs: list[Run] = []
    todo = order(ways(world.chosen(COHORT, KAFKA), world.plan.recommended), world.plan.rounds)
    for number, way in enumerate(todo, 1):
        with world.application(MASTER, way.settings) as bench:
            runs.append(_run(bench, way, world.plan.window_s))
        run = runs[-1]
        mib = ", ".join(f"{kind} {each:.0f}" for kind, each in run.mib.items())
        say(
            f"[{number}/{len(todo)}] {way.name}: first rows of all after {run.first_rows_s:.1f} s and {run.cpu_s:.1f} "
            f"CPU-s, MiB of {mib}; idle {run.idle_cores:.2f} cores and {run.idle_mib:.0f} MiB; agents of one {run.one_agents_mib:.0f} MiB"
        )
    return summary(runs)


def _run(bench: Bench, way: Way, idle_s: float) -> Run:
    peer = way.peer
    before, began = sum(bench.clients.cpu().values()), time.monotonic()
    with bench.together(peer, _writers(bench, peer, QUERIES), EVERY) as queries:
        for query in queries:
            if not bench.wait(query, lambda query=query: bench.progress.count(query) > 0, FIRST_ROWS_S):  # type: ignore[misc]
                raise BenchError(f"{peer.name}: a query of {QUERIES} has no rows after {FIRST_ROWS_S:.0f} s")
        seconds, cpu = time.monotonic() - began, sum(bench.clients.cpu().values())
        mib = _mib(bench)
        idle, since = sum(bench.clients.cpu().values()), time.monotonic()
        bench.wait(queries[0], lambda: False, idle_s)
        cores = (sum(bench.clients.cpu().values()) - idle) / (time.monotonic() - since)
        idle_mib = sum(_mib(bench).values())
    with bench.together(peer, _writers(bench, peer, 1), EVERY) as (query,):
        bench.wait(query, lambda: bench.progress.count(query) > 0, FIRST_ROWS_S)
        one = _mib(bench).get(AGENT, 0.0)
    return Run(way.name, seconds, cpu - before, mib, cores, idle_mib, one)


def _writers(bench: Bench, peer: Peer, count: int) -> Iterator[DataStreamWriter]:
    """One query after the other: the next one's load() comes when the one before was started."""
    for _ in range(count):
        yield bench.read(peer, TOPIC, startingOffsets="earliest").writeStream.format("noop")


def _mib(bench: Bench) -> dict[str, float]:
    """What each kind of process holds now; pages that several share count once in the sum."""
    return {kind: sum(map(pss_mib, processes)) for kind, processes in bench.clients.processes().items()}


def summary(runs: Sequence[Run]) -> Found:
    """Per way the spread of each figure; Cohort's beside Spark's own, and its agents beside those of one query."""
    by_way: dict[str, list[Run]] = {}
    for run in runs:
        by_way.setdefault(run.way, []).append(run)
    values = {
        way: {name: [getattr(run, name) for run in of] for name in FIGURES}
        | {"mib": [sum(run.mib.values()) for run in of]}
        for way, of in by_way.items()
    }
    ours, theirs = [way.name for way in (PLAIN, RECOMMENDED) if way.name in values], values.get(KAFKA.name)
    return {
        "ways": {
            way: {name: spread(each) for name, each in of.items()} | {"mib_by_process": _by_kind(by_way[way])}
            for way, of in values.items()
        },
        "over_kafka": {way: {name: paired(values[way][name], theirs[name]) for name in theirs} for way in ours}
        if theirs
        else {},
        "agents_over_one": {way: _agents(by_way[way]) for way in ours},
    }


def _by_kind(runs: Sequence[Run]) -> dict[str, float]:
    kinds = {kind for run in runs for kind in run.mib}
    return {kind: spread([run.mib.get(kind, 0.0) for run in runs])["median"] for kind in sorted(kinds)}


def _agents(runs: Sequence[Run]) -> Mapping[str, float] | None:
    """The agents of ten queries beside those of one."""
    found = [ratio(run.mib.get(AGENT, 0.0), run.one_agents_mib) for run in runs]
    known = [each for each in found if each is not None]
    return spread(known) if known else None


def bounds(found: Found) -> list[Bound]:
    """Queries share what can be shared."""
    held: list[Bound] = []
    for way, agents in found["agents_over_one"].items():
        name, idle = f"many, {QUERIES} queries, {way}", middle(found["ways"][way]["idle_cores"])
        held.append(Bound(f"{name}: MiB of agents : of one query's", middle(agents), 2.0, at_least=False))
        held.append(Bound(f"{name}: cores when idle", idle, 0.1, at_least=False))
        over = found["over_kafka"].get(way, {})
        for figure, what, must in (
            ("mib", "MiB of all processes at their first rows", 3.0),
            ("idle_mib", "MiB of all processes when idle", 3.0),
            ("first_rows_s", "first rows of all", 1.5),
        ):
            if figure in over:
                held.append(Bound(f"{name}: {what} of {KAFKA.name}'s", middle(over[figure]), must, at_least=False))
    return held


def tables(found: Found) -> list[Table]:
    """One line a source."""
    table = Table(title=f"{QUERIES} small queries in one application (median of the rounds, least to greatest)")
    columns = (
        "first rows of all, s",
        "CPU-s until then",
        "cores when idle",
        "MiB (PSS) then",
        "at the first rows",
        "of which",
    )
    for name in ("source", *columns):
        table.add_column(name, justify="left" if name in {"source", "of which"} else "right")
    for way, seen in found["ways"].items():
        kinds = ", ".join(f"{kind.rpartition('.')[2]} {mib:.0f}" for kind, mib in seen["mib_by_process"].items())
        table.add_row(way, *(shown(seen[name]) for name in FIGURES), shown(seen["mib"], 1, 0), kinds)
    return [table]
