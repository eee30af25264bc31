"""The parts of ``make bench``: what each makes of what it saw, without Spark or a broker."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from tools.bench.results import Batch, BenchError, Whole
from tools.bench.source import (
    batch,
    gap,
    isolation,
    latency,
    load,
    many,
    memory,
    peers,
    restart,
    start,
)
from tools.bench.source.again import Starts
from tools.bench.source.clients import AGENT
from tools.bench.source.peers import COHORT, KAFKA
from tools.bench.source.ways import PLAIN, RECOMMENDED, Way, ways
from tools.recommended import recommended

STATUS = {
    "members": [
        {"member_id": "a", "owned": [["t", 0], ["t", 1]]},
        {"member_id": "b", "owned": [["t", 2]]},
    ]
}


def test_batch_reads_are_compared_read_by_read() -> None:
    """Rows that the query wants by the seconds of its action; a filter's bound is another than a whole topic's."""
    runs = [batch.BatchRead("cohort", 100, 1.0, 0.5), batch.BatchRead("kafka tuned", 100, 5.0, 1.0)]
    found = {batch.WHOLE: batch.summary(runs), batch.HOUR: batch.summary(runs)}
    assert [(bound.value, bound.must, bound.holds) for bound in batch.bounds(found)] == [
        (5.0, 1.1, True),
        (5.0, 10.0, False),
    ]
    assert batch.hour_of(0, 1) == "timestamp >= timestamp_millis(3600000) and timestamp < timestamp_millis(7200000)"
    assert len(batch.tables(found)) == 2


def test_latencies_are_those_of_the_records() -> None:
    """From the timestamps in a batch to the moment at which all of it was in the sink, every record counted."""
    seen = Batch(9.0, 10.2, 40, {}, sunk=10.0, observed={latency.OBSERVED: {"at_ms": [9_000, 9_500, 9_900]}})
    assert latency.latencies(seen) == [(750.0, 20.0), (300.0, 20.0)]
    run = latency.run_of("cohort", "slow", [seen] * 5)
    assert (run.p50_ms, run.p99_ms, run.records) == (300.0, 750.0, 200)
    with pytest.raises(BenchError, match="only 4 measured batches"):
        latency.run_of("cohort", "slow", [seen] * 4)


def test_the_slowest_hundredth_is_compared() -> None:
    """Round by round with Spark's own."""
    usual, asynchronous = latency.Setting(1_000).name, latency.Setting(1_000, asynchronous=True).name
    runs = [latency.Run("cohort", usual, 100, 200, 9, 9), latency.Run("kafka", usual, 100, 260, 9, 9)]
    found = {usual: latency.summary(runs), asynchronous: latency.summary(runs)}
    assert [(bound.value, bound.must, bound.holds) for bound in latency.bounds(found)] == [
        (pytest.approx(10 / 13), 0.75, False),
        (pytest.approx(10 / 13), 0.8, True),
        (200, None, True),
    ]


def whole(seconds: float) -> Whole:
    """A whole query in which everything took that long."""
    return Whole(seconds, seconds, seconds, seconds)


def test_starts_are_compared_with_those_of_the_peer() -> None:
    """First batches and small queries with Spark's defaults, the large one with Spark tuned, CPU by its difference."""
    cold, few, some, all_of = start.COLD, start.warm(100), start.warm(100_000), start.warm(6_000_000)
    runs = [
        start.Run("cohort", {cold: whole(13.0), few: whole(5.0), some: whole(3.0), all_of: whole(6.0)}),
        start.Run("kafka", {cold: whole(10.0), few: whole(2.0), some: whole(3.0), all_of: whole(3.0)}),
        start.Run("kafka tuned", {cold: whole(10.0), few: whole(9.0), some: whole(9.0), all_of: whole(5.0)}),
        start.Run("cohort", restart_s=11.0),
        start.Run("kafka", restart_s=10.0),
        start.Run("cohort", starts=Starts(8.0, (9.0, 2.0, 1.0))),
        start.Run("kafka", starts=Starts(6.0, (0.5,))),
    ]
    held = start.bounds(start.summary(runs))
    assert [(bound.value, bound.must, bound.holds) for bound in held] == [
        (1.3, 1.2, False),
        (2.5, 1.2, False),
        (2.5, 1.0, False),
        (1.0, 1.0, True),
        (1.2, 1.0, False),
        (3.0, 2.0, False),
        (1.1, 1.1, True),
        (0.25, 0.5, True),
    ]
    with pytest.raises(BenchError, match="nothing was measured"):
        start.summary([])


