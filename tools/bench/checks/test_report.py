"""What ``make bench`` makes of its runs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

from tools.bench import report
from tools.bench.figures import Bound, Demand, Sample, Samples, difference, percentile
from tools.bench.results import Batch, BenchError, order
from tools.bench.source import drain, gap, isolation, latency, load, restart, runs, topics
from tools.bench.source.clients import between
from tools.bench.source.main import PARTS
from tools.bench.source.peers import COHORT, KAFKA
from tools.bench.source.ways import PLAIN, RECOMMENDED, Way, ways
from tools.recommended import recommended
from tools.spark import hosts_of

SAMPLES = Samples(
    [
        Sample("read", "cohort", {"s": 100.0, "cpu/jvm": 1.5, "cpu/agents": 0.5}),
        Sample("read", "kafka", {"s": 50.0}),
        Sample("read", "kafka", {"s": 25.0}),
        Sample("read", "cohort", {"s": 50.0, "cpu/jvm": 1.5, "cpu/agents": 0.5}),
        Sample("wait", "cohort", {"s": None}),
        Sample("wait", "cohort", {"s": 20.0}),
    ]
)
COLUMNS = (report.Column("s", "seconds", compared=True), report.Column("cpu/", "of which"))


def test_sources_take_turns_there_and_back() -> None:
    """A machine that gets slower or faster on the way hits every source alike."""
    assert "".join(order("ABC", 3)) == "ABCCBAABC"


def test_runs_of_one_round_are_compared() -> None:
    """A machine that is half as fast in one round changes no ratio; what is not known counts for nothing."""
    assert SAMPLES.spread("read", "cohort", "s") == {"median": 75.0, "min": 50.0, "max": 100.0}
    assert SAMPLES.over("read", "cohort", "s", ("read", "kafka")) == {"median": 2.0, "min": 2.0, "max": 2.0}
    assert SAMPLES.over("wait", "cohort", "s", ("read", "cohort")) == {"median": 0.4, "min": 0.4, "max": 0.4}
    assert SAMPLES.spread("wait", "kafka", "s") is None


@pytest.mark.parametrize(
    ("demand", "value", "holds"),
    [
        (Demand("read", "s", "time", 75.0), 75.0, True),
        (Demand("read", "s", "time", 1.5, beside="kafka"), 2.0, False),
        (Demand("read", "s", "time", 1.5, beside="kafka", at_least=True), 2.0, True),
        (Demand("read", "s", "time", 30.0, beside="kafka", by=difference), 37.5, False),
        (Demand("wait", "s", "time", 0.5, beside_case="read"), 0.4, True),
        (Demand("read", "t", "time", 0.5), None, False),
    ],
)
def test_a_demand_is_compared_with_what_was_found(demand: Demand, value: float | None, holds: bool) -> None:
    """By itself, beside another source, or beside another case; what is not known does not hold."""
    bound = demand.bound("part", SAMPLES)
    assert bound is not None
    assert (bound.value, bound.holds) == (value, holds)


def test_what_was_not_measured_has_no_bound() -> None:
    """Neither the case, nor who it is compared with; of several sources the first that was measured counts."""
    assert Demand("write", "s", "time", 1.0).bound("part", SAMPLES) is None
    assert Demand("wait", "s", "time", 1.0, beside="kafka").bound("part", SAMPLES) is None
    found = Demand("wait", "s", "time", None, ("cohort, recommended", "cohort"), aim=30.0).bound("part", SAMPLES)
    assert found == Bound("part, wait, cohort: time", 20.0, None, at_least=False, aim=30.0)
    assert found.as_value() == {"value": 20.0, "aim": 30.0, "aim_met": True, "holds": True}


def test_percentiles_weigh_their_values() -> None:
    """A value counts as often as it came; the last one is the greatest."""
    values = [(30.0, 1.0), (10.0, 98.0), (20.0, 1.0)]
    assert [percentile(values, share) for share in (0.5, 0.98, 0.99, 1.0)] == [10.0, 10.0, 20.0, 30.0]
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_the_result_is_a_table_and_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Piped, the tables have no escape sequences, and the JSON is one line that holds every figure."""
    table = report.part_table("All of it", COLUMNS, SAMPLES)
    report.print_all([table, report.bound_table([Bound("rows", 1.0, 1.5)])])
    printed = capsys.readouterr().out
    assert "75.00 (50.00 to 100.00)" in printed
    assert "jvm 1.50, agents 0.50" in printed
    assert "2.00 (2.00 to 2.00)" in printed
    assert "NO" in printed
    assert "\x1b" not in printed
    line = report.as_json({"part": SAMPLES.as_value()})
    assert "\n" not in line
    assert json.loads(line)["part"]["read"]["kafka"]["s"]["median"] == 37.5


@pytest.mark.parametrize("name", PARTS)
def test_what_is_demanded_is_shown(name: str) -> None:
    """Each part shows the figures that it demands something of, and has figures that a run can't leave out."""
    columns = {column.figure for column in PARTS[name].COLUMNS}
    cases = {"latency": list(latency.SETTINGS), "gap": list(gap.EVENTS)}.get(name, ["local[2]"])
    found = {demand.figure for demand in PARTS[name].demands(cases)}
    assert found - columns <= {"agents_over_one", "again_over_first"}


def test_steady_batches_are_neither_first_nor_last() -> None:
    """Rows by the seconds between them, CPU by process and in whole."""
    batches = [Batch(at, at + 1.0, 10, {"jvm": at * 2}) for at in range(4)]
    assert runs.steady(batches) == {"rows_per_s": 10.0, "cpu_s_per_million": 2e5, "cpu/jvm": 2e5, "cpu/ended": 0.0}


