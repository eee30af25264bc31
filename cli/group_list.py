"""``cohort groups``: the live groups of this host or, from any host, those of a Kafka cluster."""

from __future__ import annotations

from typing import Any, Final

import click

from sparkcohort.cli import kafka_status, printing, views
from sparkcohort.cli.kafka_group import GroupListing, open_group
from sparkcohort.cli.live_runs import find_runs, status_of
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.rpc import connection_file
from sparkcohort.runtime.shell.rpc.connection_file import Connection

KAFKAS: Final = ("GROUP", "STATE", "#MEMBERS", "ASSIGNMENT-STRATEGY", "COORDINATOR (ID)", "COHORT-DRIVER")
UNREACHABLE: Final = "unreachable"
"""The state of a group whose coordinator, the driver or a broker, doesn't answer."""

_EPILOG: Final = """\b
Examples:
  cohort groups                                       the live groups of this host
  cohort groups --bootstrap-server broker:9092        all groups of the cluster, and whose driver is in them
  cohort groups --output json | jq '.[] | select(.lag > 10000)'
"""


@click.command("groups", epilog=_EPILOG)
@printing.servers
@printing.config
@printing.output
def groups_command(servers: str | None, config: str | None, output: str) -> None:
    """List the live groups on this host, and those of other hosts and containers that share its COHORT_HOME.

    With --bootstrap-server: all consumer groups of that cluster.  COHORT-DRIVER is where the driver of a Cohort query runs.
    """
    if servers or config:
        printing.print_view(_of_kafka(open_group("", servers, config).every_group()), output)
        return
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


def _of_kafka(listing: GroupListing) -> views.View:
    rows: list[views.Row] = [
        (
            each.group_id,
            kafka_status.state_of(each),
            len(each.members),
            each.partition_assignor or None,
            f"{each.coordinator.host}:{each.coordinator.port} ({each.coordinator.id})",
            next((member.host for member in each.members if kafka_status.is_driver(member)), None),
        )
        for each in listing.described
    ]
    rows += [(name, UNREACHABLE, None, None, None, None) for name in listing.silent]
    in_order = tuple(sorted(rows, key=lambda row: str(row[0])))
    return views.View(KAFKAS, in_order, narrow=("COORDINATOR (ID)", "ASSIGNMENT-STRATEGY"), notes=_omissions(listing))


def _omissions(listing: GroupListing) -> tuple[str, ...]:
    """A note for each kind of group that the list lacks, so that nobody takes it for complete."""
    notes = [f"a broker has not listed its groups, which are left out: {reason}" for reason in listing.unlisted]
    if listing.denied:
        notes.append(f"groups that are left out, since this user may not describe them: {listing.denied:,}")
    return tuple(notes)
