"""Numbers that Java's consumer takes and librdkafka doesn't: the nearest one and a warning, or an error.

Sources: the validators of Kafka's ``ConsumerConfig``; the ranges in librdkafka's CONFIGURATION.md, which stand in the rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options.kafka_settings import ROWS, UNKNOWN

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,100}")
_UNLIMITED: Final = {
    "connections.max.idle.ms": "0",  # never, which in Java is any negative number
    "receive.buffer.bytes": "0",  # the operating system's default
    "send.buffer.bytes": "0",
}
_FIRST, _LONGEST, _FIRST_DEFAULT = "reconnect.backoff.ms", "reconnect.backoff.max.ms", "100"


def fit_number(name: str, value: str) -> tuple[str, str]:
    """The nearest number that librdkafka takes, and a warning where it differs, else "".

    ``name`` is the user's.  Raises OptionError for a number that Java's consumer doesn't take either.
    """
    row = ROWS.get(name, UNKNOWN)
    if row.most is None or row.least is None:
        return value, ""
    text = value.strip()
    if not _WHOLE.fullmatch(text):
        raise OptionError(f"option kafka.{name}={value!r} is not a whole number")
    number = int(text)
    if number < 0 and name in _UNLIMITED and number >= row.javas_least:
        return _UNLIMITED[name], ""
    if number < row.javas_least:
        raise OptionError(f"option kafka.{name}={number} is out of bounds: at least {row.javas_least}")
    fits = min(max(number, row.least), row.most)
    if fits == number:
        return str(number), ""
    return str(fits), f"option kafka.{name}={number} counts as {fits}: librdkafka takes {row.least} to {row.most}"


def related(conf: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """librdkafka's settings with numbers changed that depend on each other, and the warnings about changes.

    Java waits for the lesser of the two backoffs where the first is greater, and for the first where only that is set
    (``CommonClientConfigs``).  It fetches at least one batch, however small ``fetch.max.bytes`` is.
    """
    settings, warnings = dict(conf), []
    if _FIRST in settings and _LONGEST not in settings:
        settings[_LONGEST] = settings[_FIRST]
    elif int(settings.get(_LONGEST, 3_600_000)) < int(settings.get(_FIRST, _FIRST_DEFAULT)):
        if _FIRST in settings:
            warnings.append(f"option kafka.{_FIRST}={settings[_FIRST]} counts as kafka.{_LONGEST}={settings[_LONGEST]}")
        settings[_FIRST] = settings[_LONGEST]
    least = conf.get("message.max.bytes", "1000000")  # librdkafka's default
    if "fetch.max.bytes" in settings and _WHOLE.fullmatch(least) and int(settings["fetch.max.bytes"]) < int(least):
        warnings.append(
            f"option kafka.fetch.max.bytes={settings['fetch.max.bytes']} counts as {least}: librdkafka takes no less than "
            "kafka.message.max.bytes"
        )
        settings["fetch.max.bytes"] = least
    return settings, warnings