def test_many_queries_are_compared_with_one_and_with_the_peer() -> None:
    """Agents with the agent of one; everything else with Spark's own; what is idle by itself."""
    runs = [
        many.Run("cohort", 20.0, 50.0, {AGENT: 300.0, "jvm": 900.0}, 0.05, 800.0, 100.0),
        many.Run("kafka", 10.0, 20.0, {AGENT: 0.0, "jvm": 400.0}, 0.2, 400.0, 0.0),
    ]
    assert [(bound.value, bound.holds) for bound in many.bounds(many.summary(runs))] == [
        (3.0, False),
        (0.05, True),
        (3.0, True),
        (2.0, True),
        (2.0, False),
    ]


def test_the_commit_log_tells_when_batches_were_committed(tmp_path: Path) -> None:
    """By the files of the checkpoint; Spark's checksums and unfinished files are none."""
    assert restart.committed(tmp_path) == {}
    log = tmp_path / "checkpoint" / "commits"
    log.mkdir(parents=True)
    for name in ("0", "11", ".11.crc", ".12.5b.tmp"):
        (log / name).touch()
    os.utime(log / "11", (50.5, 50.5))
    found = restart.committed(tmp_path)
    assert sorted(found) == [0, 11]
    assert found[11] == pytest.approx(50.5)


def test_what_producers_wrote_adds_up() -> None:
    """Sums of two runs are those of the topic, whose offsets go on from one to the other."""
    parts: list[load.Sums] = [{0: (2, 0, 200, 7, 4, 1)}, {0: (1, 0, 100, 5, 3, 2), 1: (1, 0, 100, 9, 3, 3)}]
    assert load.merged(parts) == {0: (3, 3, 300, 12, 7, 3), 1: (1, 0, 100, 9, 3, 3)}


def test_who_keeps_its_owner_has_stayed() -> None:
    """Over every rebalance since the event: one that goes and comes back has moved."""
    before = gap.owners(STATUS)
    assert before == {0: "a", 1: "a", 2: "b"}
    away = {"started_ms": 50, "after": {"a": [["t", 0]], "c": [["t", 1], ["t", 2]]}}
    back = {"started_ms": 60, "after": {"a": [["t", 0], ["t", 1]], "b": [["t", 2]]}}
    assert gap.staying(before, [away, back], 50) == {0}
    assert gap.staying(before, [away], 51) == {0, 1, 2}


def test_gaps_are_those_of_partitions_that_stayed() -> None:
    """The longest time between two deliveries that reaches into the stretch; all of them are told beside it."""
    table = pa.table({"partition": [0, 0, 0, 1, 1], "at_ms": [100, 110, 130, 100, 190], "offset": [0, 1, 2, 0, 1]})
    assert gap.gaps(table, gap.Stretch(gap.KILL, 105, 200, frozenset({0}))) == {"stayed_ms": 20, "all_ms": 90}
    assert gap.gaps(table, gap.Stretch(gap.KILL, 105, 200, None)) == {"stayed_ms": 90, "all_ms": 90}


def test_gaps_are_compared_with_usual_ones_and_with_the_peer() -> None:
    """Those of the recommended configuration, where it was measured: by themselves, with usual ones, with Spark's own."""
    usual: dict[str, int | None] = {"stayed_ms": 400, "all_ms": 500}
    joined: dict[str, dict[str, int | None]] = {gap.JOIN: {"stayed_ms": 2_200, "all_ms": 2_300}}
    plain = gap.Run(PLAIN.name, dict.fromkeys(gap.EVENTS, usual) | joined)
    ours = gap.Run(RECOMMENDED.name, dict.fromkeys(gap.EVENTS, usual))
    theirs = gap.Run(KAFKA.name, {event: {"stayed_ms": 1_000, "all_ms": 1_000} for event in gap.EVENTS})
    held = [(bound.value, bound.holds) for bound in gap.bounds(gap.summary([plain, theirs]))]
    assert held[:3] == [(2.2, False), (5.5, True), (2.2, False)]
    held = [(bound.value, bound.holds) for bound in gap.bounds(gap.summary([plain, ours, theirs]))]
    assert held[:3] == [(0.4, True), (1.0, True), (0.4, False)]
    assert gap.bounds(gap.summary([theirs])) == []


