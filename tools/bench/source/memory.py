"""The part ``memory``: what agents and Python workers hold at full rate, and while the sink is stuck.

Memory is the proportional set size (PSS): pages that several processes share, as forked workers do, count once in the
sum.  What is told of an executor is its agent and its workers with the process they are forked from.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
from pyspark.sql import DataFrame

from sparkcohort.runtime.shell.options.table import BY_KEY
from tests.kit.produce import FLUSH_TIMEOUT_S, producer
from tools.bench.figures import Demand, Sample
from tools.bench.report import Column
from tools.bench.results import BenchError
from tools.bench.source import source
from tools.bench.source.clients import Clients
from tools.bench.source.peers import COHORT
from tools.bench.source.runs import Bench
from tools.bench.source.topics import Shape
from tools.bench.source.world import World, say

MIB = 1 << 20
EVERY_S = 0.2
MORE_MIB = 100
BUDGET_MIB = int(BY_KEY["buffer.bytes"].default or 0) / MIB + MORE_MIB
SHAPES = (Shape(100), Shape(10_000))
TOPIC_BYTES = 600_000_000
FREE_BATCHES = 3  # of a query whose sink gets stuck then
BATCHES = 6
HEAVY = 512  # records of a MiB of zeros, which one batch of some 30 KB holds
HEAVY_NAME = "with a heavy batch"
TITLE = "Most resident MiB (PSS) of an executor's Python processes"
COLUMNS = tuple(
    Column(figure, heading, digits=0)
    for figure, heading in (
        ("agent_mib", "one agent"),
        ("worker_mib", "one worker"),
        ("workers_mib", "all workers"),
        ("together_mib", "all at one moment"),
    )
)


@dataclass(frozen=True)
class Moment:
    """MiB at one moment: of each agent, and of each worker."""

    agents: tuple[float, ...]
    workers: tuple[float, ...]


class Watch:
    """Samples what agents and workers hold, from the beginning of the block to its end."""

    def __init__(self, clients: Clients) -> None:
        """Nothing seen yet."""
        self._clients = clients
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bench-memory", daemon=True)
        self.moments: list[Moment] = []

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            agents = tuple(map(pss_mib, self._clients.members()))
            self.moments.append(Moment(agents, tuple(map(pss_mib, self._clients.workers()))))


def pss_mib(process: psutil.Process) -> float:
    """What a process holds, its share of shared pages included; 0 of one that is gone."""
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("Pss:")), 0.0)


def peaks(moments: Sequence[Moment]) -> dict[str, float]:
    """The most of one agent and of one worker, then of an executor: its workers, and both kinds at one moment.

    Executors are as many as agents were.
    """
    executors = max((len(moment.agents) for moment in moments), default=0) or 1
    return {
        "agent_mib": max((each for moment in moments for each in moment.agents), default=0.0),
        "worker_mib": max((each for moment in moments for each in moment.workers), default=0.0),
        "workers_mib": max((sum(moment.workers) for moment in moments), default=0.0) / executors,
        "together_mib": max((sum(moment.agents) + sum(moment.workers) for moment in moments), default=0.0) / executors,
    }


def measure(world: World) -> list[Sample]:
    """Small and large records, and a heavy batch among them, at full rate and stuck."""
    found: list[Sample] = []
    for master in world.plan.masters:
        with world.application(master) as bench:
            for shape in SHAPES:
                topic = f"memory-{shape.value_bytes}-{len(found)}"
                records = min(TOPIC_BYTES // shape.value_bytes, world.plan.records)
                written = source.fill(bench, topic, shape, records)
                say(f"checking every byte: {shape.name}")
                bench.check(COHORT, topic, written)
                found += _measured(bench, world, topic, f"{master}, {shape.name}", records)
                if shape == SHAPES[0]:
                    _burden(bench, topic)
                    name = f"{master}, {shape.name} {HEAVY_NAME}"
                    found += _measured(bench, world, topic, name, records + HEAVY)
                bench.broker.admin.delete_topic(topic)
    return found


def _burden(bench: Bench, topic: str) -> None:
    """One batch more, in partition 0."""
    client = producer(
        bench.broker.bootstrap, compression_type="zstd", message_max_bytes=10**9, batch_size=2**31 - 1, linger_ms=5_000
    )
    for _ in range(HEAVY):
        client.produce(topic, bytes(MIB), None, 0)
    if client.flush(FLUSH_TIMEOUT_S):
        raise BenchError(f"{topic}: the heavy batch can't be written")


def _measured(bench: Bench, world: World, topic: str, name: str, records: int) -> list[Sample]:
    """Each state as often as the plan says."""
    found: list[Sample] = []
    for _ in range(world.plan.rounds):
        states = {
            "full rate": _full(bench, topic, records),
            "stuck sink": _stuck(bench, topic, records, world.plan.stretch_s),
        }
        for state, seen in states.items():
            say(f"{name}, {state}: MiB of one agent {seen['agent_mib']:.0f}, of one worker {seen['worker_mib']:.0f}")
            found.append(Sample(f"{name}, {state}", COHORT.name, seen))
    return found


def _full(bench: Bench, topic: str, records: int) -> dict[str, float]:
    with Watch(bench.clients) as watch:
        bench.throughput(COHORT, topic, records, BATCHES)
    return peaks(watch.moments)


def _stuck(bench: Bench, topic: str, records: int, seconds: float) -> dict[str, float]:
    """The sink takes a few batches, then a task sleeps in the middle of its rows for as long as is watched."""

    def write(batch: DataFrame, batch_id: int) -> None:
        nap = f"java_method('java.lang.Thread', 'sleep', {int(seconds * 1000)}L)"
        # Nobody's offset is negative, which only a row can tell.
        when = f"offset % {max(records // BATCHES // 16, 1)} = 1" if batch_id >= FREE_BATCHES else "offset < 0"
        rows = batch.selectExpr("*", f"case when {when} then {nap} end as slept")
        rows.write.format("noop").mode("overwrite").save()

    frame = bench.read(COHORT, topic, startingOffsets="earliest", maxOffsetsPerTrigger=str(records // BATCHES))
    with Watch(bench.clients) as watch, bench.streaming(COHORT, frame.writeStream.foreachBatch(write)) as query:
        bench.await_batches(query, FREE_BATCHES, 60 + seconds)
        bench.wait(query, lambda: False, seconds)
    return peaks(watch.moments)


def demands(cases: Sequence[str]) -> list[Demand]:
    """Each process within the budget and a hundred MiB more; an executor's Python workers are as many as Spark wants."""
    return [
        Demand(case, f"{who}_mib", f"MiB of one {who}", BUDGET_MIB, most=True)
        for case in cases
        for who in ("agent", "worker")
    ]
