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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming import StreamingQuery

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.rpc import connection_file
from tools.bench.figures import Demand, Sample, Value
from tools.bench.report import Column
from tools.bench.results import BenchError, order
from tools.bench.source.load import Load, merged
from tools.bench.source.peers import COHORT, KAFKA, Peer
from tools.bench.source.runs import Bench
from tools.bench.source.ways import PLAIN, RECOMMENDED, ways
from tools.bench.source.world import World, say
from tools.demo.sink import Sink
from tools.demo.verdict import longest_gap
from tools.spark import executors, kill_executor

EXECUTORS = 3
MASTER = f"standalone[{EXECUTORS + 1}]"  # room for one who joins
PARTITIONS, RATE = 60, 3_000
QUIET, JOIN, LEAVE, KILL = "nothing", "join", "leave", "kill"
EVENTS = (QUIET, JOIN, LEAVE, KILL)
PATIENCE_S = 480.0
CALM_S, CALM_BATCHES = 10.0, 4  # of going on as usual before an event
STAYED, ALL = "stayed_ms", "all_ms"
TITLE = "Longest time between two deliveries of a partition, ms"
COLUMNS = (Column(STAYED, "of those that stayed", digits=0, compared=True), Column(ALL, "of all", digits=0))


@dataclass(frozen=True)
class Stretch:
    """The time after an event (epoch ms), and the partitions that did not move in it; None: nobody owns any."""

    event: str
    begin_ms: int
    end_ms: int
    stayed: frozenset[int] | None


def measure(world: World) -> list[Sample]:
    """Each source through all events in an application of its own, in turns."""
    runs: list[Sample] = []
    todo = order(ways(world.chosen(COHORT, KAFKA), world.plan.recommended), world.plan.rounds)
    for number, way in enumerate(todo, 1):
        with world.application(MASTER, way.settings, counting=False) as bench:
            found = Scene(bench, way.peer, f"gap-{number}").run(world.plan.window_s)
        told = ", ".join(f"{event} {gaps[STAYED]} (all {gaps[ALL]})" for event, gaps in found.items())
        say(f"[{number}/{len(todo)}] {way.name}: longest gaps in ms: {told}")
        runs += [Sample(event, way.name, gaps) for event, gaps in found.items()]
    return runs


class Scene:
    """One run."""

    def __init__(self, bench: Bench, peer: Peer, topic: str) -> None:
        """A new topic, nothing written yet."""
        self._bench, self._peer, self._topic = bench, peer, topic
        self._scheduler: Any = bench.spark.sparkContext._jsc.sc()
        bench.broker.admin.create_topic(topic, PARTITIONS)

    def run(self, window_s: float) -> dict[str, dict[str, Value]]:
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


def gaps(table: pa.Table, stretch: Stretch) -> dict[str, Value]:
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


def demands(cases: Sequence[str]) -> list[Demand]:
    """Who joins, leaves or is killed is hardly noticed: with the recommended configuration, where it was measured."""
    ours, found = (RECOMMENDED.name, PLAIN.name), list[Demand]()
    for event, most_ms, of_theirs in ((JOIN, 2_000, 0.3), (LEAVE, None, None), (KILL, 2_500, 0.5)):
        if event in cases:
            must = 1.1 if event == LEAVE else None
            found.append(Demand(event, STAYED, "longest gap, ms", most_ms, ours))
            found.append(Demand(event, STAYED, "longest gap : without one", must, ours, beside_case=QUIET, aim=1.1))
            found.append(Demand(event, STAYED, "longest gap", of_theirs, ours, KAFKA.name))
    return found
