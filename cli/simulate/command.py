"""``cohort simulate``: computes what a rebalance of a live group would do; nothing is changed anywhere.

A bad change ends with exit status 2 and one line, a missing group with 1.
"""

from __future__ import annotations

from typing import Final

import click

from sparkcohort.assignors import ASSIGNORS, Assignor
from sparkcohort.cli import printing
from sparkcohort.cli.client_config import Mistake
from sparkcohort.cli.simulate import live_case, views
from sparkcohort.cli.simulate.case import CaseError
from sparkcohort.cli.simulate.changes import change_members, change_partitions
from sparkcohort.cli.simulate.outcome import simulate
from sparkcohort.cli.views import printable
from sparkcohort.runtime.errors import CohortError, OptionError
from sparkcohort.runtime.leader.assignment import InvalidAssignment
from sparkcohort.runtime.shell.coordinator import custom_assignors
from sparkcohort.runtime.shell.options.assignor_names import assignor_name
from sparkcohort.runtime.shell.rpc import connection_file

_EPILOG: Final = """\b
Examples:
  cohort simulate --group billing --members +2
                              two executors more: what moves?
  cohort simulate --group billing --members -executor-3 --assignor range
  cohort simulate --group billing --partitions orders=48
  cohort simulate --group billing --members +1 --output json | jq .moved

\b
moved     partitions that leave an owner that stays in the group
fewest    the fewest that must, for any complete and balanced assignment
pauses    rounds in which a partition has no owner
Members added by number are new-1, new-2 … and subscribe as most others do;
range and roundrobin go by name: +executor-9 adds one under its own.
"""


@click.command("simulate", epilog=_EPILOG)
@click.option("--group", "group_id", required=True, metavar="GROUP", help="The group of a live query on this host.")
@click.option("--members", multiple=True, metavar="CHANGE", help="+2, +2@RACK, +NAME or -NAME; may be repeated.")
@click.option("--partitions", multiple=True, metavar="TOPIC=N", help="Give a topic N partitions; may be repeated.")
@click.option("--assignor", metavar="NAME", help="Another than the group's; your own as package.module.Class.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def simulate_command(
    group_id: str, members: tuple[str, ...], partitions: tuple[str, ...], assignor: str | None, output: str
) -> None:
    """Show what an assignor would do to a live group if members or partitions changed, without doing it."""
    base = live_case.case_of_status(connection_file.describe(group_id))
    try:
        case = change_members(change_partitions(base, partitions), members)
        outcome = simulate(base, case, _load_assignor(assignor or base.assignor))
    except CaseError as error:
        raise Mistake(str(error)) from None
    except InvalidAssignment as error:
        raise CohortError(printable(str(error))) from None
    if output == "json":
        click.echo(views.as_json(case, outcome))
    else:
        printing.print_view(views.members(base, case, outcome), "table")


def _load_assignor(word: str) -> Assignor:
    """The assignor of this name: a built-in one, also by Kafka's class, or a user's own by dotted name.

    Raises CaseError.
    """
    if not word:
        raise CaseError(f"the group has no assignor yet: give --assignor, one of {', '.join(sorted(ASSIGNORS))}")
    try:
        (assignor,) = custom_assignors.load([assignor_name(word)]).values()
    except OptionError as error:
        option = f"option {custom_assignors.OPTION}"
        raise CaseError(str(error).replace(f"{option}=", "assignor ").replace(option, "assignor")) from None
    return assignor
