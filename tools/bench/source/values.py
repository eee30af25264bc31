"""The part ``values``: what is inside the records, as columns; only the columns that are asked for cross into the JVM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.table import Table

from tools.bench.figures import Bound, middle
from tools.bench.source import source, topics
from tools.bench.source.peers import COHORT, KAFKA_TUNED, ROW, Peer, View
from tools.bench.source.runs import Bench
from tools.bench.source.world import Found, World, say

VALUE = View("value alone", schema="value BINARY", selected_of_kafka=("value",))
TOPIC = "values-bytes"


@dataclass(frozen=True)
class Case:
    """One view of a topic, and what is demanded of it beside Spark's own source, tuned."""

    view: View
    rows_per_s: float
    cpu: float
    aims: tuple[float | None, float | None] = (None, None)  # of both


WHOLE = Case(ROW, 1.1, 1.05, (None, 1.0))
CASES = (WHOLE, Case(VALUE, 1.6, 0.8, (2.0, 0.65)))


def measure(world: World) -> Found:
    """Both sources ``rounds`` times on each view, after their rows were compared with what was written."""
    found: Found = {}
    with world.application(world.plan.masters[0]) as bench:
        places = source.fill(bench, TOPIC, topics.Shape(), world.plan.records)
        made = topics.rows(bench.spark, topics.Shape(), world.plan.records, topics.PARTITIONS)
        written = topics.values_of(topics.valued(made.select("value")).collect())
        for case in CASES:
            say(f"-- {case.view.name}")
            check = _check_places(bench, places) if case is WHOLE else _check_values(bench, written, case.view)
            peers = world.chosen(COHORT, KAFKA_TUNED)
            runs = source.checked_rounds(
                bench, peers, TOPIC, world.plan.records, world.plan.rounds, check, view=case.view
            )
            found[case.view.name] = source.summary(runs)
    return found


def _check_places(bench: Bench, places: topics.Sums) -> Callable[[Peer], None]:
    return lambda peer: bench.check(peer, TOPIC, places)


def _check_values(bench: Bench, written: topics.Values, view: View) -> Callable[[Peer], None]:
    return lambda peer: bench.check_values(peer, TOPIC, written, view)


def bounds(found: Found) -> list[Bound]:
    """More rows a second than Spark's own tuned source, for less CPU."""
    held: list[Bound] = []
    for case in CASES:
        over = found.get(case.view.name, {}).get("cohort_over", {}).get(KAFKA_TUNED.name)
        if over is not None:
            name = f"values, {case.view.name}"
            rates, cpu = middle(over["rows_per_s"]), middle(over["cpu"])
            held.append(Bound(f"{name}: rows/s of {KAFKA_TUNED.name}'s", rates, case.rows_per_s, aim=case.aims[0]))
            held.append(Bound(f"{name}: CPU of {KAFKA_TUNED.name}'s", cpu, case.cpu, at_least=False, aim=case.aims[1]))
    return held


def tables(found: Found) -> list[Table]:
    """One table a view."""
    return [source.rates_table(f"All of a topic, {name}, steady batches", seen) for name, seen in found.items()]
