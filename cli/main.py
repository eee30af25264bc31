"""The command ``cohort``: what the live groups on this host are doing.

It finds coordinators by their connection files (see ``connection_file``), so it runs on the driver's host as the driver's
user.  Exit status 0; 1 if there is no answer; 2 for a mistake on the command line.  An error is one line on standard
error, never a traceback.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, NoReturn

import click

from sparkcohort.cli import printing, rebalance_views, views
from sparkcohort.cli.live_runs import ask_runs, find_runs, status_of
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.group.summary import runs
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.shell.rpc import connection_file
from sparkcohort.runtime.shell.rpc.connection_file import Connection
from sparkcohort.streaming.installation import jar_path

DEFAULT_LAST: Final = 20
UNREACHABLE: Final = "unreachable"
"""The state of a group whose driver doesn't answer."""

_EPILOG: Final = """\b
Examples:
  cohort groups                            which groups run on this host
  cohort describe                          offsets, lag and owners of all of them
  cohort describe --group billing          of one group
  cohort describe --state --output json | jq '.[].state'
  cohort lag --group billing               how far behind, and whether it grows
  cohort rebalances --group billing        the last rebalances: when, why, how long, what moved
  cohort story executor-3                  what happened to a member
  cohort doctor --bootstrap-server broker:9092
                                           what a query needs, checked without one
"""

_GROUPS_EPILOG: Final = """\b
Examples:
  cohort groups                                       the live groups of this host
  cohort groups --output json | jq '.[] | select(.lag > 10000)'
"""

_REBALANCES_EPILOG: Final = """\b
Examples:
  cohort rebalances --last 5
  cohort rebalances --group billing --show -1       the latest one, member by member
  cohort rebalances --group billing --show 1042     the one that began generation 1042
  cohort rebalances --output json | jq '.[] | select(.result != "ok")'
"""

_STORY_EPILOG: Final = """\b
Examples:
  cohort story executor-3 --group billing           the latest member of that executor
  cohort story executor-3-9f2c-17                   one member, by its CONSUMER-ID
"""

_JAR_EPILOG: Final = """\b
Examples:
  spark-submit --jars "$(cohort jar)" job.py        the JVM reads the rows
"""

LAZY: Final = {
    "checkpoint": "sparkcohort.cli.checkpoint.subcommands:checkpoint_command",
    "dashboards": "sparkcohort.cli.monitoring:dashboards_command",
    "describe": "sparkcohort.cli.describe:describe_command",
    "doctor": "sparkcohort.cli.doctor:doctor_command",
    "lag": "sparkcohort.cli.lag:lag_command",
    "handover": "sparkcohort.cli.handover:handover_command",
    "reset-offsets": "sparkcohort.cli.reset_offsets:reset_command",
    "rules": "sparkcohort.cli.monitoring:rules_command",
    "simulate": "sparkcohort.cli.simulate.command:simulate_command",
    "sink": "sparkcohort.cli.sink:sink_command",
}
"""Commands that import the Kafka client or more: each is imported when it is called."""


def _silence_output() -> None:
    """Stop all output.  At its last flush Python would report the closed pipe, and change the exit status."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


@contextmanager
def _ending_with_the_reader() -> Iterator[None]:
    """End with status 0 if the pipe's reader has gone, unless something else has failed; click's ``main`` would fail.

    So a command that changes something does all of it before it prints.
    """
    try:
        yield
    except BrokenPipeError as error:
        _silence_output()
        raise error.__context__ or click.exceptions.Exit(0) from None


class _Commands(click.Group):
    """The commands, those of ``LAZY`` too."""

    @_ending_with_the_reader()
    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the command line; --help prints."""
        return super().make_context(info_name, args, parent, **extra)

    @_ending_with_the_reader()
    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, sorted."""
        return sorted({*super().list_commands(ctx), *LAZY})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        if cmd_name not in LAZY:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = LAZY[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


@click.group(
    cls=_Commands,
    epilog=_EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="sparkcohort", prog_name="cohort")
@click.pass_context
def cli(context: click.Context) -> None:
    """Look at the live consumer groups of Spark queries that read format('cohort').

    Run it on the driver's host, as the driver's user.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@cli.command("groups", epilog=_GROUPS_EPILOG)
