"""``cohort dashboards write`` and ``cohort rules write``: the files of ``sparkcohort.dashboards``, out of the installed wheel.

Without ``--force`` a file of other content is not overwritten.  Then no file is written, and the exit status is 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from sparkcohort import dashboards
from sparkcohort.runtime.errors import CohortError

_GROUP: Final = re.compile(r"[\w.:@/+ -]+")
_META: Final = re.compile(r"([.+])")

_DASHBOARDS_EPILOG: Final = """\b
Examples:
  cohort dashboards write .              cohort.json, to import into Grafana
  cohort dashboards write /etc/grafana/dashboards --force
"""

_RULES_EPILOG: Final = """\b
Examples:
  cohort rules write /etc/prometheus/rules
                              cohort.yml with alerts and recording rules, and
                              its tests: promtool test rules cohort_test.yml
  cohort rules write rules --group billing --group orders
                              for these groups only
  cohort rules write rules \\
      --runbooks https://wiki.example.com/cohort/runbooks
"""


def _local_folder(_context: click.Context, _parameter: click.Parameter, value: str) -> Path:
    """A path of this host.  A URI is refused, or a folder of that name would be made; it may contain a key."""
    if not value or "://" in value:
        raise click.BadParameter("give the path of a local folder")
    return Path(value)


_directory = click.argument("directory", metavar="DIR", callback=_local_folder)
_force = click.option("--force", is_flag=True, help="Overwrite files of other content.")


@click.group("dashboards", epilog=_DASHBOARDS_EPILOG, no_args_is_help=False)
def dashboards_command() -> None:
    """Dashboards for Grafana."""


@click.group("rules", epilog=_RULES_EPILOG, no_args_is_help=False)
def rules_command() -> None:
    """Alert and recording rules for Prometheus."""


@dashboards_command.command("write", epilog=_DASHBOARDS_EPILOG)
@_directory
@_force
def write_dashboards(directory: Path, force: bool) -> None:
    """Write the Grafana dashboard into DIR, which is made if it isn't there."""
    write_files({directory / dashboards.DASHBOARD: dashboards.text(dashboards.DASHBOARD)}, force=force)


@rules_command.command("write", epilog=_RULES_EPILOG)
@_directory
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Rules for this group.id only; repeatable.")
@click.option(
    "--runbooks", metavar="URL", help="Address of the page of the runbooks, for runbook_url; left out: no link."
)
@_force
def write_rules(directory: Path, groups: tuple[str, ...], runbooks: str | None, force: bool) -> None:
    """Write Prometheus' rules and their unit tests into DIR, which is made if it isn't there."""
    rules, tests = dashboards.text(dashboards.RULES), dashboards.text(dashboards.RULES_TEST)
    if groups:
        rules = rules.replace(dashboards.EVERY_GROUP, _selector(groups))
        tests = tests.replace(f'group="{dashboards.TESTED_GROUP}"', f'group="{groups[0]}"')
    if runbooks is not None:
        rules = rules.replace(dashboards.RUNBOOK, f"runbook_url: '{_address(runbooks)}")
    names = {dashboards.RULES: rules, dashboards.RULES_TEST: tests}
    write_files({directory / Path(name).name: text for name, text in names.items()}, force=force)


def _selector(groups: tuple[str, ...]) -> str:
    """PromQL's selector of these groups.  It is a regular expression in a string, so a dot is escaped twice."""
    for group in groups:
        if not _GROUP.fullmatch(group):
            raise click.BadParameter(
                f"{group!r} has characters that a rule can't name; leave --group out: the rules are then for every group",
                param_hint="--group",
            )
    names = "|".join(_META.sub(r"\\\\\1", group) for group in groups)
    return f'group=~"{names}"'


def _address(url: str) -> str:
    if not re.fullmatch(r"[\w.~:/?&=%+@,-]+", url):
        raise click.BadParameter(f"{url!r} is no address of a page, without # and spaces", param_hint="--runbooks")
    return url


def write_files(texts: Mapping[Path, str], *, force: bool) -> None:
    """Write all of these files, or none if one has other content, and print their names.  Raises CohortError."""
    try:
        if not force:
            paths = [path for path, text in texts.items() if path.exists() and path.read_bytes() != text.encode()]
            if paths:
                raise CohortError(f"{paths[0]} is there with other content: --force overwrites it; nothing was written")
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CohortError(f"can't write {error.filename}: {error.strerror}") from error
    for path in texts:
        click.echo(f"wrote {path}")
