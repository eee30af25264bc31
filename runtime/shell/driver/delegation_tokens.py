"""Spark's settings for Kafka's delegation tokens, ``spark.kafka.clusters.*``: nothing of ours goes by them, which is said.

A Python source isn't told Spark's settings: they are looked for where the driver's JVM has them from, its command line and
the files that spark-submit reads.  Source: Spark's ``KafkaTokenSparkConf``, ``SparkSubmitArguments``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.driver import stream_process
from sparkcohort.runtime.shell.options import properties_file
from sparkcohort.runtime.text import printable

PREFIX: Final = "spark.kafka.clusters."
_LARGEST: Final = 1 << 20  # bytes of a command line or a file of settings


def warnings() -> list[str]:
    """One sentence where this application has such settings, with their names and the remedy; none of their values."""
    jvm = stream_process.driver_jvm()
    found = names(_command(jvm.pid) if jvm else (), os.environ)
    if not found:
        return []
    sentence = (
        f"{printable(', '.join(found))}: no effect on format(cohort), since librdkafka logs in by no delegation token; give "
        "this query a login of its own, by kafka.security.protocol with kafka.sasl.mechanism and kafka.sasl.jaas.config "
        "(SCRAM, PLAIN, OAUTHBEARER) or a client certificate: docs/operate/security.md"
    )
    return [sentence]


def names(command: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """The names of these settings on a JVM's command line and in the files that it and the environment name, in order."""
    told, files = set(), list(_defaults(environment))
    words = iter(command)
    for word in words:
        if word in ("--conf", "-c"):
            told.add(next(words, "").partition("=")[0])
        elif word.startswith("--conf="):
            told.add(word.removeprefix("--conf=").partition("=")[0])
        elif word.startswith("-D"):
            told.add(word.removeprefix("-D").partition("=")[0])
        elif word == "--properties-file":
            files = [Path(next(words, ""))]  # instead of the defaults
    for file in files:
        told |= _names_in(file)
    return sorted(name for name in told if name.startswith(PREFIX))


def _defaults(environment: Mapping[str, str]) -> Iterator[Path]:
    """Where spark-submit looks for settings."""
    if environment.get("SPARK_CONF_DIR"):
        yield Path(environment["SPARK_CONF_DIR"]) / "spark-defaults.conf"
    elif environment.get("SPARK_HOME"):
        yield Path(environment["SPARK_HOME"]) / "conf" / "spark-defaults.conf"


def _names_in(file: Path) -> set[str]:
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST:
            return set()
        return set(properties_file.read(str(file)))
    except (OSError, ValueError, OptionError):  # whoever needs it says so
        return set()


def _command(pid: int) -> list[str]:
    try:
        with Path(f"/proc/{pid}/cmdline").open("rb") as file:
            return [word.decode(errors="replace") for word in file.read(_LARGEST).split(b"\0")]
    except OSError:
        return []