@printing.output
def groups_command(output: str) -> None:
    """List the live groups on this host, and those of other hosts and containers that share its COHORT_HOME."""
    elsewhere = list(connection_file.elsewhere())
    rows = [_listed_row(run, "elsewhere") for run in elsewhere]
    for run in connection_file.live() if elsewhere else find_runs():
        try:
            rows.append(_listed_row(run, status_of(run)))
        except CohortError:
            rows.append(_listed_row(run, UNREACHABLE))
    printing.print_view(views.groups(sorted(rows, key=lambda row: row[:2])), output)


def _listed_row(run: Connection, status: dict[str, Any] | str) -> tuple[str, str, int, str, dict[str, Any] | str]:
    return (run.group_id, run.instance_id, run.pid, run.place.host, status)


@cli.command(epilog=_REBALANCES_EPILOG)
@printing.group
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="The last N; default 20, at most 200.")
@click.option(
    "--show", type=int, metavar="N", help="Each member's partitions before and after generation N; -1: the latest."
)
@printing.output
def rebalances(group_id: str | None, last: int | None, show: int | None, output: str) -> None:
    """List the last rebalances of a live group, newest last."""
    if last is not None and show is not None:
        raise click.UsageError("--last and --show exclude each other.", click.get_current_context())
    if show is not None:
        _print_rebalance(group_id, show, output)
        return

    def listed(run: Connection) -> views.View:
        question = calls.RebalancesRequest(last=last or DEFAULT_LAST)
        done = connection_file.ask(run, "Rebalances", calls.encode(question))["rebalances"]
        return rebalance_views.rebalances(run.group_id, done, time.time())

    printing.print_answers(*ask_runs(group_id, listed), output)


@cli.command("story", epilog=_STORY_EPILOG)
@click.argument("member")
@printing.group
@printing.output
def member_timeline(member: str, group_id: str | None, output: str) -> None:
    """Print what happened to MEMBER: a CONSUMER-ID, or a CLIENT-ID such as executor-3 (then its latest member)."""
    question = calls.encode(calls.StoryRequest(member))
    answers, failures = ask_runs(group_id, lambda run: connection_file.ask(run, "Story", question))
    stories = [rebalance_views.member_timeline(item) for item in answers if "lines" in item]
    if answers and not stories:
        members = [f"{name} ({client or '-'})" for item in answers for name, client in item["known"]]
        failures.append(f"no member {member} is known; known are {', '.join(members) or 'none'}")
    printing.print_answers(stories, failures, output)


def _print_rebalance(group_id: str | None, generation: int, output: str) -> None:
    """Print one rebalance of each run that has it."""
    question = calls.encode(calls.RebalancesRequest(show=generation))
    answers, failures = ask_runs(group_id, lambda run: (run.group_id, connection_file.ask(run, "Rebalances", question)))
    now = time.time()
    tables = [rebalance_views.rebalance(name, item, now) for name, item in answers if "assignments" in item]
    if not tables:
        failures += [
            f"group {name}: no rebalance {generation} is known; known are generations "
            f"{runs(sorted(item['known'])) or 'none'}"
            for name, item in answers
        ]
    printing.print_answers(tables, failures, output)


def _exit(message: str, status: int) -> NoReturn:
    try:
        printing.print_stderr(f"cohort: {' '.join(message.split())}")
    except BrokenPipeError:
        _silence_output()
    sys.exit(status)


@cli.command("jar", epilog=_JAR_EPILOG)
def jar_command() -> None:
    """Print where Cohort's jar is, for --jars and spark.jars."""
    click.echo(jar_path())


def run_command(command: Callable[[], object]) -> NoReturn:
    """Call ``command``, and end the process with its status and at most one line of error."""
    try:
        result = command()
    except click.UsageError as error:
        hint = f" (see '{error.ctx.command_path} --help')" if error.ctx else ""
        _exit(f"{error.format_message()}{hint}", 2)
    except click.ClickException as error:
        _exit(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _exit("interrupted", 130)
    except CohortError as error:
        _exit(str(error), 1)
    except Exception as error:  # noqa: BLE001  a mistake of ours is still one line
        _exit(f"internal error: {type(error).__name__}: {error}", 1)
    sys.exit(result if isinstance(result, int) else 0)


def main() -> NoReturn:
    """The entry point of the command."""
    run_command(lambda: cli(prog_name="cohort", standalone_mode=False))


if __name__ == "__main__":
    main()
