"""Printing a view as table, JSON or csv, for the commands that are imported when they are asked for."""

from __future__ import annotations

import csv
import sys
from io import StringIO
from typing import Final

import click
from rich.console import Console

from sparkcohort.runtime.shell.cli import views
from sparkcohort.runtime.shell.cli.views import View

FORMS: Final = ("table", "json", "csv")

output_option = click.option(
    "--output", type=click.Choice(FORMS), default="table", show_default=True, help="How to print it."
)


def say(view: View, output: str) -> None:
    """Print it; its notes go to standard error."""
    for note in view.notes:
        click.echo(views.printable(note), err=True)
    if output == "json":
        click.echo(views.as_json(view))
    elif output == "csv":
        click.echo(_as_csv(view), nl=False)
    elif sys.stdout.isatty() and view.rows:
        console = Console()
        console.print(views.as_table(view) if views.fits(view, console.width) else views.as_blocks(view))
    else:
        click.echo(views.as_text(view))


def _as_csv(view: View) -> str:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(view.columns)
    writer.writerows([["" if cell is None else views.printable(str(cell)) for cell in row] for row in view.rows])
    return text.getvalue()
