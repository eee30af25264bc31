"""``cohort simulate``: computes what a rebalance would do; nothing is changed anywhere.

A bad case or a bad change of it ends with exit status 2 and one line, a missing group with 1.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import click

from sparkcohort.assignors import ASSIGNORS, Assignor
from sparkcohort.cli import printing
from sparkcohort.cli.client_config import Mistake
from sparkcohort.cli.kafka_group import open_group
from sparkcohort.cli.simulate import live_case, views
from sparkcohort.cli.simulate.case import MOST_BYTES, Case, CaseError, as_value, parse
from sparkcohort.cli.simulate.changes import change_members, change_partitions
from sparkcohort.cli.simulate.outcome import simulate
from sparkcohort.cli.simulate.owned_partitions import OwnedPartitions, oddities
from sparkcohort.cli.views import printable
from sparkcohort.runtime.errors import CohortError, OptionError
from sparkcohort.runtime.leader.assignment import InvalidAssignment
from sparkcohort.runtime.shell.coordinator import custom_assignors
from sparkcohort.runtime.shell.options.assignor_names import KAFKAS_PACKAGE, assignor_name
from sparkcohort.runtime.shell.rpc import connection_file
from sparkcohort.runtime.text import counted

DEFAULT_ASSIGNOR: Final = "cooperative-sticky"

_EPILOG: Final = """\b
Examples:
  cohort simulate --group billing --members +2
                              two executors more: what moves?
  cohort simulate --group billing --members -executor-3 --compare
                              one less, under every assignor
  cohort simulate --group billing --partitions orders=48
  cohort simulate --group shop --bootstrap-server broker:9092 \\
      --command-config client.properties --assignor range
                              any Kafka consumer group
  cohort simulate --group billing --output case > case.json
  cohort simulate --input case.json --output json | jq .moved

\b
A case is JSON; racks, and all of a member but topics, may be left out:
  {"assignor": "cooperative-sticky",
   "topics": {"orders": 3},
   "racks": {"orders": [["a", "b"], ["b", "c"], ["c", "a"]]},
   "members": {"m1": {"topics": ["orders"], "owned": [["orders", 0]],
                      "generation": 5, "instance_id": null, "rack": "a",
                      "since": [["orders", 0, 4]],
                      "loads": [["orders", 0, 900.0, 65000.0, 12]]}}}
owned is what the member claims, generation when it got it (-1: none); since
has generations by partition; loads are records/s, bytes/s and backlog.

\b
moved     partitions that leave an owner that stays in the group
fewest    the fewest that must, for any complete and balanced assignment
pauses    rounds in which a partition has no owner: eager stops them all,
          cooperative only those that move (a Cohort group always does this)
