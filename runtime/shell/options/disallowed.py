"""An operator's list of Kafka's settings that no query may give: ``spark.sql.kafka.disallowedOptions`` (SPARK-59328, after Spark 4.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options.kafka_settings import ROWS, UNKNOWN, Fate
from sparkcohort.runtime.shell.options.table import KAFKA_ALIASES

SETTING: Final = "spark.sql.kafka.disallowedOptions"
ERROR: Final = "KAFKA_DISALLOWED_OPTION"


def kafka_names(keys: Iterable[str]) -> tuple[str, ...]:
    """The keys (in lower case) of Kafka's settings, with ``kafka.`` or, where both forms exist, without."""
    return tuple(sorted(key for key in keys if key.startswith("kafka.") or key in KAFKA_ALIASES))


def check_allowed(options: Iterable[str], listed: str) -> None:
    """Raises OptionError (KAFKA_DISALLOWED_OPTION) for the first of these that is listed, by any of its names.

    ``listed``: Kafka's names, comma-separated.  Spark refuses names with ``kafka.`` in the list; here they are equal.
    """
    denied = {
        alias for name in listed.split(",") if name.strip() for alias in _names(name.strip().lower(), translated=True)
    }
    for option in options:
        if denied & _names(option, translated=False):
            raise OptionError(
                f"{ERROR}: option {option} is not allowed: {SETTING} names it, the list of this Spark's operator; leave it out",
                ERROR,
            )


def _names(name: str, *, translated: bool) -> set[str]:
    """The names of a setting, Java's and librdkafka's; with ``translated`` also those of settings that are made of it."""
    name = name.removeprefix("kafka.")
    row = ROWS.get(name, UNKNOWN)
    return {name, row.alias_of or name, *(row.becomes if translated or row.fate is Fate.RENAMED else ())}
