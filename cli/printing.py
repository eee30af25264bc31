"""Shared by all commands: common options, and the printing of views by ``--output``."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Final

import click

from sparkcohort.cli import views
from sparkcohort.runtime.errors import CohortError

group = click.option("--group", "group_id", metavar="GROUP", help="The group.id; default: every live group.")

output = click.option(
    "--output",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="How to print it; JSON is a list of one object a row, CSV has the table's columns.",
)

servers = click.option("--bootstrap-server", "servers", metavar="HOST:PORT", help="The Kafka broker to ask.")
config = click.option(
    "--command-config", "config", metavar="FILE", help="Properties of the Kafka client, security included."
)

FAIL_ABOVE: Final = 3
"""Exit status when ``--fail-above`` is exceeded."""


def print_stderr(line: str) -> None:
    """Print a line on standard error, without control characters of a checkpoint or a broker."""
    click.echo(views.printable(line), err=True)


def print_view(view: views.View, kind: str) -> None:
    """Print it as a table, JSON or CSV; its notes go to standard error."""
    for note in view.notes:
        print_stderr(note)
    if kind == "json":
        click.echo(views.as_json(view))
    elif kind == "csv":
        click.echo(views.as_csv(view), nl=False)
    else:
        _print_table(view)


def print_answers(answers: Sequence[views.View], failures: Sequence[str], kind: str) -> None:
    """Print the views of several runs as one.  Raises CohortError, afterwards, if others failed."""
    if answers:
        print_view(views.join_views(answers), kind)
    if failures:
        raise CohortError("; ".join(failures))


def _print_table(view: views.View) -> None:
    for line in view.heading:
        click.echo(views.printable(line))
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        view = views.for_terminal(view, width)
        click.echo(views.render(view, width))
    else:
        click.echo(views.as_text(view))
    for line in view.totals:
        click.echo(views.printable(line))
