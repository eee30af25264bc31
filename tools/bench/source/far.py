"""The part ``far``: the part ``source`` with a relay before the broker that adds 2 ms to every round trip.

What the relay itself costs is measured too: passed through it without a delay, and its share of a core.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import psutil
from rich.table import Table

from tools.bench.figures import Bound, middle, paired
from tools.bench.results import Throughput, order
from tools.bench.source import source, topics
from tools.bench.source.peers import COHORT, KAFKA, KAFKA_TUNED, Peer
from tools.bench.source.runs import Bench
from tools.bench.source.world import Found, World, say

RELAY = Path(__file__).with_name("relay.py")
FAR, THROUGH = "FAR", "THROUGH"
DELAYS_MS = {FAR: 0.9, THROUGH: 0.0}  # each way; waking up late makes 2 ms of it
NAMES = {FAR: "2 ms", THROUGH: "0 ms", None: "no relay"}
SHARE = 3  # of the records: Spark's own crawls here
TOPIC = "far"


@dataclass(frozen=True)
class Step:
    """Who reads by which door; None: without a relay."""

    peer: Peer
    door: str | None

    @property
    def name(self) -> str:
        """As in the report."""
        return f"{self.peer.name}, {NAMES[self.door]}"


@contextmanager
def relay(world: World) -> Iterator[psutil.Process]:
    """The relay before all doors of the broker."""
    arguments = [f"{shown}:{listening}:{DELAYS_MS[name]}" for name, (listening, shown) in world.doors.items()]
    command = [sys.executable, "-P", str(RELAY), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None  # noqa: S101  it was asked for
            process.stdout.readline()
            yield psutil.Process(process.pid)
        finally:
            process.kill()


def measure(world: World) -> Found:
    """Everybody at 2 ms; at 0 ms and without the relay those whom that concerns."""
    everybody = (COHORT, KAFKA, KAFKA_TUNED)
    asked = [(COHORT, None), (COHORT, THROUGH), (KAFKA_TUNED, THROUGH), *((peer, FAR) for peer in everybody)]
    steps = [Step(peer, door) for peer, door in asked if peer in world.plan.peers]
    found: Found = {}
    written: topics.Sums = {}
    with relay(world) as process:
        for master in world.plan.masters:
            with world.application(master) as bench:
                if not written:
                    written = source.fill(bench, TOPIC, topics.Shape(), world.plan.records // SHARE)
                found[master] = _rounds(bench, world, steps, written, process)
    return found


def _rounds(bench: Bench, world: World, steps: Sequence[Step], written: topics.Sums, process: psutil.Process) -> Found:
    records = sum(seen[0] for seen in written.values())
    doors = {name: f"127.0.0.1:{shown}" for name, (_, shown) in world.doors.items()}
    bootstraps = {step.name: None if step.door is None else doors[step.door] for step in steps}
    for step in steps:
        say(f"checking every byte and warming up: {step.name}")
        bench.check(step.peer, TOPIC, written, bootstrap=bootstraps[step.name])
        bench.throughput(step.peer, TOPIC, records, source.BATCHES, bootstrap=bootstraps[step.name])
    runs: list[Throughput] = []
    busy: dict[str, list[float]] = {}
    todo = order(steps, world.plan.rounds)
    for number, step in enumerate(todo, 1):
        before = sum(process.cpu_times()[:2])
        run = bench.throughput(step.peer, TOPIC, records, source.BATCHES, bootstrap=bootstraps[step.name])
        busy.setdefault(step.name, []).append((sum(process.cpu_times()[:2]) - before) / run.query_wall_s)
        runs.append(replace(run, peer=step.name))
        say(f"[{number}/{len(todo)}] {source.told(runs[-1])}")
    return summary(runs) | {"relay_cores": {name: median(shares) for name, shares in busy.items()}}


def summary(runs: Sequence[Throughput]) -> Found:
    """The figures of every step, and Cohort's at 2 ms against those of all others."""
    found = source.by_peer(runs)
    ours = found.get(Step(COHORT, FAR).name, [])
    over = {
        name: {
            "rows_per_s": paired([run.rows_per_s for run in ours], [run.rows_per_s for run in theirs]),
            "cpu": paired([run.cpu_per_million for run in ours], [run.cpu_per_million for run in theirs]),
        }
        for name, theirs in found.items()
        if ours and theirs is not ours
    }
    return {"sources": {name: source.one_source(theirs) for name, theirs in found.items()}, "cohort_over": over}


def bounds(found: Found) -> list[Bound]:
    """Far ahead of Spark's own where each look-up waits; and hardly slower than without the distance."""
    held: list[Bound] = []
    for master, seen in found.items():
        over = seen["cohort_over"]
        for peer, must in ((KAFKA, 3.0), (KAFKA_TUNED, 1.5)):
            name = Step(peer, FAR).name
            if name in over:
                held.append(Bound(f"far, {master}: rows/s of {name}", middle(over[name]["rows_per_s"]), must))
        for door in (None, THROUGH):
            name = Step(COHORT, door).name
            if name in over:
                same = middle(over[name]["rows_per_s"])
                held.append(Bound(f"far, {master}: rows/s at 2 ms of {name}", same, None, aim=1.0))
    return held


def tables(found: Found) -> list[Table]:
    """One table a master, the relay's share of a core below each."""
    made: list[Table] = []
    for master, seen in found.items():
        table = source.rates_table(f"All of a topic through a relay, {master} (cohort at 2 ms : each)", seen)
        busy = ", ".join(f"{name}: {share:.0%}" for name, share in seen["relay_cores"].items())
        table.caption = f"the relay's share of a core while they ran: {busy}"
        made.append(table)
    return made