def test_the_recommended_configuration_is_measured_beside_the_plain_one() -> None:
    """Both unless one is chosen; Spark's own source is the same in both."""
    assert ways((COHORT, KAFKA), None) == [PLAIN, RECOMMENDED, Way(KAFKA)]
    assert ways((COHORT, KAFKA), chosen=True) == [RECOMMENDED, Way(KAFKA)]
    assert ways((COHORT,), chosen=False) == [PLAIN]
    assert "spark.redaction.regex" in recommended()
    assert not [key for key in recommended() if key.startswith("spark.pyspark.")]


def test_a_cluster_has_a_host_for_each_worker() -> None:
    """Two attempts of a task never run on one host."""
    assert peers.hosts_of("standalone[3]") == ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
    assert peers.hosts_of("local[2]") == []


def batches_of(*times: tuple[float, float]) -> list[Batch]:
    """Batches by beginning and end."""
    return [Batch(began, ended, 10, {}) for began, ended in times]


def test_batches_are_told_apart_by_the_fault() -> None:
    """Before it, the longest that overlaps it, and those that began when it had settled and nothing was in flight."""
    calm = [(at, at + 0.5) for at in (95.0, 97.0, 99.0)]
    later = [(112.0 + at, 112.8 + at) for at in range(isolation.LEAST_LATER)]
    seen = batches_of(*calm, (99.9, 103.0), (107.0, 111.0), *later, (121.0, 140.0))
    run = isolation.run_of("cohort", isolation.SLOW, seen, 100.0, 120.0)
    assert (run.before_ms, run.worst_ms, run.later) == (500.0, 4000.0, isolation.LEAST_LATER)
    assert run.later_ms == pytest.approx(800.0)
    assert isolation.run_of("cohort", isolation.SLOW, seen[:-2], 100.0, 120.0).later_ms is None
    with pytest.raises(BenchError, match="no batch before the fault"):
        isolation.run_of("cohort", isolation.SLOW, seen[3:], 100.0, 120.0)


def test_waiting_is_compared_with_the_peers() -> None:
    """The worst batch with Spark's own, later ones with those before; hardly any later ones are not good enough."""
    runs = [
        isolation.Run(COHORT.name, isolation.SLOW, 200.0, 1_000.0, 210.0, 9),
        isolation.Run(KAFKA.name, isolation.SLOW, 300.0, 4_000.0, None, 0),
        isolation.Run(COHORT.name, isolation.SILENT, 200.0, 1_000.0, None, 2),
    ]
    assert [(bound.what, bound.value, bound.holds) for bound in isolation.bounds(isolation.summary(runs))] == [
        ("isolation, slow: worst batch : kafka's", 0.25, True),
        ("isolation, slow: later batches : before", pytest.approx(1.05), True),
        ("isolation, silent: later batches : before", None, False),
    ]


def test_what_reached_the_sink_is_what_was_written() -> None:
    """Per partition: records, offsets, checksums."""
    table = pa.table({"partition": [0, 0], "offset": [0, 1], "checksum": [7, 8]})
    gap.check("cohort", table, {0: (2, 1, 200, 15, 4, 1)})
    with pytest.raises(BenchError, match="partition 0"):
        gap.check("cohort", table, {0: (2, 1, 200, 16, 4, 1)})


def test_memory_is_that_of_one_executor() -> None:
    """The most of one agent; workers are shared out; both together at one moment, not their most at different ones."""
    samples = [
        memory.Sample((100.0, 80.0), (40.0,)),
        memory.Sample((60.0, 60.0), (50.0, 40.0)),
        memory.Sample((), (10.0,)),
    ]
    assert memory.peaks(samples) == {
        "agent_mib": 100.0,
        "worker_mib": 50.0,
        "workers_mib": 45.0,
        "together_mib": 110.0,
    }
    assert memory.peaks([])["together_mib"] == 0.0
