"""``kafka.*`` options as librdkafka's settings: translated, accepted with a warning, or refused by name."""

from __future__ import annotations

from collections.abc import Mapping

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
            _set_value(own, row.becomes[0] if row.fate is Fate.RENAMED else name, _value(name, value))
    return token_settings.completed(security_settings.stores_and_login(translated) | own), warnings


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
