"""``cohort describe``: a group's offsets, members or state, of live runs on this host."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import click

from sparkcohort.cli import printing, views
from sparkcohort.cli.live_runs import ask_runs, status_of
from sparkcohort.runtime.shell.rpc.connection_file import Connection
from sparkcohort.runtime.text import counted

Row = Mapping[str, Any]
Key = Callable[[Row], Any]

SORTS: Final[Mapping[str, Key]] = {
    "partition": lambda row: (row["topic"], row["partition"]),
    "lag": lambda row: 1 if row["lag"] is None else -row["lag"],
    "age": lambda row: 1 if row["lag_seconds"] is None else -row["lag_seconds"],
    "member": lambda row: (row["client_id"] or "", row["topic"], row["partition"]),
}
"""The largest lag and age come first, unknown ones last."""

_EPILOG: Final = """\b
Examples:
  cohort describe                                   all live groups of this host
  cohort describe --group billing --sort lag        the partitions that are furthest behind first
  cohort describe --group billing --topic orders --min-lag 1000
  cohort describe --group billing --member executor-3 --verbose
  cohort describe --group billing --members --verbose
  cohort describe --state --output json | jq '.[].state'
  cohort describe --whole | jq '.[].problems'       what is wrong, as the page shows it
"""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The rows of a group to show, and their order; empty and None: all rows."""

    topics: tuple[str, ...]
    member: str | None
    min_lag: int | None
    sort: str

    def partitions(self, rows: views.Items) -> views.Items:
        """Of the partitions, in their order."""
        return sorted(sorted(filter(self._partition, rows), key=SORTS["partition"]), key=SORTS[self.sort])

    def members(self, rows: views.Items) -> views.Items:
        """Of the members."""
        return filter(self._member, rows)

    def _partition(self, row: Row) -> bool:
        enough = self.min_lag is None or row["lag"] is None or row["lag"] >= self.min_lag
        return enough and (not self.topics or row["topic"] in self.topics) and self._matches_member(row)

    def _member(self, row: Row) -> bool:
        owns = not self.topics or any(each["topic"] in self.topics for each in row["current_assignment"])
        return owns and self._matches_member(row)

    def _matches_member(self, row: Row) -> bool:
        return self.member is None or self.member in (row["consumer_id"], row["client_id"])


@click.command("describe", epilog=_EPILOG)
@printing.group
@click.option("--members", is_flag=True, help="List the members instead of the partitions.")
@click.option("--state", is_flag=True, help="Show the group's state instead of its partitions.")
@click.option("--verbose", is_flag=True, help="More columns.")
@click.option("--whole", is_flag=True, help="Print the whole document, which the page shows, as JSON.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be given several times.")
@click.option("--member", metavar="MEMBER", help="Only what this CONSUMER-ID or CLIENT-ID owns.")
@click.option("--min-lag", type=click.IntRange(min=0), metavar="N", help="Only partitions at least N records behind.")
@click.option("--sort", type=click.Choice([*SORTS]), help="The order of the partitions; lag and age: largest first.")
@printing.output
def describe_command(
    group_id: str | None,
    members: bool,
    state: bool,
    verbose: bool,
    whole: bool,
    topics: tuple[str, ...],
    member: str | None,
    min_lag: int | None,
    sort: str | None,
    output: str,
) -> None:
    """Show a group: committed offsets, lag, and which executor owns what.

    The columns are those of kafka-consumer-groups --describe.  CLIENT-ID names the Spark executor.
    """
    context = click.get_current_context()
    if members and state:
        raise click.UsageError("--members and --state exclude each other.", context)
    if (members or state) and (min_lag is not None or sort is not None):
        raise click.UsageError("--min-lag and --sort are for partitions: not with --members or --state.", context)
    if state and (topics or member):
        raise click.UsageError("--topic and --member are not for --state.", context)
    if whole:
        if members or state or verbose or topics or member or min_lag is not None or sort is not None:
            raise click.UsageError("--whole goes with --group only.", context)
        documents, failures = ask_runs(group_id, status_of)
        click.echo(json.dumps(documents, indent=2))
        return printing.print_answers((), failures, output)
    table = "members" if members else "state" if state else "offsets"
    row_filter = RowFilter(topics, member, min_lag, sort or "partition")
    answers, failures = ask_runs(group_id, lambda run: _run_view(run, status_of(run), table, verbose, row_filter))
    return printing.print_answers(answers, failures, output)


def _run_view(run: Connection, status: dict[str, Any], table: str, verbose: bool, row_filter: RowFilter) -> views.View:
    if table == "state":
        view = views.state(status, f"127.0.0.1:{run.run.port}", verbose=verbose)
    else:
        view = _table(status, table, verbose, row_filter)
    page = (f"{status['group']}, live page: {run.page}",) if run.page else ()
    return replace(view, notes=views.notes(status), totals=(*views.batch(status), *view.totals, *page))


def _table(status: dict[str, Any], table: str, verbose: bool, row_filter: RowFilter) -> views.View:
    if table == "members":
        view = views.members(status, verbose=verbose, select=row_filter.members)
        rows = list(view.objects or ())
        owned = counted(sum(row["partitions"] for row in rows), "partition")
        return replace(view, totals=(f"{_head(status, 'members', len(rows))}, {owned}",))
    view = views.offsets(status, verbose=verbose, select=row_filter.partitions)
    rows = list(view.objects or ())
    lags = [row["lag"] for row in rows]
    ages = [row["lag_seconds"] for row in rows if row["lag_seconds"] is not None]
    unknown = lags.count(None)
    parts = [_head(status, "partitions", len(rows)), f"{counted(sum(filter(None, lags)), 'record')} behind"]
    parts += [f"the oldest since {views.duration(1000 * max(ages))}"] if ages and max(ages) > 0 else []
    parts += [f"the lag of {unknown} not known"] if unknown else []
    return replace(view, totals=(", ".join(parts),))


def _head(status: Mapping[str, Any], key: str, count: int) -> str:
    total = len(status[key])
    rows = counted(count, key[:-1]) if count == total else f"{count} of {counted(total, key[:-1])}"
    return f"{status['group']}, {status['state']}: {rows}"
