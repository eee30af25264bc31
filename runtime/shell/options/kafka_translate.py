"""``kafka.*`` options as librdkafka's settings: translated, accepted with a warning, or refused by name.

A number that Java's consumer takes and librdkafka doesn't becomes the nearest one, with a warning.  Sources: the validators of
Kafka's ``ConsumerConfig``; the ranges in librdkafka's CONFIGURATION.md, which stand in the rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options import client_defaults, security_settings, tls_settings, token_settings
from sparkcohort.runtime.shell.options.kafka_settings import (
    BEGINNINGS,
    ROWS,
    SETTINGS,
    UNKNOWN,
    Fate,
    KafkaSetting,
)

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,100}")
_UNLIMITED: Final = {
    "connections.max.idle.ms": "0",  # never, which in Java is any negative number
    "receive.buffer.bytes": "0",  # the operating system's default
    "send.buffer.bytes": "0",
}
_FIRST, _LONGEST, _FIRST_DEFAULT = "reconnect.backoff.ms", "reconnect.backoff.max.ms", "100"


def translate(java: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """librdkafka's settings for these options (without ``kafka.``), and the warnings about them.

    Raises OptionError, which names the option that is refused, unknown or malformed.
    """
    conf, warnings = in_librdkafkas_words(java)
    conf.setdefault("isolation.level", client_defaults.ISOLATION)
    warnings += [
        f"option kafka.{name} is shown whole by df.explain(True) and in Spark's UI, whose default redaction does not know "
        "it: set spark.redaction.regex and spark.sql.redaction.options.regex as conf/spark-defaults.conf has them"
        for name in security_settings.shown_by_spark(java)
    ]
    if java:
        from sparkcohort.runtime.shell.options.kafka_check import check  # noqa: PLC0415  imports the Kafka client

        warnings += check(conf, java)
    return conf, warnings


def in_librdkafkas_words(java: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """librdkafka's settings by the table alone, and the warnings about options without effect.

    A setting of its own takes precedence over one that is made of a store or a login.
    """
    own: dict[str, str] = {}
    translated: dict[str, str] = {}
    warnings: list[str] = []
    for name, value in java.items():
        row = _row(name)
        if value.strip().lower() in row.harmless:
            continue
        if row.fate is Fate.REFUSED:
            raise OptionError(f"option kafka.{name} is not supported: {row.reason}")
        if row.fate is Fate.NO_EFFECT:
            warnings.append(f"option kafka.{name} has no effect: {row.reason}")
        elif row.fate is Fate.TRANSLATED:
            translated[name] = value
        elif row.fate is not Fate.DROPPED:
            fits, warning = fit_number(name, value)
            warnings += [warning] if warning else []
            _set_value(own, row.becomes[0] if row.fate is Fate.RENAMED else name, _value(name, fits))
    fitting, more = related(own)
    return token_settings.completed(security_settings.stores_and_login(translated) | fitting), [*warnings, *more]


def _row(name: str) -> KafkaSetting:
    """The row of a name, its own or that of its beginning (``BEGINNINGS``)."""
    return ROWS.get(name) or next((row for begin, row in BEGINNINGS.items() if name.startswith(begin)), UNKNOWN)


def _set_value(conf: dict[str, str], name: str, value: str) -> None:
    if conf.get(name, value) != value:
        names = [name, *(row.name for row in SETTINGS if row.fate is Fate.RENAMED and name in row.becomes)]
        both = " and ".join(f"kafka.{alias}" for alias in sorted(names))
        raise OptionError(f"options {both} mean the same and differ: leave one out")
    conf[name] = value


def _value(name: str, value: str) -> str:
    """The value as librdkafka spells it."""
    if name in ("isolation.level", "security.protocol"):
        return value.strip().lower()
    if name == "ssl.endpoint.identification.algorithm":
        return value.strip().lower() or "none"  # Java: the empty string switches host name verification off
    if (ROWS.get(name, UNKNOWN).becomes or (name,))[0] in tls_settings.PEM_TEXTS and value.strip():
        return tls_settings.pem(name, value)
    return value.strip() if name == "sasl.mechanism" else value


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
