"""The part ``many``: ten small queries in one application, and what they cost beside one, and beside Spark's own.

Until all of them have their first rows: seconds, CPU, memory (PSS) by kind of process.  Then, with nothing to read, the
CPU of all processes, and the memory at the end: Spark keeps idle Python workers for a minute.  Then one query alone, for the memory of its agent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from pyspark.sql.streaming import DataStreamWriter

from tests.kit.produce import produce
from tools.bench.figures import Demand, Sample, Value, ratio
from tools.bench.report import Column
from tools.bench.results import BenchError, order
from tools.bench.source.clients import AGENT, pss_mib
from tools.bench.source.peers import COHORT, KAFKA, Peer
from tools.bench.source.runs import Bench
from tools.bench.source.ways import PLAIN, RECOMMENDED, Way, ways
from tools.bench.source.world import World, say

MASTER = "local[4]"
QUERIES, PARTITIONS, RECORDS = 10, 8, 800
EVERY = "5 seconds"
TOPIC = "many"
FIRST_ROWS_S = 180.0
TITLE = "Small queries in one application"
COLUMNS = (
    Column("first_rows_s", "first rows of all, s"),
    Column("cpu_s", "CPU-s until then"),
    Column("idle_cores", "cores when idle"),
    Column("idle_mib", "MiB (PSS) then", digits=0),
    Column("mib", "at the first rows", digits=0),
    Column("mib/", "of which", digits=0),
)


def measure(world: World) -> list[Sample]:
    """Each way in applications of its own, in turns."""
    world.broker.admin.create_topic(TOPIC, PARTITIONS)
    produce(world.broker.bootstrap, TOPIC, RECORDS, partitions=PARTITIONS)
    runs: list[Sample] = []
    todo = order(ways(world.chosen(COHORT, KAFKA), world.plan.recommended), world.plan.rounds)
    for number, way in enumerate(todo, 1):
        with world.application(MASTER, way.settings) as bench:
            figures = _run(bench, way, world.plan.window_s)
        runs.append(Sample(f"{QUERIES} queries", way.name, figures))
        told = ", ".join(f"{name} {value:.2f}" for name, value in figures.items() if value is not None)
        say(f"[{number}/{len(todo)}] {way.name}: {told}")
    return runs


def _run(bench: Bench, way: Way, idle_s: float) -> dict[str, Value]:
    """MiB by kind of process at the first rows of all, of all when idle; its agents beside those of one query."""
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
    figures = {"first_rows_s": seconds, "cpu_s": cpu - before, "idle_cores": cores, "idle_mib": idle_mib}
    by_kind = {f"mib/{kind.rpartition('.')[2]}": each for kind, each in mib.items()}
    shared = {"mib": sum(mib.values()), "agents_over_one": ratio(mib.get(AGENT), one)}
    return {**figures, **by_kind, **shared}


def _writers(bench: Bench, peer: Peer, count: int) -> Iterator[DataStreamWriter]:
    """One query after the other: the next one's load() comes when the one before was started."""
    for _ in range(count):
        yield bench.read(peer, TOPIC, startingOffsets="earliest").writeStream.format("noop")


def _mib(bench: Bench) -> dict[str, float]:
    """What each kind of process holds now; pages that several share count once in the sum."""
    return {kind: sum(map(pss_mib, processes)) for kind, processes in bench.clients.processes().items()}


def demands(cases: Sequence[str]) -> list[Demand]:
    """Queries share what can be shared."""
    return [
        demand
        for case in cases
        for way in (PLAIN.name, RECOMMENDED.name)
        for demand in (
            Demand(case, "agents_over_one", f"MiB of agents : of one query's, {way}", 2.0, (way,)),
            Demand(case, "idle_cores", f"cores when idle, {way}", 0.1, (way,)),
            Demand(case, "mib", f"MiB of all at their first rows, {way}", 3.0, (way,), KAFKA.name),
            Demand(case, "idle_mib", f"MiB of all when idle, {way}", 3.0, (way,), KAFKA.name),
            Demand(case, "first_rows_s", f"first rows of all, {way}", 1.5, (way,), KAFKA.name),
        )
    ]
