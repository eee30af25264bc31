"""Checks of settings by the installed librdkafka itself, without a broker.

A consumer without brokers is created and closed, in less than a millisecond.  Its refusal becomes an error with the user's
names.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options import security_settings
from sparkcohort.runtime.shell.options.certificate_files import with_trusted_certificates
from sparkcohort.runtime.shell.options.kafka_settings import SETTINGS, OurClient

# The check asks no broker and logs nothing; the token provider is no setting of librdkafka's.
_NOT_PROBED = ("bootstrap.servers", "debug", "sasl.oauthbearer.provider")
_NUMBER = re.compile(r"[+-]?[0-9]{1,100}")
_RANGE = re.compile(r"outside allowed range (-?[0-9]+)\.\.([0-9]+)")
_MOST = 2**31 - 1
_SUGGESTED = tuple(row.name for row in SETTINGS if row.our_client is not OurClient.PRODUCERS)


class _ProbeLog(logging.Handler):
    """Collects what librdkafka logs while a client is made."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def check(conf: Mapping[str, str], options: Mapping[str, str]) -> list[str]:
    """Check the settings by librdkafka, without a broker; returns its warnings.

    ``options`` are the same settings as the user wrote them, for the messages.  Raises OptionError for settings that librdkafka
    refuses.
    """
    probed = {name: value for name, value in conf.items() if name not in _NOT_PROBED}
    _check_size(probed, options)
    try:
        probed = with_trusted_certificates(probed)
    except ValueError as error:
        raise OptionError(str(error)) from None
    refusal, ignored = _probe(probed)
    if refusal:
        raise OptionError(_explain(refusal, probed, options))
    return ignored


def _check_size(conf: Mapping[str, str], options: Mapping[str, str]) -> None:
    """Refuse what librdkafka (2.16) would take for another number: of more than 32 bits it takes the lower 32, of 5k the 5."""
    for name, value in conf.items():
        is_whole = _NUMBER.fullmatch(value) is not None
        if abs(int(value)) > _MOST if is_whole else value[:1].isdigit():
            bounds = _RANGE.search(_probe({name: str(-_MOST)})[0])
            if bounds:
                raise OptionError(_out_of_bounds(_as_given(name, options), value, bounds))


def _out_of_bounds(name: str, value: str, bounds: re.Match[str]) -> str:
    return f"option kafka.{name}={value} is out of bounds: librdkafka takes whole numbers, {bounds[1]} to {bounds[2]}"


def _probe(conf: Mapping[str, str]) -> tuple[str, list[str]]:
    """Make a consumer and drop it: librdkafka's refusal, or its warnings."""
    lines = _ProbeLog()
    logger = logging.Logger("sparkcohort.check")  # noqa: LOG001  for this call only
    logger.addHandler(lines)
    try:
        consumer = Consumer({"group.id": "check", **conf}, logger=logger)
    except (KafkaException, TypeError, ValueError) as error:
        first = error.args[0] if error.args else error
        text = str(first.str()) if isinstance(first, KafkaError) else str(first)
        return text.strip().removeprefix("Failed to create consumer: "), []
    consumer.poll(0)
    consumer.close()
    ignored = [line.partition("Configuration property ")[2] for line in lines.lines if "will be ignored" in line]
    return "", [f"option kafka.{text.partition(' ')[0]} has no effect: it {text.partition(' ')[2]}" for text in ignored]


def _explain(refusal: str, conf: Mapping[str, str], options: Mapping[str, str]) -> str:
    """librdkafka's refusal with the option's name: the option that is refused when it is set alone, too."""
    if refusal.startswith("No such configuration property:"):
        name = refusal.split('"')[1]
        return f"option kafka.{name} is unknown{nearest(name)}"
    if "No provider for SASL mechanism GSSAPI" in refusal:
        return _without_kerberos(refusal, options)
    words = security_settings.redact_text(refusal, conf)
    if "SASL mechanism" in refusal:
        return f"option kafka.sasl.mechanism: {words}"
    together = {name: conf[name] for name in ("security.protocol",) if name in conf}
    for name, value in conf.items():
        if _probe({**together, name: value})[0] == refusal:
            if bounds := _RANGE.search(refusal):
                return _out_of_bounds(_as_given(name, options), value, bounds)
            if name.endswith(".location") and not Path(value).exists():  # OpenSSL's text for it is unclear
                words = f"there is no file {value[:200]!r} on the driver"
            return f"option kafka.{_as_given(name, options)}: {words}"
    return f"the kafka.* options {', '.join(sorted(options))} do not go together: {words}"


def _without_kerberos(refusal: str, options: Mapping[str, str]) -> str:
    """GSSAPI is librdkafka's default mechanism, and confluent-kafka's wheels are built without it."""
    is_set = "sasl.mechanism" in options or "sasl.mechanisms" in options or "sasl.jaas.config" in options
    built = refusal.partition("Current build options: ")[2] or "PLAIN SASL_SCRAM OAUTHBEARER"
    return (
        f"option kafka.sasl.mechanism{'=GSSAPI' if is_set else ' is missing, and its default GSSAPI'} (Kerberos) is not in "
        f"this confluent-kafka, which has {', '.join(built.replace('SASL_', '').split())}: set kafka.sasl.mechanism to one "
        "that your brokers offer, or build confluent-kafka from source against a librdkafka that has libsasl2, where driver and "
        "executors run (docs/operate/logins.md has how, and how to see that it is there)"
    )


def _as_given(name: str, options: Mapping[str, str]) -> str:
    """The user's name of librdkafka's setting ``name``."""
    if name in options:
        return name
    return next((row.name for row in SETTINGS if name in row.becomes and row.name in options), name)


def nearest(name: str) -> str:
    """``; did you mean kafka.X?`` where a setting has a similar name, else that there is none."""
    near = difflib.get_close_matches(name, _SUGGESTED, n=1, cutoff=0.8)
    return f"; did you mean kafka.{near[0]}?" if near else "; neither Kafka's consumer nor librdkafka has it"
