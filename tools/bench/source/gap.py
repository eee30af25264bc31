"""The part ``gap``: how long a partition waits when an executor joins, leaves or is killed, and when nothing happens.

Three executors on hosts of their own (see ``hosts_of``), a steady load over 60 partitions, trigger 0; Cohort with and without
the settings that ``conf/spark-defaults.conf`` recommends.  A gap is the time between two deliveries of one
partition; what counts is the longest of a partition that does not move, in the time after an event.  Spark's own
source has no owners: there, all partitions count.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming import StreamingQuery
from rich.table import Table

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.rpc import connection_file
from tools.bench.figures import Bound, middle, paired, shown, spread
from tools.bench.results import BenchError, order
from tools.bench.source.load import Load, merged
from tools.bench.source.peers import COHORT, KAFKA, Peer
from tools.bench.source.runs import Bench
from tools.bench.source.ways import PLAIN, RECOMMENDED, ways
from tools.bench.source.world import Found, World, say
from tools.demo.sink import Sink
from tools.demo.spark import executors, kill_executor
from tools.demo.verdict import longest_gap

EXECUTORS = 3
MASTER = f"standalone[{EXECUTORS + 1}]"  # room for one who joins
PARTITIONS, RATE = 60, 3_000
QUIET, JOIN, LEAVE, KILL = "nothing", "join", "leave", "kill"
EVENTS = (QUIET, JOIN, LEAVE, KILL)
PATIENCE_S = 480.0
CALM_S, CALM_BATCHES = 10.0, 4  # of going on as usual before an event
STAYED, ALL = "stayed_ms", "all_ms"


@dataclass(frozen=True)
class Stretch:
    """The time after an event (epoch ms), and the partitions that did not move in it; None: nobody owns any."""

    event: str
    begin_ms: int
    end_ms: int
    stayed: frozenset[int] | None


@dataclass
class Run:
    """One way through all events: longest gaps in ms, of those that stayed and of all."""

    way: str
    gaps: dict[str, dict[str, int | None]] = field(default_factory=dict)


def measure(world: World) -> Found:
    """Each source through all events in an application of its own, in turns."""
    runs: list[Run] = []
    todo = order(ways(world.chosen(COHORT, KAFKA), world.plan.recommended), world.plan.rounds)
    for number, way in enumerate(todo, 1):
        with world.application(MASTER, way.settings, counting=False) as bench:
            run = Run(way.name, Scene(bench, way.peer, f"gap-{number}").run(world.plan.window_s))
        told = ", ".join(f"{event} {gaps[STAYED]} (all {gaps[ALL]})" for event, gaps in run.gaps.items())
        say(f"[{number}/{len(todo)}] {way.name}: longest gaps in ms: {told}")
        runs.append(run)
    return summary(runs)


class Scene:
    """One run."""

    def __init__(self, bench: Bench, peer: Peer, topic: str) -> None:
        """A new topic, nothing written yet."""
        self._bench, self._peer, self._topic = bench, peer, topic
        self._scheduler: Any = bench.spark.sparkContext._jsc.sc()
        bench.broker.admin.create_topic(topic, PARTITIONS)

    def run(self, window_s: float) -> dict[str, dict[str, int | None]]:
        """The gaps of all events; raises BenchError unless every record arrived once and unchanged."""
        frame = self._bench.read(self._peer, self._topic, startingOffsets="earliest")
        with tempfile.TemporaryDirectory(prefix="cohort-bench-", ignore_cleanup_errors=True) as directory:
            sink = Sink(Path(directory), "crc32(value) AS checksum")
            with self._bench.streaming(self._peer, frame.writeStream.foreachBatch(sink.write)) as query:
                with Load(self._bench.broker.bootstrap, self._topic, PARTITIONS, RATE) as load:
                    self._wait(query, lambda: len(executors()) == EXECUTORS + 1, "all executors")
                    self._wait(query, lambda: sink.batches > 0 and self._settled(EXECUTORS + 1), "all members")
                    self._resize(EXECUTORS)
                    stretches = [self._stretch(query, sink, event, window_s) for event in EVENTS]
                written = merged([load.sums])
                total = sum(seen[0] for seen in written.values())
                self._wait(query, lambda: sink.delivered >= total, "all records delivered")
            table = pa.concat_tables(sink.tables()).select(["partition", "offset", "checksum", "at_ms"])
        check(self._peer.name, table, written)
        return {stretch.event: gaps(table, stretch) for stretch in stretches}

    def _stretch(self, query: StreamingQuery, sink: Sink, event: str, window_s: float) -> Stretch:
        count = EXECUTORS + (event == LEAVE)
        self._wait(query, lambda: len(executors()) == count and self._settled(count), f"calm before: {event}")
        usual = sink.batches + CALM_BATCHES
        self._wait(query, lambda: sink.batches >= usual, f"batches before: {event}")
        self._bench.wait(query, lambda: False, CALM_S)
        before = owners(self._status()) if self._peer is COHORT else None
        begin_ms = int(time.time() * 1000)
        self._happen(event)
        self._bench.wait(query, lambda: False, window_s)
        end_ms = int(time.time() * 1000)
        stayed = None if before is None else staying(before, self._status()["rebalances"], begin_ms)
        say(f"{self._peer.name}: {event}" + ("" if stayed is None else f", {len(stayed)} of {PARTITIONS} stayed"))
        return Stretch(event, begin_ms, end_ms, stayed)

    def _happen(self, event: str) -> None:
        if event == JOIN:
            self._scheduler.requestExecutors(1)
        elif event == LEAVE:
            self._resize(EXECUTORS)
        elif event == KILL:
            kill_executor(min(executors(), key=int))

    def _resize(self, count: int) -> None:
        """Have Spark end the youngest executors until so many are left, and want no more."""
        empty = getattr(self._jvm.scala.collection.immutable, "Map$").__getattr__("MODULE$").empty()
        self._scheduler.requestTotalExecutors(count, 0, empty)
        for executor in sorted(executors(), key=int)[count:]:
            self._scheduler.killExecutor(executor)
        self._scheduler.requestTotalExecutors(count, 0, empty)

    @property
    def _jvm(self) -> Any:
        return self._bench.spark.sparkContext._jvm

    def _settled(self, members: int) -> bool:
        """Whether all members have their share, and nothing is about to move."""
        if self._peer is not COHORT:
            return True
        status = self._status()
        if not status or status["state"] != "Stable" or status["scheduled_rebalance"] is not None:
            return False
        return len(status["members"]) == members and len(owners(status)) == PARTITIONS

    def _status(self) -> dict[str, Any]:
        try:
            return connection_file.fetch_status(connection_file.find(self._bench.group)[0])
        except CohortError:
            return {}

    def _wait(self, query: StreamingQuery, condition: Any, what: str) -> None:
        if not self._bench.wait(query, condition, PATIENCE_S):
            raise BenchError(f"{self._peer.name}: waited {PATIENCE_S:.0f} s for {what}")


def owners(status: Mapping[str, Any]) -> dict[int, str]:
    """Who owns each partition."""
    return {number: member["member_id"] for member in status["members"] for _, number in member["owned"]}


def staying(before: Mapping[int, str], rebalances: Sequence[Mapping[str, Any]], begin_ms: int) -> frozenset[int]:
    """The partitions that have had the same owner after every rebalance since."""
    stayed = dict(before)
    for done in rebalances:
        if done["started_ms"] >= begin_ms:
            after = {number: member for member, held in done["after"].items() for _, number in held}
            stayed = {number: member for number, member in stayed.items() if after.get(number) == member}
    return frozenset(stayed)


def gaps(table: pa.Table, stretch: Stretch) -> dict[str, int | None]:
    """The longest gaps of one stretch."""
    moments = set(zip(table["partition"].to_pylist(), table["at_ms"].to_pylist(), strict=True))
    deliveries = [(number, 0, 0, at) for number, at in moments]

    def longest(partitions: Collection[int]) -> int | None:
        return longest_gap(deliveries, partitions, stretch.begin_ms, stretch.end_ms)

    everyone = longest(range(PARTITIONS))
    return {STAYED: everyone if stretch.stayed is None else longest(stretch.stayed), ALL: everyone}


def check(who: str, table: pa.Table, written: Mapping[int, tuple[int, ...]]) -> None:
    """Raise BenchError unless the sink has what was written: records, offsets and checksums of each partition."""
    got: dict[int, list[int]] = {}
    columns = (table[name].to_pylist() for name in ("partition", "offset", "checksum"))
    for partition, offset, checksum in zip(*columns, strict=True):
        seen = got.setdefault(partition, [0, 0, 0])
        seen[:] = seen[0] + 1, seen[1] + offset, seen[2] + checksum
    for partition, (count, offsets, _, checksums, *_) in written.items():
        if got.get(partition) != [count, offsets, checksums]:
            raise BenchError(
                f"{who}: partition {partition} has {got.get(partition)} instead of {count, offsets, checksums}"
            )


def summary(runs: Sequence[Run]) -> Found:
    """Per way and event the spread of the longest gaps; beside its own usual ones, and Cohort's beside Spark's own."""
    values: dict[str, dict[str, dict[str, list[float]]]] = {}
    for run in runs:
        for event, found in run.gaps.items():
            for which, gap in found.items():
                values.setdefault(run.way, {}).setdefault(event, {}).setdefault(which, []).append(float(gap or 0))
    theirs = values.get(KAFKA.name, {})
    return {
        "ways": {
            way: {event: {which: spread(each) for which, each in of.items()} for event, of in by_event.items()}
            for way, by_event in values.items()
        },
        "over_usual": {
            way: {event: paired(of[STAYED], by_event[QUIET][STAYED]) for event, of in by_event.items()}
            for way, by_event in values.items()
        },
        "over_kafka": {
            way: {event: paired(of[STAYED], theirs[event][STAYED]) for event, of in by_event.items() if event in theirs}
            for way, by_event in values.items()
            if way != KAFKA.name
        },
    }


def bounds(found: Found) -> list[Bound]:
    """Who joins, leaves or is killed is hardly noticed: with the recommended configuration, where it was measured."""
    way = next((way.name for way in (RECOMMENDED, PLAIN) if way.name in found["ways"]), None)
    if way is None:
        return []
    held: list[Bound] = []
    for event, seconds, of_theirs in ((JOIN, 2.0, 0.3), (LEAVE, None, None), (KILL, 2.5, 0.5)):
        longest = found["ways"][way][event][STAYED]["median"] / 1000
        over = middle(found["over_usual"][way][event])
        must = 1.1 if event == LEAVE else None
        held.append(Bound(f"gap, {event}, {way}: longest gap, s", longest, seconds, at_least=False))
        held.append(Bound(f"gap, {event}, {way}: longest gap : without one", over, must, at_least=False, aim=1.1))
        if event in found["over_kafka"][way]:
            beside = middle(found["over_kafka"][way][event])
            held.append(Bound(f"gap, {event}, {way}: longest gap : {KAFKA.name}'s", beside, of_theirs, at_least=False))
    return held


def tables(found: Found) -> list[Table]:
    """One line a way and event."""
    table = Table(
        title="Longest time between two deliveries of a partition, ms (median of the runs, least to greatest)"
    )
    for name in (
        "source",
        "event",
        "of those that stayed",
        "of all",
        "stayed : when nothing happens",
        "stayed : kafka's",
    ):
        table.add_column(name, justify="left" if name in {"source", "event"} else "right")
    for way, by_event in found["ways"].items():
        for event, seen in by_event.items():
            times = [shown(seen[which], 1, 0) for which in (STAYED, ALL)]
            beside = shown(found["over_kafka"].get(way, {}).get(event))
            table.add_row(way, event, *times, shown(found["over_usual"][way][event]), beside)
    return [table]
