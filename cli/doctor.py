"""The command ``cohort doctor``.  Exit status 1 if a check failed, 2 for a mistake on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import click

from sparkcohort.cli import doctor_host as host
from sparkcohort.cli import doctor_kafka as kafka
from sparkcohort.cli import printing, views
from sparkcohort.cli.client_config import client_config
from sparkcohort.cli.diagnosis import FAILED, NOT_ASKED, Check, as_lines, as_view
from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options import properties_file

_EPILOG: Final = """\b
Examples:
  cohort doctor                             this host: Python, limits
  cohort doctor --option subscribe=orders --option group.id=billing \\
      --bootstrap-server broker:9092 --command-config client.properties
"""


@click.command("doctor", epilog=_EPILOG)
@click.option("--option", "pairs", multiple=True, metavar="KEY=VALUE", help="An option of the query; may be repeated.")
@printing.servers
@printing.config
@printing.output
def doctor_command(pairs: tuple[str, ...], servers: str | None, config: str | None, output: str) -> int:
    """Check what a query needs, without one: each line is a tick, or what to do.

    Exit status 1 if a check failed. Passwords belong in --command-config, where no list of processes shows them.
    """
    options = _pairs(pairs)
    checks = [*host.interpreters(), *host.archive(), host.descriptors(), *_of_kafka(options, servers, config)]
    checks.append(host.NO_EXECUTORS)
    if output == "table":
        for line in as_lines(checks):
            click.echo(views.printable(line))
        click.echo(_verdict(checks))
    else:
        printing.print_view(as_view(checks), output)
    return 1 if any(each.result == FAILED for each in checks) else 0


def _of_kafka(options: dict[str, str], servers: str | None, config: str | None) -> list[Check]:
    java = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    try:
        has_servers = "bootstrap.servers" in (properties_file.read(config) if config else {})
    except OptionError as error:
        raise click.ClickException(str(error)) from None
    if not servers and not java.get("bootstrap.servers") and not has_servers:
        remedy = "--bootstrap-server HOST:PORT, or --option kafka.bootstrap.servers=…"
        return [Check("brokers", NOT_ASKED, "not asked", remedy)]
    topics = [topic.strip() for topic in options.get("subscribe", "").split(",") if topic.strip()]
    return kafka.checks(client_config(servers, config, java), topics, options.get("group.id"))


def _pairs(texts: Iterable[str]) -> dict[str, str]:
    """Options by name.  Raises UsageError, which shows no value."""
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key.strip() or not equals:
            raise click.UsageError("--option takes KEY=VALUE", click.get_current_context())
        pairs[key.strip()] = value
    return pairs


def _verdict(checks: list[Check]) -> str:
    bad = sum(each.result == FAILED for each in checks)
    unasked = sum(each.result == NOT_ASKED for each in checks)
    more = f", {unasked} not asked" if unasked else ""
    return f"{len(checks)} checks, {bad} failed{more}"
