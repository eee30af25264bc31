"""Settings of a Kafka client from ``--bootstrap-server`` and ``--command-config``."""

from __future__ import annotations

import click

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options import properties_file
from sparkcohort.runtime.shell.options.kafka_settings.translate import translate


def client_config(servers: str, config: str | None) -> dict[str, str]:
    """Settings in librdkafka's words.  Raises OptionError naming a setting that is refused, never its value."""
    given = properties_file.read(config) if config else {}
    try:
        conf, warnings = translate({name: value for name, value in given.items() if name != "group.id"})
    except OptionError as error:
        raise OptionError(f"--command-config {config}: {error}") from None
    for warning in warnings:
        click.echo(f"cohort: {warning}", err=True)
    return {**conf, "bootstrap.servers": servers}
