"""``make bench-decoders``: from a column of bytes to columns, on one core, without Kafka and without Spark."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import click
import pyarrow as pa
from rich.table import Table

from tools.bench import report
from tools.bench.decoders.sides import BATCH, OURS, Side, SideError, records, sides
from tools.bench.figures import Bound, middle, paired, shown, spread

EXAMPLES = """\b
Examples:
  make bench-decoders                              all flights of a year, five rounds
  make bench-decoders ARGS="--rounds 2 --output json"
"""
MUST = {"pyarrow.json": 3.0, "pyruhvro": 1.0}
"""How many times faster ours has to be."""


def say(text: str) -> None:
    """A progress line, out of the result's way."""
    click.echo(text, err=True)


def measure(rounds: int) -> dict[str, dict[str, list[float]]]:
    """By case and side, the µs of CPU a row of each round; there and back, so that a drift hits all alike."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    truth, given = records()
    chosen = list(sides())
    for side in chosen:
        say(f"comparing every row: {side.case}, {side.who}")
        _check(side, truth, given[side.format])
    for number in range(rounds):
        for side in chosen if number % 2 == 0 else reversed(chosen):
            found[side.case][side.who].append(_run(side, given[side.format]))
        say(f"[{number + 1}/{rounds}]")
    return found


def _batches(side: Side, column: pa.Array) -> Iterable[pa.Array]:
    end = min(side.rows or len(column), len(column))
    return [column[at : min(at + BATCH, end)] for at in range(0, end, BATCH)]


def _check(side: Side, truth: pa.Table, column: pa.Array) -> None:
    """Raises SideError unless the rows are those that were written."""
    names = [each.split()[0] for each in side.fields.split(", ")]
    made = pa.concat_tables([side.decode(batch).select(names) for batch in _batches(side, column)])
    wanted = truth.select(names)[: made.num_rows]
    if made.cast(wanted.schema) != wanted:
        raise SideError(f"{side.who} has other rows of {side.case}")


def _run(side: Side, column: pa.Array) -> float:
    batches = list(_batches(side, column))
    before = time.process_time()
    for batch in batches:
        side.decode(batch)
    return (time.process_time() - before) * 1e6 / sum(map(len, batches))


def result_of(found: Mapping[str, Mapping[str, list[float]]], rounds: int) -> tuple[dict[str, Any], list[Bound]]:
    """What was measured, and what is demanded of it."""
    cases, bounds = {}, []
    for case, runs in found.items():
        over = {who: paired(theirs, runs[OURS]) for who, theirs in runs.items() if who != OURS}
        cases[case] = {"us_a_row": {who: spread(took) for who, took in runs.items()}, "times_ours": over}
        for who, seen in over.items():
            if who in MUST:
                bounds.append(Bound(f"{case}: times as fast as {who}", middle(seen), MUST[who]))
    return {
        "bench": "cohort decoders",
        "cores": os.cpu_count(),
        "rounds": rounds,
        "cases": cases,
        "bounds": {bound.what: bound.as_value() for bound in bounds},
    }, bounds


def tables(cases: Mapping[str, Any]) -> list[Table]:
    """One for all cases."""
    table = Table(title="Bytes to columns, one core, median (least to most)")
    for name in ("what", "with", "µs of CPU a row", "times ours"):
        table.add_column(name, justify="left" if name in ("what", "with") else "right")
    for case, seen in cases.items():
        for who, took in seen["us_a_row"].items():
            table.add_row(case, who, shown(took, digits=3), "" if who == OURS else shown(seen["times_ours"][who]))
    return [table]


@click.command(epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="Runs of each decoder.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(rounds: int, output: str) -> None:
    """Measure our decoders beside other people's, on the flights of a year, in one process on one core.

    Each gets the records in columns of 10,000, as an agent has them, and every row is compared before anything is
    measured. What reads lines gets lines, and joining them counts.
    The last line of standard output is the result as one JSON object.
    Exit status: 0 measured and every bound holds, 1 a side failed or a bound does not hold, 2 wrong usage.
    """
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    try:
        result, bounds = result_of(measure(rounds), rounds)
    except SideError as error:
        say(f"bench-decoders: {error}")
        sys.exit(1)
    if output == "table":
        report.print_tables(tables(result["cases"]), bounds)
    click.echo(report.as_json(result))
    sys.exit(0 if all(bound.holds for bound in bounds) else 1)
