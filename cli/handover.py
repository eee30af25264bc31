"""``cohort handover``: have the query that reads in a group finish its batch, commit and stop; from any host."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

import click

from sparkcohort.cli import printing
from sparkcohort.cli.client_config import client_config
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.handover import FREE, AskingState, HandoverAnswer, HandoverRecord, RunName
from sparkcohort.runtime.kafka.run_epoch import decode
from sparkcohort.runtime.shell.kafka.handover_client import LOOK_S, HandoverClient, HandoverDelayed, ask, describe

T = TypeVar("T")
READ_S = 30.0

_EPILOG = """\b
Examples:
  cohort handover --group billing --bootstrap-server broker:9092
                                           stop the query at a clean point

Exit status: 0 the query has stopped; 1 it has not, or it has and Kafka was not told, as the error says: then run this
again; 2 a mistake on the command line.
"""


@click.command("handover", epilog=_EPILOG)
@click.option("--group", "group_id", metavar="GROUP", required=True, help="The group.id of the running query.")
@printing.servers
@printing.config
@click.option(
    "--timeout-ms", type=click.IntRange(min=1000), default=120_000, show_default=True, help="The longest wait."
)
def handover_command(group_id: str, servers: str | None, config: str | None, timeout_ms: int) -> None:
    """Have the running query of a group finish its batch, commit it and stop, so that the next one goes on from there.

    The query ends with HANDED_OVER.  Start the next one afterwards.
    """
    with closing(HandoverClient({"client.id": "cohort", **client_config(servers, config)}, group_id)) as client:
        _hand_over(client, timeout_ms)


def _hand_over(client: HandoverClient, timeout_ms: int) -> None:
    outcome = ask(client, timeout_ms, time.sleep)
    if outcome.state is not AskingState.GRANTED:
        raise CohortError(describe(outcome, client.group_id))
    stopped = outcome.target or RunName(0, "")
    try:
        committed = _answer_of_kafka(client.committed)
        _answer_of_kafka(lambda: client.write(HandoverRecord(HandoverAnswer.PARKED, FREE, stopped)))
    except CohortError as error:
        # The driver's answer stays in Kafka: the next call finds it, and goes on from there.
        raise CohortError(f"the query of group {client.group_id} has stopped, but {error}; run this again") from None
    for tp, (offset, text) in sorted(committed.items()):
        if decode(text).run:
            click.echo(f"{tp.topic}-{tp.partition} {offset}")
    printing.print_stderr(describe(outcome, client.group_id))


def _answer_of_kafka(ask_kafka: Callable[[], T]) -> T:
    """Kafka's answer, asked for again until ``READ_S`` are over."""
    deadline = time.monotonic() + READ_S
    while True:
        try:
            return ask_kafka()
        except HandoverDelayed:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOK_S)  # some failures come without a wait
