"""``cohort handover``: have the query that reads in a group finish its batch, commit and stop; from any host."""

from __future__ import annotations

import time
from contextlib import closing

import click

from sparkcohort.cli import printing
from sparkcohort.cli.client_config import client_config
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.handover import AskingState
from sparkcohort.runtime.shell.kafka.handover_client import HandoverClient, ask, describe

_EPILOG = """\b
Examples:
  cohort handover --group billing --bootstrap-server broker:9092
                                           stop the query at a clean point

Exit status: 0 the query has stopped; 1 it has not; 2 a mistake on the command line.
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
        outcome = ask(client, timeout_ms, time.sleep)
    if outcome.state is not AskingState.GRANTED:
        raise CohortError(describe(outcome, group_id))
    printing.print_stderr(describe(outcome, group_id))
