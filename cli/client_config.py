"""The settings of a Kafka client from ``--bootstrap-server`` and ``--command-config``."""

from __future__ import annotations

from collections.abc import Mapping

import click

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options import properties_file
from sparkcohort.runtime.shell.options.kafka_translate import translate


class Mistake(click.ClickException):
    """A setting or an input that is refused; one line, exit status 2."""

    exit_code = 2


def client_config(servers: str | None, config: str | None, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The client's settings under librdkafka's names.

    ``more`` are a query's own, under Java's names.  Raises Mistake, which names the setting and never its value.
    """
    try:
        properties = properties_file.read(config) if config else {}
    except OptionError as error:
        raise Mistake(str(error)) from None
    properties |= more or {}
    if servers:
        properties["bootstrap.servers"] = servers
    if not properties.get("bootstrap.servers"):
        raise Mistake("give --bootstrap-server HOST:PORT (or bootstrap.servers in --command-config)")
    try:
        conf, warnings = translate({name: value for name, value in properties.items() if name != "group.id"})
    except OptionError as error:
        raise Mistake(f"--command-config {config}: {error}" if config else str(error)) from None
    for warning in warnings:
        click.echo(f"cohort: {warning}", err=True)
    return conf | {"bootstrap.servers": ",".join(map(str.strip, conf["bootstrap.servers"].split(",")))}
