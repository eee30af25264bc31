"""``cohort sink``: what an exactly-once sink has decided, its open transactions, and what to do about both; from any host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, TypeGuard

import click

from sparkcohort.cli import printing, views
from sparkcohort.cli.client_config import client_config
from sparkcohort.runtime.kafka.decision import SinkDecision
from sparkcohort.runtime.shell.kafka.produce.sink_committer import SinkCommitter
from sparkcohort.runtime.shell.options.producer_settings import ProducerSettings
from sparkcohort.runtime.shell.options.table import BY_KEY
from sparkcohort.runtime.text import counted

COLUMNS: Final = (
    "SINK",
    "TRANSACTIONAL-ID",
    "PRODUCER-ID",
    "EPOCH",
    "STATE",
    "TIME-LEFT-S",
    "BATCH",
    "ROWS",
    "PARTITIONS",
)
DRY_RUN: Final = "nothing is changed; --execute does it"
CLAIM_MS: Final = "60000"

_EPILOG: Final = """\b
Examples:
  cohort sink show --sink-id billed --bootstrap-server broker:9092
                                           the last decided batch, and open transactions
  cohort sink finish --sink-id billed --bootstrap-server broker:9092
                                           commit what is decided, when the driver can't come back in time
  cohort sink reset --sink-id billed --batch 11 --bootstrap-server broker:9092 --execute
                                           have batch 12 written again

Exit status: 0 done; 1 it can't be done; 2 a mistake on the command line.
"""


@click.group("sink", epilog=_EPILOG, no_args_is_help=False)
def sink_command() -> None:
    """Look at an exactly-once sink in Kafka, and help it."""


def _options(command: Any) -> Any:
    for decorate in (
        click.option(
            "--sink-state-topic",
            "state_topic",
            metavar="T",
            default=BY_KEY["sink.state.topic"].default,
            show_default=True,
            help="The sink.state.topic of the query.",
        ),
        printing.config,
        printing.servers,
        click.option("--sink-id", metavar="ID", required=True, help="The sink.id of the query."),
    ):
        command = decorate(command)
    return command


@contextmanager
def _committer(sink_id: str, servers: str | None, config: str | None, state_topic: str) -> Iterator[SinkCommitter]:
    connection = {"client.id": "cohort", **client_config(servers, config)}
    settings = replace(ProducerSettings.parse({"transaction.timeout.ms": CLAIM_MS}), connection=connection)
    committer = SinkCommitter(settings, sink_id, state_topic)
    try:
        yield committer
    finally:
        committer.close()


@sink_command.command("show", epilog=_EPILOG)
@_options
@printing.output
def show_command(sink_id: str, servers: str | None, config: str | None, state_topic: str, output: str) -> None:
    """Print the last decided batch of a sink, and its open transactions."""
    with _committer(sink_id, servers, config, state_topic) as committer:
        last = committer.last_decision()
        decided = {each.transaction: each for each in last.committables} if last is not None else {}
        open_now = committer.open_transactions({each.name for each in decided})
    rows: list[tuple[object, ...]] = []
    for transaction in sorted({*decided, *open_now}):
        own, left_s = decided.get(transaction), open_now.get(transaction)
        word = "decided, open" if own and left_s is not None else "decided" if own else "open"
        ranges = own.ranges if own else ()
        places = ", ".join(f"{each.topic}-{each.partition}:{each.first}-{each.last}" for each in ranges)
        seconds = None if left_s is None else round(left_s)
        batch = last.batch if own and last is not None else None
        rows_of = sum(each.rows for each in ranges) if own else None
        rows.append((sink_id, transaction.name, *transaction.producer, word, seconds, batch, rows_of, places or None))
    printing.print_view(
        views.View(COLUMNS, tuple(rows), notes=tuple(_notes(sink_id, last, decided.keys() & open_now))), output
    )


def _has_decided(last: SinkDecision | None) -> TypeGuard[SinkDecision]:
    """A start that finds no decision leaves its run, and no query."""
    return last is not None and bool(last.query)


def _notes(sink_id: str, last: SinkDecision | None, unfinished: object) -> Iterator[str]:
    if not _has_decided(last):
        yield f"sink {sink_id} has decided nothing: it has written nothing yet, or was reset"
        return
    yield f"sink {sink_id}: batch {last.batch} of query {last.query} is the last that is decided"
    if unfinished:
        yield "some of its transactions are still open: cohort sink finish commits them, as the next start of the query does"


@sink_command.command("finish", epilog=_EPILOG)
@_options
def finish_command(sink_id: str, servers: str | None, config: str | None, state_topic: str) -> None:
    """Commit the last decided batch before its time is over, and abort what else is open, so that readers go on.

    It is what the query does when it starts.  A batch that a running query is writing fails, and is written again.
    """
    with _committer(sink_id, servers, config, state_topic) as committer:
        settled = committer.begin_run()
    last = settled.decision
    if _has_decided(last):
        printing.print_stderr(f"sink {sink_id}: batch {last.batch} of query {last.query} is committed")
    else:
        printing.print_stderr(f"sink {sink_id} has decided nothing: there is nothing to commit")
    if settled.leftovers:
        printing.print_stderr(
            f"{counted(len(settled.leftovers), 'open transaction')} of no decided batch ended with an abort"
        )


@sink_command.command("reset", epilog=_EPILOG)
@_options
@click.option(
    "--batch",
    type=click.IntRange(min=-1),
    metavar="N",
    help="The last batch that counts as written; default: forget the sink.",
)
@click.option("--execute", is_flag=True, help="Do it; without it only what would be done is shown.")
def reset_command(
    sink_id: str, servers: str | None, config: str | None, state_topic: str, batch: int | None, execute: bool
) -> None:
    """Have a sink begin behind batch N, or as a new one, after its query has stopped.

    The query writes the batches behind N, also those that are in Kafka already.
    """
    with _committer(sink_id, servers, config, state_topic) as committer:
        last = committer.reset(batch) if execute else committer.last_decision()
    if not _has_decided(last):
        printing.print_stderr(f"sink {sink_id} has decided nothing: there is nothing to reset")
        return
    target = (
        "is forgotten, and any query may begin"
        if batch is None
        else f"counts batch {batch} as the last that is written"
    )
    tense = "now " if execute else "then "
    printing.print_stderr(f"sink {sink_id}: batch {last.batch} of query {last.query} was decided; {tense}it {target}")
    if not execute:
        printing.print_stderr(DRY_RUN)
