"""Spark's settings, which a Python source on the driver doesn't get.

They are looked for where the driver's JVM has them from, its command line and the files that spark-submit reads.  Source: Spark's
``SparkSubmitArguments``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options import properties_file
from sparkcohort.runtime.shell.rpc.executor import NoExecutor, find_executor
from sparkcohort.runtime.text import printable

_LARGEST: Final = 1 << 20  # bytes of a command line or a file of settings


def of_application() -> dict[str, str]:
    """The settings of this application, as far as they can be found."""
    try:
        command = _command(find_executor().pid)
    except NoExecutor:
        command = []
    return of_command(command, os.environ)


def of_command(command: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The settings on a JVM's command line and, where they aren't on it, in the files that it and the environment name."""
    arguments: dict[str, str] = {}
    files = list(_defaults(environment))
    words = iter(command)
    for word in words:
        setting = ""
        if word in ("--conf", "-c"):
            setting = next(words, "")
        elif word.startswith(("--conf=", "-D")):
            setting = word.removeprefix("--conf=").removeprefix("-D")
        elif word == "--properties-file":
            files = [Path(next(words, ""))]  # instead of the defaults
        if setting:
            name, _, value = setting.partition("=")
            arguments[name] = value
    settings: dict[str, str] = {}
    for source in (*map(_read, files), arguments):
        settings |= source
    return settings


def token_warnings(settings: Iterable[str]) -> list[str]:
    """One sentence where an application's settings are for delegation tokens (``KafkaTokenSparkConf``), without their values."""
    names = sorted(name for name in settings if name.startswith("spark.kafka.clusters."))
    sentence = (
        f"{printable(', '.join(names))}: no effect on format(cohort), since librdkafka logs in by no delegation token; give "
        "this query a login of its own, by kafka.security.protocol with kafka.sasl.mechanism and kafka.sasl.jaas.config "
        "(SCRAM, PLAIN, OAUTHBEARER) or a client certificate: docs/operate/logins.md"
    )
    return [sentence] if names else []


def _defaults(environment: Mapping[str, str]) -> Iterator[Path]:
    """Where spark-submit looks for settings."""
    if environment.get("SPARK_CONF_DIR"):
        yield Path(environment["SPARK_CONF_DIR"]) / "spark-defaults.conf"
    elif environment.get("SPARK_HOME"):
        yield Path(environment["SPARK_HOME"]) / "conf" / "spark-defaults.conf"


def _read(file: Path) -> dict[str, str]:
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST:
            return {}
        return properties_file.read(str(file))
    except (OSError, ValueError, OptionError):  # the reader of the setting raises it
        return {}


def _command(pid: int) -> list[str]:
    try:
        with Path(f"/proc/{pid}/cmdline").open("rb") as file:
            return [word.decode(errors="replace") for word in file.read(_LARGEST).split(b"\0")]
    except OSError:
        return []
