"""What ``make bench`` makes of its runs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tools.bench import report
from tools.bench.figures import Bound, paired, percentile
from tools.bench.results import BenchError, Drained, Throughput, Trickle, order
from tools.bench.source import drain, partitions, source, topics
from tools.bench.source.clients import between

RUN = Throughput("cohort", 2_000_000, 2.0, {"jvm": 1.5, "agents": 0.5}, 3_000_000, 6.0, 4.5, 2.0)
TRICKLE = Trickle("cohort", 8, (200.0, 300.0, 250.0), 5, 4.0)


def test_sources_take_turns_there_and_back() -> None:
    """A machine that gets slower or faster on the way hits every source alike."""
    assert "".join(order("ABC", 3)) == "ABCCBAABC"


def test_runs_of_one_round_are_compared() -> None:
    """A machine that is half as fast in one round changes no ratio; what was not measured has none."""
    assert paired([100, 50, 80], [50, 25, 80]) == {"median": 2.0, "min": 1.0, "max": 2.0}
    assert paired([], [1.0]) is None


def test_percentiles_weigh_their_values() -> None:
    """A value counts as often as it came; the last one is the greatest."""
    values = [(30.0, 1.0), (10.0, 98.0), (20.0, 1.0)]
    assert [percentile(values, share) for share in (0.5, 0.98, 0.99, 1.0)] == [10.0, 10.0, 20.0, 30.0]
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_a_bound_holds_when_it_is_met() -> None:
    """At least or at most; what isn't known doesn't hold; without a demand there is only an aim."""
    assert Bound("rows", 1.5, 1.5).holds
    assert not Bound("rows", 1.4, 1.5).holds
    assert Bound("CPU", 1.4, 1.4, at_least=False).holds
    assert not Bound("rows", None, 1.5).holds
    wished = Bound("rows", 0.7, None, aim=0.8)
    assert wished.holds
    assert wished.as_value() == {"value": 0.7, "aim": 0.8, "aim_met": False, "holds": True}


def test_a_process_that_ends_costs_nothing_twice() -> None:
    """What a process had used before the first look isn't counted again when it has ended by the second one."""
    first, last = {"jvm": 5.0, "python workers": 2.5, "ended": 1.0}, {"jvm": 6.0, "agents": 0.5, "ended": 3.75}
    assert between(first, last) == {"jvm": 1.0, "python workers": 0.0, "agents": 0.5, "ended": 0.25}


def test_rates_are_medians_with_their_spread() -> None:
    """Rows per second and CPU-seconds per million rows are medians over the rounds, with least and greatest."""
    seen = source.one_source([RUN, replace(RUN, wall_s=4.0), replace(RUN, wall_s=1.0)])
    assert seen["rows_per_s"] == {"median": 1e6, "min": 0.5e6, "max": 2e6}
    assert seen["cpu_s_per_million"] == {"median": 1.0, "min": 1.0, "max": 1.0}
    assert seen["cpu_s_per_million_by_process"] == {"jvm": 0.75, "agents": 0.25}
    assert seen["query_rows_per_s"] == {"median": 0.5e6, "min": 0.5e6, "max": 0.5e6}


def test_cohort_is_compared_with_each_peer() -> None:
    """More than 1 is more rows, or more CPU, than the peer; the bounds say what is demanded of that."""
    seen = source.summary([RUN, replace(RUN, peer="kafka", wall_s=4.0, cpu_s={"jvm": 4.0})])
    assert seen["cohort_over"]["kafka"]["rows_per_s"]["median"] == pytest.approx(2.0)
    assert seen["cohort_over"]["kafka"]["cpu"]["median"] == pytest.approx(0.5)
    assert [bound.holds for bound in source.bounds({"local[2]": seen})] == [True, True]
    assert source.summary([replace(RUN, peer="kafka")])["cohort_over"] == {}


def test_trickles_are_compared_by_size() -> None:
    """The median over the runs of their median trigger times; the batches a run began with are counted, not measured."""
    seen = partitions.summary(
        [TRICKLE, replace(TRICKLE, trigger_ms=(400.0, 500.0)), replace(TRICKLE, partitions=1_000)]
    )
    assert (seen["cohort"]["8"]["batches"], seen["cohort"]["8"]["measured"]) == (15, 5)
    assert seen["cohort"]["8"]["trigger_ms"] == {"median": 350.0, "min": 250.0, "max": 450.0}
    (bound,) = partitions.bounds(seen)
    assert bound.value == pytest.approx(250 / 350)


def test_a_source_that_crawls_is_no_faster_than_its_batches() -> None:
    """A trickle in which no measured batch ended tells how many did end, and that time over their number."""
    seen = partitions.summary([replace(TRICKLE, partitions=300), Trickle("kafka", 300, (), 2, 60.0)])
    assert seen["kafka"]["300"]["trigger_ms"] is None
    (_, below) = partitions.bounds({**seen, "cohort": {"8": seen["cohort"]["300"], **seen["cohort"]}})
    assert below.value == pytest.approx(30_000 / 250)
    assert below.holds


def test_the_result_is_a_table_and_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Piped, the tables have no escape sequences, and the JSON is one line that holds every figure."""
    found = {"local[2]": source.summary([RUN])}
    report.print_tables(source.tables(found), [Bound("rows", 1.0, 1.5)])
    printed = capsys.readouterr().out
    assert "1.00 (1.00 to" in printed
    assert "NO" in printed
    assert "\x1b" not in printed
    line = report.as_json(found)
    assert "\n" not in line
    assert json.loads(line)["local[2]"]["sources"]["cohort"]["rows_per_s"]["median"] == 1e6


def test_drains_are_compared_with_each_peer() -> None:
    """Round by round, per second and per CPU-second; a peer that wasn't run isn't compared."""
    runs = [Drained("fetching", 100, 1.0, 2.0), Drained("fetching", 100, 4.0, 2.0), Drained("fetching", 100, 2.0, 2.0)]
    seen = drain.summary([*runs, Drained("java", 100, 5.0, 4.0)])
    assert seen["peers"]["fetching"]["rows_per_s"] == {"median": 50.0, "min": 25.0, "max": 100.0}
    assert [(bound.value, bound.must) for bound in drain.bounds(seen)] == [(5.0, 2.0), (2.0, 2.0)]
    assert drain.bounds(drain.summary([])) == []


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
