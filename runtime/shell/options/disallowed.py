"""An operator's list of Kafka's settings that no query may give: ``spark.sql.kafka.disallowedOptions`` (SPARK-59328, after Spark 4.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options.kafka_settings.rows import ROWS, UNKNOWN, Fate
from sparkcohort.runtime.shell.options.table import KAFKA_ALIASES

SETTING: Final = "spark.sql.kafka.disallowedOptions"
ERROR: Final = "KAFKA_DISALLOWED_OPTION"


def kafka_names(keys: Iterable[str]) -> tuple[str, ...]:
    """Which options, by their keys in lower case, are Kafka's settings; also those that are written without ``kafka.``, too."""
    return tuple(sorted(key for key in keys if key.startswith("kafka.") or key in KAFKA_ALIASES))


def check_allowed(options: Iterable[str], listed: str) -> None:
    """Raises OptionError (KAFKA_DISALLOWED_OPTION) for the first of these that is listed, by any of its names.

    ``listed``: Kafka's names without ``kafka.``, comma-separated.  Spark refuses a list with that prefix; here it makes no difference.
    """
    denied = {
        alias for name in listed.split(",") if name.strip() for alias in _names(name.strip().lower(), translated=True)
    }
    for option in options:
        if denied & _names(option, translated=False):
            raise OptionError(
                f"{ERROR}: option {option} is not allowed: {SETTING} names it, which is set by whoever runs this Spark; leave it out",
                ERROR,
            )


def _names(name: str, *, translated: bool) -> set[str]:
    """What a setting is called, by Java and by librdkafka; with what becomes of it together with others, if ``translated``."""
    name = name.removeprefix("kafka.")
    row = ROWS.get(name, UNKNOWN)
    return {name, row.alias_of or name, *(row.becomes if translated or row.fate is Fate.RENAMED else ())}
