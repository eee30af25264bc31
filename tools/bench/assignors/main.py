"""``make bench-assignors``: our assignors beside Kafka's own, from subscriptions to assignments."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from sparkcohort.assignors import ASSIGNORS
from tools.bench.assignors import grid, report
from tools.bench.assignors.sides import SideError
from tools.bench.report import as_json

EXAMPLES = """\b
Examples:
  make bench-assignors                                              the whole grid, within 40 minutes
  make bench-assignors ARGS=--quick                                 what the bounds name and a little more
  python -P tools/bench assignors --only equal/2000x500 --rounds 3  a part, by parts of the cells' names
  python -P tools/bench assignors --output json >assignors.json     only the JSON line on standard output
"""


def say(text: str) -> None:
    """A progress line, out of the result's way."""
    click.echo(text, err=True)


def result_of(plan: grid.Plan) -> dict[str, Any]:
    """Measure, and judge."""
    found = report.cells(grid.measure(plan, say))
    return {
        "bench": "cohort assignors",
        "cores": os.cpu_count(),
        "rounds": plan.rounds,
        "cells": found,
        "bounds": report.bounds(found),
        "aims": report.aims(found),
        "skipped": report.skipped(found),
    }


@click.command(epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="Only what the bounds name, one shape more, three rounds.")
@click.option("--rounds", type=click.IntRange(1), help="Runs of each side and cell.  [default: 5; quick: 3]")
@click.option("--only", multiple=True, help="Only cells in whose name this is found (repeatable).")
@click.option("--minutes", type=click.FloatRange(0), default=40, show_default=True, help="When to begin no other cell.")
@click.option("--patience", type=click.FloatRange(1), default=30, show_default=True, help="Seconds for one answer.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(quick: bool, rounds: int | None, only: tuple[str, ...], minutes: float, patience: float, output: str) -> None:
    """Measure our assignors beside Kafka's, in a warm JVM, both in turns on the same groups.

    A cell is assignor/subscriptions/members x partitions per member/topics/event.  Subscriptions are equal, or
    unequal: every member leaves out every fifth topic.  Events: a fresh group, one member joins, one leaves; of an event
    the first round is measured.  Time runs from every member's subscription, as a value, to every member's assignment: values with us, bytes with Kafka.
    A side whose runs of a cell took 6 s in all is not run again there, and a first run that long counts.
    Memory is the peak beside the subscriptions, in a run of its own.  A side that does not answer in time is left out
    there and in larger cells of the kind.
    The last line of standard output is the result as one JSON object.
    Exit status: 0 measured and every bound holds, 1 a side failed or a bound does not hold, 2 wrong usage.
    """
    chosen = grid.cells(ASSIGNORS, quick=quick, only=only)
    if not chosen:
        raise click.BadParameter(f"no cell's name has {' or '.join(only)} in it", param_hint="--only")
    plan = grid.Plan(chosen, rounds or (3 if quick else 5), minutes * 60, patience)
    try:
        result = result_of(plan)
    except (SideError, OSError) as error:
        say(f"bench-assignors: {type(error).__name__}: {error}")
        sys.exit(1)
    if output == "table":
        report.print_tables(result)
    click.echo(as_json(result))
    sys.exit(0 if all(result["bounds"].values()) else 1)