def test_a_process_that_ends_costs_nothing_twice() -> None:
    """What a process had used before the first look isn't counted again when it has ended by the second one."""
    first, last = {"jvm": 5.0, "python workers": 2.5, "ended": 1.0}, {"jvm": 6.0, "agents": 0.5, "ended": 3.75}
    assert between(first, last) == {"jvm": 1.0, "python workers": 0.0, "agents": 0.5, "ended": 0.25}


def test_sums_tell_where_rows_differ() -> None:
    """A partition that is missing, short, or has other bytes is named, with what differs."""
    written = {0: (2, 1, 200, 77, 2, 5), 1: (2, 1, 200, 78, 2, 5)}
    topics.compare("cohort", written, written)
    with pytest.raises(BenchError, match="partition 1: records differ"):
        topics.compare("cohort", {0: written[0]}, written)
    with pytest.raises(BenchError, match="partition 0: sum of offsets, value_crc differ"):
        topics.compare("cohort", written | {0: (2, 2, 200, 76, 2, 5)}, written)


def test_what_consumer_performance_prints() -> None:
    """Its one line of figures, among whatever else is printed; without it there is no result."""
    line = (
        "2026-01-01 10:00:00:000, 2026-01-01 10:00:05:123, 286.10, 57.2, 3000000, 600000.0, 123, 5000, 57.2, 600000.0"
    )
    assert drain.performance(f"WARNING: some option\n{line}\n") == (3_000_000, 5_000)
    with pytest.raises(ValueError, match="Exception"):
        drain.performance("Exception in thread main, ...")


def test_latencies_are_those_of_the_records() -> None:
    """From the timestamps in a batch to the moment at which all of it was in the sink, every record counted."""
    seen = Batch(9.0, 10.2, 40, {}, sunk=10.0, observed={latency.OBSERVED: {"at_ms": [9_000, 9_500, 9_900]}})
    assert latency.latencies(seen) == [(750.0, 20.0), (300.0, 20.0)]
    assert latency.figures_of("cohort", [seen] * 5) == {"p50_ms": 300.0, "p99_ms": 750.0, "batches": 5}
    with pytest.raises(BenchError, match="only 4 measured batches"):
        latency.figures_of("cohort", [seen] * 4)


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


def test_gaps_are_those_of_partitions_that_stayed() -> None:
    """One that goes and comes back has moved; the longest time between two deliveries that reaches into the stretch counts."""
    status = {"members": [{"member_id": "a", "owned": [["t", 0], ["t", 1]]}, {"member_id": "b", "owned": [["t", 2]]}]}
    before = gap.owners(status)
    assert before == {0: "a", 1: "a", 2: "b"}
    away = {"started_ms": 50, "after": {"a": [["t", 0]], "c": [["t", 1], ["t", 2]]}}
    back = {"started_ms": 60, "after": {"a": [["t", 0], ["t", 1]], "b": [["t", 2]]}}
    assert gap.staying(before, [away, back], 50) == {0}
    assert gap.staying(before, [away], 51) == {0, 1, 2}
    table = pa.table({"partition": [0, 0, 0, 1, 1], "at_ms": [100, 110, 130, 100, 190], "offset": [0, 1, 2, 0, 1]})
    assert gap.gaps(table, gap.Stretch(gap.KILL, 105, 200, frozenset({0}))) == {"stayed_ms": 20, "all_ms": 90}
    assert gap.gaps(table, gap.Stretch(gap.KILL, 105, 200, None)) == {"stayed_ms": 90, "all_ms": 90}


def test_what_reached_the_sink_is_what_was_written() -> None:
    """Per partition: records, offsets, checksums."""
    table = pa.table({"partition": [0, 0], "offset": [0, 1], "checksum": [7, 8]})
    gap.check("cohort", table, {0: (2, 1, 200, 15, 4, 1)})
    with pytest.raises(BenchError, match="partition 0"):
        gap.check("cohort", table, {0: (2, 1, 200, 16, 4, 1)})


def test_the_recommended_configuration_is_measured_beside_the_plain_one() -> None:
    """Both unless one is chosen; Spark's own source is the same in both."""
    assert ways((COHORT, KAFKA), None) == [PLAIN, RECOMMENDED, Way(KAFKA)]
    assert ways((COHORT, KAFKA), chosen=True) == [RECOMMENDED, Way(KAFKA)]
    assert ways((COHORT,), chosen=False) == [PLAIN]
    assert "spark.redaction.regex" in recommended()
    assert not [key for key in recommended() if key.startswith("spark.pyspark.")]


def test_a_cluster_has_a_host_for_each_worker() -> None:
    """Two attempts of a task never run on one host."""
    assert hosts_of("standalone[3]") == ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
    assert hosts_of("local[2]") == []


def test_batches_are_told_apart_by_the_fault() -> None:
    """Before it, the longest that overlaps it, and those that began when it had settled and nothing was in flight."""
    calm = [(at, at + 0.5) for at in (95.0, 97.0, 99.0)]
    later = [(112.0 + at, 112.8 + at) for at in range(isolation.LEAST_LATER)]
    times = [*calm, (99.9, 103.0), (107.0, 111.0), *later, (121.0, 140.0)]
    seen = [Batch(began, ended, 10, {}) for began, ended in times]
    figures = isolation.figures_of("cohort", seen, 100.0, 120.0)
    assert (figures["before_ms"], figures["worst_ms"]) == (500.0, 4000.0)
    assert figures["later"] == isolation.LEAST_LATER
    assert figures["later_ms"] == pytest.approx(800.0)
    assert isolation.figures_of("cohort", seen[:-2], 100.0, 120.0)["later_over_before"] is None
    with pytest.raises(BenchError, match="no batch before the fault"):
        isolation.figures_of("cohort", seen[3:], 100.0, 120.0)
