"""The session's configuration, checked in a task: Spark passes it as local properties of the job.

PySpark's processes on the driver don't get it; where the JVM reads, its jar says it there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.values.columns import Field
from sparkcohort.runtime.values.formats import UTC, Format
from sparkcohort.runtime.values.types import walk

if TYPE_CHECKING:
    from sparkcohort.runtime.shell.options.source_options import SourceOptions
    from sparkcohort.runtime.values.columns import Columns

ZONE, KIND = "spark.sql.session.timeZone", "spark.sql.timestampType"
DISALLOWED: Final = "spark.sql.kafka.disallowedOptions"
_UTC_NAMES: Final = (UTC, "Etc/UTC", "Z", "GMT", "Etc/GMT", "Etc/UCT", "Zulu", "+00:00", "UTC+00:00", "GMT+00:00")


def local_property(name: str) -> str:
    """A local property of this task's job, "" where it has none."""
    context = TaskContext.get()
    return (context.getLocalProperty(name) if context else None) or ""


def check_session(options: SourceOptions, setting: Callable[[str], str | None] = local_property) -> None:
    """Raises OptionError for an option that this session disallows, or a timestamp that its ``from_json`` reads differently."""
    if listed := setting(DISALLOWED):
        from sparkcohort.runtime.shell.options.disallowed import check_allowed  # noqa: PLC0415  with the tables of options

        check_allowed(options.kafka_names, listed)
    _check_timestamps(options.columns, setting)


def _check_timestamps(columns: Columns, setting: Callable[[str], str | None]) -> None:
    """Raises OptionError where ``from_json`` in this session would read a timestamp of these columns differently."""
    for column in columns:
        decoding = column.decoding
        if decoding.format is not Format.JSON or column.field not in (Field.KEY, Field.VALUE):
            continue
        part = column.field.name.lower()
        if decoding.bare_timestamps and (setting(KIND) or "").upper() == "TIMESTAMP_NTZ":
            raise OptionError(
                f"option {part}.schema: TIMESTAMP is TIMESTAMP_NTZ in this session ({KIND}), and TIMESTAMP_LTZ here: write one "
                "of these"
            )
        if decoding.timezone or all(kind.kind != "timestamp" for _, kind in walk(column.type)):
            continue
        zone = setting(ZONE)
        if zone not in _UTC_NAMES if zone else time.timezone or time.daylight:
            zone_name = zone or "that of this host"
            raise OptionError(
                f"option {part}.timezone: the session's time zone is {zone_name} ({ZONE}), and a TIMESTAMP whose text names no zone "
                f"would be read as UTC: set {part}.timezone to {zone or 'the zone of these timestamps'}, or to UTC"
            )
