"""What ``make bench`` makes of its runs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tools.bench import drain, report
from tools.bench.results import Drained, Throughput, Trickle, order

RUN = Throughput("cohort", 2_000_000, 2.0, {"jvm": 1.5, "agents": 0.5}, 3_000_000, 6.0, 4.5, 2.0)
TRICKLE = Trickle("cohort", 8, (200.0, 300.0, 250.0), 5, 4.0)


def test_sources_take_turns_there_and_back() -> None:
    """A machine that gets slower or faster on the way hits every source alike."""
    assert "".join(order("ABC", 3)) == "ABCCBAABC"


def test_rates_are_medians_with_their_spread() -> None:
    """Rows per second and CPU-seconds per million rows are medians over the rounds, with least and greatest."""
    seen = report.throughput([RUN, replace(RUN, wall_s=4.0), replace(RUN, wall_s=1.0)])["cohort"]
    assert seen["rows_per_s"] == {"median": 1e6, "min": 0.5e6, "max": 2e6}
    assert seen["cpu_s_per_million"] == {"median": 1.0, "min": 1.0, "max": 1.0}
    assert seen["cpu_s_per_million_by_process"] == {"jvm": 0.75, "agents": 0.25}
    assert seen["query_rows_per_s"] == {"median": 0.5e6, "min": 0.5e6, "max": 0.5e6}


def test_trickles_of_one_size_are_pooled() -> None:
    """The median trigger time is that of all measured batches; the batches a run began with are counted, not measured."""
    seen = report.trickle([TRICKLE, replace(TRICKLE, trigger_ms=(400.0, 500.0))])["cohort"]["8"]
    assert (seen["batches"], seen["measured"]) == (15, 5)
    assert seen["trigger_ms"] == {"median": 300.0, "min": 200.0, "max": 500.0}


def test_ratios_compare_cohort_with_each_peer() -> None:
    """More than 1 is more rows, or more CPU, than the peer."""
    rates = report.throughput([RUN, replace(RUN, peer="kafka", wall_s=4.0, cpu_s={"jvm": 4.0})])
    found = report.ratios(rates, {})
    assert found == {"rows_per_s cohort / kafka": pytest.approx(2.0), "cpu cohort / kafka": pytest.approx(0.5)}


def test_a_source_that_crawls_has_batches_but_no_ratio() -> None:
    """A trickle in which no measured batch ended shows how many did end; its ratio is unknown, not zero."""
    crawl = [replace(TRICKLE, peer="kafka"), Trickle("kafka", 300, (), 2, 60.0)]
    seen = report.trickle(crawl)
    assert seen["kafka"]["300"] == {"batches": 2, "measured": 0, "trigger_ms": None, "seconds": 60.0}
    assert report.ratios({}, seen) == {"trigger kafka 300 / 8 partitions": None}


def test_the_result_is_a_table_and_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Piped, the table has no escape sequences, and the JSON is one line that holds every figure."""
    rates, trickles = report.throughput([RUN]), report.trickle([TRICKLE])
    result = {"throughput": rates, "trickle": trickles, "ratios": report.ratios(rates, trickles)}
    report.print_tables(result)
    printed = capsys.readouterr().out
    assert "1.00 (1.00 to 1.00)" in printed
    assert "\x1b" not in printed
    line = report.as_json(result)
    assert "\n" not in line
    assert json.loads(line)["trickle"]["cohort"]["8"]["trigger_ms"]["median"] == 250


def test_drains_are_compared_with_each_peer() -> None:
    """Medians over the rounds, per second and per CPU-second; a peer that wasn't run isn't compared."""
    runs = [Drained("native", 100, 1.0, 2.0), Drained("native", 100, 4.0, 2.0), Drained("native", 100, 2.0, 2.0)]
    seen = drain.report([*runs, Drained("java", 100, 5.0, 4.0)])
    assert seen["native"]["rows_per_s"] == {"median": 50.0, "min": 25.0, "max": 100.0}
    found = drain.ratios(seen)
    assert found == {
        "drain rows_per_s native / java (at least 2)": 2.5,
        "drain rows_per_cpu_s native / java (at least 2)": 2.0,
    }
    assert drain.ratios({}) == {}


def test_what_consumer_performance_prints() -> None:
    """Its one line of figures, among whatever else is printed; without it there is no result."""
    line = (
        "2026-01-01 10:00:00:000, 2026-01-01 10:00:05:123, 286.10, 57.2, 3000000, 600000.0, 123, 5000, 57.2, 600000.0"
    )
    assert drain.performance(f"WARNING: some option\n{line}\n") == (3_000_000, 5_000)
    with pytest.raises(ValueError, match="Exception"):
        drain.performance("Exception in thread main, ...")