Members added by number are new-1, new-2 … and subscribe as most others do;
range and roundrobin go by name: +executor-9 adds one under its own.
In JSON, assignment is the assignor's answer to this input, transferring the
partitions that it withholds until their owners have revoked them, and
settled the assignment after all rounds.
"""


@click.command("simulate", epilog=_EPILOG)
@click.option("--group", "group_id", metavar="GROUP", help="A live group: of a Cohort query on this host, or in Kafka.")
@printing.servers
@printing.config
@click.option("--input", "path", metavar="FILE", help="A case as JSON; - is standard input.")
@click.option("--members", multiple=True, metavar="CHANGE", help="+2, +2@RACK, +NAME or -NAME; may be repeated.")
@click.option("--partitions", multiple=True, metavar="TOPIC=N", help="Give a topic N partitions; may be repeated.")
@click.option(
    "--assignor",
    metavar="NAME",
    help="Another assignor than the group's or the case's; your own as package.module.Class.",
)
@click.option("--compare", "comparing", is_flag=True, help="All assignors in one table.")
@click.option(
    "--output",
    type=click.Choice(["table", "json", "case"]),
    default="table",
    show_default=True,
    help="How to print it; case prints the changed case, to be edited and given to --input.",
)
def simulate_command(
    group_id: str | None,
    servers: str | None,
    config: str | None,
    path: str | None,
    members: tuple[str, ...],
    partitions: tuple[str, ...],
    assignor: str | None,
    comparing: bool,
    output: str,
) -> None:
    """Show what an assignor would do to a group, without doing it.

    The group is a live one or a case in JSON; it can be changed first. With --bootstrap-server it is any Kafka
    consumer group: Kafka doesn't tell subscriptions, so its members are taken to want all topics that are assigned
    or have committed offsets.
    """
    if (group_id is None) == (path is None):
        raise click.UsageError("give either --group or --input.")
    if path is not None and (servers or config):
        raise click.UsageError("--bootstrap-server and --command-config go with --group, not with --input.")
    try:
        base = _read_case(path) if path is not None else _live_case(group_id or "", servers, config)
        case = change_members(change_partitions(base, partitions), members)
        if path and not assignor:
            _refuse_code(case.assignor)
        case = replace(case, assignor=assignor or case.assignor)
        case_view = views.CaseView(base, case, _title(base, case), views.names(base, case))
        if output == "case":
            click.echo(views.lines(as_value(case)))
        else:
            _run(case_view, comparing=comparing, live=not path and not assignor, output=output)
    except CaseError as error:
        raise Mistake(str(error)) from None
    except InvalidAssignment as error:
        raise CohortError(printable(str(error))) from None


def _refuse_code(word: str) -> None:
    """Raise CaseError for a case that names code to run: its author may be a stranger."""
    if re.search("[.:]", word) and not word.startswith(KAFKAS_PACKAGE):
        raise CaseError(f"assignor {word}: code is not run because a case names it; give --assignor {word}")


def _assignor_named(word: str) -> Assignor:
    """The assignor of this name: a built-in one, also by Kafka's class, or a user's own by entry point or dotted name.

    Raises CaseError.
    """
    try:
        (assignor,) = custom_assignors.load([assignor_name(word)]).values()
    except OptionError as error:
        option = f"option {custom_assignors.OPTION}"
        raise CaseError(str(error).replace(f"{option}=", "assignor ").replace(option, "assignor")) from None
    return assignor


def _case_assignor(case: Case, *, live: bool) -> tuple[Assignor, list[str]]:
    """The case's assignor, and a note if a live group's is unknown here.  Raises CaseError."""
    if not case.assignor and not live:
        raise CaseError(f"the case names no assignor: give --assignor, one of {', '.join(sorted(ASSIGNORS))}")
    try:
        return _assignor_named(case.assignor or DEFAULT_ASSIGNOR), []
    except CaseError:
        if not live:
            raise
        note = f"the group's assignor {case.assignor} is not known here: {DEFAULT_ASSIGNOR} is shown"
        return _assignor_named(DEFAULT_ASSIGNOR), [note]


def _run(case_view: views.CaseView, *, comparing: bool, live: bool, output: str) -> None:
    base, case = case_view.base, case_view.case
    notes = [*case.notes, *oddities(case.topics, case.members, OwnedPartitions(case.topics, case.members))]
    assignor, more = (None, []) if comparing and not case.assignor else _case_assignor(case, live=live)
    notes += more
    if comparing or assignor is None:
        own = {assignor.name: assignor} if assignor else {}
        outcomes = [simulate(base, case, each) for _, each in sorted((ASSIGNORS | own).items())]
        if output == "json":
            click.echo(views.compared_as_json(outcomes, notes))
        else:
            printing.print_view(views.comparison(case_view, outcomes, notes), "table")
        return
    outcome = simulate(base, case, assignor)
    if output == "json":
        click.echo(views.as_json(case_view, outcome, notes))
    else:
        printing.print_view(views.members(case_view, outcome, notes), "table")


# --- where a case comes from -----------------------------------------------------------------------------


def _live_case(group_id: str, servers: str | None, config: str | None) -> Case:
    if servers or config:
        return live_case.case_of_kafka(open_group(group_id, servers, config))
    try:
        return live_case.case_of_status(connection_file.describe(group_id))
    except CohortError as error:
        if error.error != "GROUP_ID_NOT_FOUND":
            raise
        raise CohortError(f"{error}; for any other Kafka group give --bootstrap-server", error.error) from None


def _read_case(path: str) -> Case:
    try:
        with click.open_file(path, "rb") as file:
            return parse(file.read(MOST_BYTES + 1))
    except (OSError, RuntimeError) as error:  # RuntimeError: standard input is closed
        raise Mistake(f"--input {path} can't be read: {getattr(error, 'strerror', None) or error}") from None


# --- words -----------------------------------------------------------------------------------------------


def _title(base: Case, case: Case) -> str:
    """``3 members, 6 partitions of 2 topics; 1 member more, 2 fewer, orders 12 -> 48``."""
    total = sum(case.topics.values())
    size = (
        f"{counted(len(case.members), 'member')}, {counted(total, 'partition')} of {counted(len(case.topics), 'topic')}"
    )
    added, removed = len(case.members.keys() - base.members.keys()), len(base.members.keys() - case.members.keys())
    changes = [f"{counted(added, 'member')} more"] * bool(added) + [f"{counted(removed, 'member')} fewer"] * bool(
        removed
    )
    changes += [
        f"{printable(topic)} {base.topics[topic]:,} -> {count:,}"
        for topic, count in sorted(case.topics.items())
        if base.topics[topic] != count
    ]
    return f"{size}; {', '.join(changes)}" if changes else size
