"""What members observe: rates over a window, rounded in their reports."""

from __future__ import annotations

from sparkcohort.assignors import Load
from sparkcohort.runtime.leader import load_report
from sparkcohort.runtime.leader.load_report import Meter, Progress, loads, observe
from sparkcohort.runtime.protocol.partitions import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
WINDOW_MS = 60_000


def run(*seen: tuple[int, Progress]) -> Load:
    """The load of one partition after looks at these times (seconds)."""
    meters: dict[TopicPartition, Meter] = {}
    for at_s, progress in seen:
        meters = observe(meters, {A: progress}, at_s * 1000, WINDOW_MS)
    return loads(meters)[A]


def test_a_steady_rate_is_told_from_the_second_look_on() -> None:
    """No slow start: 100 records of 20 bytes a second are that after 5 s, and after 500."""
    for looks in (2, 100):
        load = run(*((5 * n, Progress(500 * n, 500 * n, 10_000 * n, 500 * n + 7)) for n in range(looks)))
        assert (round(load.records, 6), round(load.bytes, 6), load.backlog) == (100.0, 2000.0, 7)


def test_what_falls_silent_fades_and_a_pulse_is_flattened() -> None:
    """After a window of silence about a third is left; a batch every 10 s is the mean of it, within a tenth."""
    busy = [(5 * n, Progress(500 * n, 500 * n, 10_000 * n)) for n in range(60)]
    silent = [(300 + 5 * n, Progress(500 * 59, 500 * 59, 10_000 * 59)) for n in range(12)]
    assert 30 < run(*busy, *silent).records < 40
    pulses = [(5 * n, Progress(1000 * (n // 2), n, n)) for n in range(61)]
    assert 90 < run(*pulses).records < 110


def test_bytes_are_what_the_fetched_records_have_whoever_read_the_others() -> None:
    """Of 1,000 records a second this member fetched a tenth, of 50 bytes: the partition has 50,000 bytes a second."""
    load = run(*((5 * n, Progress(5000 * n, 500 * n, 25_000 * n)) for n in range(10)))
    assert (round(load.records), round(load.bytes)) == (1000, 50_000)
    assert run((0, Progress(0, 0, 0)), (1, Progress(10, 0, 0))) == Load(10.0, 0.0, 0)


def test_what_was_fetched_before_the_first_look_tells_the_size() -> None:
    """A thousand records of 50 bytes lay ready before anybody looked; the query passes them now."""
    assert run((0, Progress(0, 1000, 50_000)), (1, Progress(500, 1000, 50_000))) == Load(500.0, 25_000.0, 0)


def test_a_partition_that_begins_anew_is_measured_anew() -> None:
    """Another log, or owned again: offsets that go back are no negative rate; what isn't owned is forgotten."""
    meters = observe({}, {A: Progress(900, 9, 9), B: Progress(0, 0, 0)}, 0, WINDOW_MS)
    assert loads(meters) == {}
    meters = observe(meters, {A: Progress(10, 1, 1)}, 5_000, WINDOW_MS)
    assert loads(meters) == {}
    meters = observe(meters, {A: Progress(20, 2, 2)}, 10_000, WINDOW_MS)
    assert loads(meters) == {A: Load(2.0, 2.0, 0)}


def test_reports_are_as_frequent_as_the_window_asks_for() -> None:
    """Twelve in a window, never more often than ten a second nor more seldom than one in 5 s."""
    assert [load_report.interval_ms(window) for window in (1000, 12_000, 60_000, 3_600_000)] == [100, 1000, 5000, 5000]
