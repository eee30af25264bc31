"""``cohort lag``: how far behind groups are, in records and in time, and whether that grows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import click

from sparkcohort.cli import printing, views
from sparkcohort.cli.kafka_group import KafkaGroup, open_group
from sparkcohort.cli.lag_figures import Lag, Lags, find_excesses, parse_limit, total_by, trend
from sparkcohort.cli.live_runs import ask_runs, status_of
from sparkcohort.runtime.batches.record_ages import RecordAges
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.offsets_json import LATEST
from sparkcohort.runtime.shell.kafka.fetch.first_answers import read_first_records

PARTS: Final = {"group": 1, "topic": 2, "partition": 3}
COLUMNS: Final = ("GROUP", "TOPIC", "PARTITION")
LOOK_S: Final = 2.0
READ_S: Final = 10.0
MOST_READ: Final = 2_000
"""Partitions whose first record is read for its age."""

_EPILOG: Final = """\b
Examples:
  cohort lag                                    of all groups of this host
  cohort lag --group billing --by partition
  watch cohort lag --group billing              again and again
  cohort lag --group billing --fail-above 5m    exit status 3 if a record waits for longer
  cohort lag --group billing --bootstrap-server broker:9092
                                                of any group, from any host
"""


@click.command("lag", epilog=_EPILOG)
@printing.group
@click.option(
    "--by", "row_kind", type=click.Choice([*PARTS]), default="topic", show_default=True, help="A row for each of these."
)
@click.option(
    "--fail-above",
    "limit",
    metavar="LIMIT",
    help="Exit status 3 if a group's lag is above this many records (10000), or this much time (30s, 5m, 2h).",
)
@printing.servers
@printing.config
@printing.output
def lag_command(
    group_id: str | None,
    row_kind: str,
    limit: str | None,
    servers: str | None,
    config: str | None,
    output: str,
) -> int:
    """Show how far behind groups are, and whether that grows.

    SECONDS is the age of the oldest record that is not committed, by its own timestamp.  Two looks, two seconds apart, tell the TREND.
    With --bootstrap-server Kafka is asked: for any group.
    """
    context = click.get_current_context()
    try:
        bound = None if limit is None else parse_limit(limit)
    except ValueError as error:
        raise click.UsageError(f"--fail-above: {error}", context) from None
    if (servers or config) and group_id is None:
        raise click.UsageError("--bootstrap-server needs --group.", context)
    group = open_group(group_id or "", servers, config) if servers or config else None
    read_lags = partial(_of_runs, group_id) if group is None else partial(_of_kafka, group)
    lags_before, taken_at = read_lags(), time.monotonic()
    time.sleep(LOOK_S)
    lags_now, taken_now = read_lags(), time.monotonic()
    printing.print_view(_view(lags_before, lags_now, taken_now - taken_at, PARTS[row_kind]), output)
    return _verdict(lags_now, bound)


def _verdict(lags: Lags, limit: Lag | None) -> int:
    too_much = [] if limit is None else find_excesses(total_by(lags, 1), limit)
    for excess in too_much:
        printing.print_stderr(f"cohort: {excess} behind, more than --fail-above")
    return printing.FAIL_ABOVE if too_much else 0


def _of_runs(group_id: str | None) -> Lags:
    """The lags of the live runs of this host.  Raises CohortError: one does not answer."""
    statuses, failures = ask_runs(group_id, status_of)
    if failures:
        raise CohortError("; ".join(failures))
    return {
        (status["group"], row["topic"], row["partition"]): Lag(row["lag"], row["lag_seconds"])
        for status in statuses
        for row in status["partitions"]
    }


def _of_kafka(group: KafkaGroup) -> Lags:
    """The lags of any group.  Raises CohortError: no broker, no permission, no such group."""
    committed = {tp: offset for tp, (offset, _) in group.committed().items()}
    if not committed:
        raise CohortError(f"group {group.name} has committed nothing: there is no such group, or it has not read yet")
    ends, ages = group.offsets(committed, LATEST), RecordAges()
    lagging = {tp: offset for tp, offset in committed.items() if ends[tp] > offset}
    for first_records in read_first_records(group.conf, dict(sorted(lagging.items())[:MOST_READ]), READ_S):
        for tp, record in first_records:
            ages.add(tp, record)
    now_ms = int(time.time() * 1000)
    ages_ms = {tp: ages.age_ms(tp, offset, ends[tp], now_ms) for tp, offset in committed.items()}
    return {
        (group.name, *tp): Lag(max(ends[tp] - offset, 0), None if (age := ages_ms[tp]) is None else age / 1000)
        for tp, offset in committed.items()
    }


def _view(lags_before: Lags, lags_now: Lags, elapsed_s: float, parts: int) -> views.View:
    earlier = total_by(lags_before, parts)
    objects = []
    for place, lag in total_by(lags_now, parts).items():
        change = trend(earlier.get(place), lag, elapsed_s) or None
        names = dict(zip(map(str.lower, COLUMNS), place, strict=False))
        objects.append({**names, "lag": lag.records, "seconds": lag.seconds, "trend": change})
    return views.view_of((*COLUMNS[:parts], "LAG", "AGE", "TREND"), objects, {"AGE": _age})


def _age(item: Mapping[str, Any]) -> str | None:
    return None if item["seconds"] is None else views.duration(1000 * item["seconds"])
