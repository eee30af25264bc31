"""Typed values of options; a wrong text is one OptionError that names the option."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.kafka import addresses
from sparkcohort.runtime.kafka.addresses import bare
from sparkcohort.runtime.protocol import offsets_json
from sparkcohort.runtime.protocol.offsets_json import EARLIEST, MalformedOffsets
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.options.assignor_names import DOTTED_NAME, assignor_names
from sparkcohort.runtime.shell.options.declaration import Option
from sparkcohort.runtime.shell.options.source_options import Start
from sparkcohort.runtime.shell.options.table import BY_KEY
from sparkcohort.runtime.text import printable

# org.apache.spark.network.util.JavaUtils.timeStringAs: units in microseconds, milliseconds where there is none.
_UNITS_US: Final = {
    "us": 1,
    "ms": 1000,
    "": 1000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_ADDRESS: Final = re.compile(r"\s*([A-Za-z_]+://)?(\[[^\[\]]+\]|[^\[\]:;,\s]+):[0-9]+\s*")
_SHIFTS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
# Python's own readers take more than Java's and Spark's do: 1_000, and digits of other scripts.
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,100}")
_OFFSETS_SHAPE = '{"topic":{"0":123}} with offsets, -2 for earliest or -1 for latest'


class Values:
    """The options by the names of the table, typed; each method raises OptionError."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def text(self, name: str) -> str:
        """The text of an option, else its default, else ""."""
        return self._texts.get(name.lower(), BY_KEY[name.lower()].default or "").strip()

    def has_value(self, name: str) -> bool:
        """Whether an option is set to a text that is not empty."""
        return bool(self._texts.get(name.lower(), "").strip())

    def choice(self, name: str) -> str:
        """One of the option's choices."""
        return _choice(BY_KEY[name.lower()], self.text(name))

    def read(self, option: Option) -> Any:
        """The value of an option, by its kind; one of numbers that isn't set and has no default is None or empty."""
        if option.kind in _UNSET and option.default is None and option.name.lower() not in self._texts:
            return _UNSET[option.kind]
        return READERS[option.kind](option, self.text(option.name))


def _servers(option: Option, text: str) -> str:
    """The brokers' addresses: host:port,host:port."""
    if not text.strip(" ,"):
        raise OptionError(f"option {option.name} is missing: give the brokers to start from, host:port,host:port")
    try:
        addresses.servers(text)
    except ValueError as error:
        raise OptionError(f"option {option.name}: {error}; give host:port,host:port") from None
    # librdkafka would take 9092 for a port that is missing, and wait for it; Java refuses it (ClientUtils.parseAndValidateAddresses).
    if wrong := [each for each in text.split(",") if each.strip() and not _ADDRESS.fullmatch(each)]:
        address = printable(wrong[0].strip(), 100)
        raise OptionError(f"option {option.name}: {address} is no host with a port; give host:port,host:port")
    return text


def _dotted_name(option: Option, text: str) -> str:
    """A dotted name, or ""; only its form is checked here."""
    if text and not re.fullmatch(DOTTED_NAME, text):
        raise OptionError(f"option {option.name}={text!r} must be package.module.Class or package.module:object")
    return text


def _variable(option: Option, text: str) -> str:
    """The name of an environment variable, or ""."""
    if text and not re.fullmatch(r"[A-Za-z_]\w*", text, re.ASCII):
        raise OptionError(
            f"option {option.name}={text!r} must name an environment variable of the executors, such as NODE_ZONE"
        )
    return text


def _host(option: Option, text: str) -> str:
    """A host's name or address without a port, or "".  An IPv6 address may have brackets."""
    host = bare(text)
    if host and not (_is_ipv6(host) if ":" in host or host != text else re.fullmatch(r"[A-Za-z0-9._-]+", host)):
        raise OptionError(
            f"option {option.name}={text!r} is not a host's name or address, such as driver.example.org, 192.0.2.1 or ::1; "
            "the port is an option of its own, and an address with a zone (%eth0) is not taken"
        )
    return host


def _integer(option: Option, text: str) -> int:
    """A whole number within the option's bounds."""
    if text.startswith("{") and f"{option.name}.topics".lower() in BY_KEY:
        raise OptionError(
            f"option {option.name} is one number for all topics: limits of single topics are given with {option.name}.topics"
        )
    if not _WHOLE.fullmatch(text):
        epoch = " since 1970" if option.name.endswith("Timestamp") else ""
        unit = f" of milliseconds{epoch}" if option.kind == "milliseconds" else ""
        raise OptionError(f"option {option.name}={text!r} is not a whole number{unit}")
    return _bounded(option, text, int(text))


def _number(option: Option, text: str) -> float:
    """A number above the option's minimum and not above its maximum."""
    try:
        value = float(text.replace("_", "?") if text.isascii() else "?")
    except ValueError:
        raise OptionError(f"option {option.name}={text!r} is not a number such as {option.default}") from None
    if not option.minimum < value <= option.maximum:  # NaN is out of any bounds
        bounds = f"more than {option.minimum}, at most {option.maximum}"
        raise OptionError(f"option {option.name}={text} is out of bounds: {bounds}")
    return value


def _boolean(option: Option, text: str) -> bool:
    """``true`` or ``false``, in any case."""
    if text.lower() not in ("true", "false"):
        raise OptionError(f"option {option.name}={text!r} must be true or false")
    return text.lower() == "true"


def _choice(option: Option, text: str) -> str:
    """One of the option's choices, in any case."""
    if text.lower() not in option.choices:
        raise OptionError(f"option {option.name}={text.lower()!r} must be one of {', '.join(option.choices)}")
    return text.lower()


def _duration(option: Option, text: str) -> int:
    """Milliseconds from Spark's time strings (``15m``, ``30s``, ``500ms``; a bare number is milliseconds)."""
    match = re.fullmatch(r"([0-9]{1,100})([a-z]*)", text.lower())
    if match is None or match[2] not in _UNITS_US:
        raise OptionError(f"option {option.name}={text!r} is not a duration such as 15m, 30s or 500ms")
    return _bounded(option, text, int(match[1]) * _UNITS_US[match[2]] // 1000, " milliseconds")


def _size(option: Option, text: str) -> int:
    """Bytes from Spark's size strings (``64m``, ``1g``; a bare number is bytes)."""
    match = re.fullmatch(r"([0-9]{1,100})\s*([kmgtp]?)i?b?", text.lower())
    if match is None:
        raise OptionError(f"option {option.name}={text!r} is not a number of bytes such as 67108864, 64m or 1g")
    return _bounded(option, text, int(match[1]) << _SHIFTS[match[2]])


def _by_topic(option: Option, text: str) -> dict[str, int]:
    """``{"topic":1000}`` in order of topics."""
    shape = 'expected {"topic":1000}'
    numbers: dict[str, int] = {}
    for topic, number in sorted(json_object(option.name, text, shape).items()):
        if type(number) is not int or not option.minimum <= number <= option.maximum:
            problem = f'"{topic}" has {json.dumps(number)}, not a whole number, {_bounds(option)}'
            raise OptionError(f"option {option.name}: {problem}; {shape}")
        numbers[topic] = number
    if not numbers:
        raise OptionError(f"option {option.name} names no topic; {shape}")
    return numbers


def _start(option: Option, text: str) -> Start:
    """A start by word or by JSON."""
    if text.lower() in option.choices:
        return text.lower()
    return per_partition(option.name, text, f"expected {', '.join(option.choices)} or {_OFFSETS_SHAPE}", EARLIEST)


def _timestamps(option: Option, text: str) -> Mapping[TopicPartition, int]:
    """Timestamps by partition."""
    return per_partition(option.name, text, 'expected {"topic":{"0":1700000000000}} with milliseconds', 0)


READERS: Final[dict[str, Callable[[Option, str], object]]] = {
    "assignors": lambda _, text: assignor_names(text),
    "boolean": _boolean,
    "by topic": _by_topic,
    "choice": _choice,
    "dotted name": _dotted_name,
    "duration": _duration,
    "host": _host,
    "integer": _integer,
    "milliseconds": _integer,
    "number": _number,
    "offsets": _start,
    "servers": _servers,
    "size": _size,
    "string": lambda _, text: text,
    "timestamps": _timestamps,
    "variable": _variable,
}
_UNSET: Final[dict[str, object]] = {
    "by topic": {},
    "duration": None,
    "integer": None,
    "milliseconds": None,
    "size": None,
    "timestamps": None,
}


def _bounded(option: Option, text: str, number: int, unit: str = "") -> int:
    if not option.minimum <= number <= option.maximum:
        raise OptionError(f"option {option.name}={text} is out of bounds: {_bounds(option, number)}{unit}")
    return number


def _is_ipv6(text: str) -> bool:
    try:
        return not ipaddress.IPv6Address(text).scope_id
    except ValueError:
        return False


def _bounds(option: Option, number: int = -1) -> str:
    no_most = option.maximum == 2**63 - 1 and number < option.minimum
    return f"at least {option.minimum}" if no_most else f"{option.minimum} to {option.maximum}"


def json_object(name: str, text: str, shape: str) -> dict[str, object]:
    """A JSON object without repeated keys; ``shape`` is the expected form, for the error."""
    try:
        value = offsets_json.load(text, f"option {name}")
    except MalformedOffsets as error:
        raise OptionError(f"{error}; {shape}") from None
    if not isinstance(value, dict):
        raise OptionError(f"option {name} is not a JSON object; {shape}")
    return value


def per_partition(name: str, text: str, shape: str, least: int) -> dict[TopicPartition, int]:
    """``{"topic":{"0":123}}`` as a mapping in order; numbers below ``least`` are refused."""
    try:
        offsets = offsets_json.read(json_object(name, text, shape), f"option {name}", least)
    except MalformedOffsets as error:
        raise OptionError(f"{error}; {shape}") from None
    if not offsets:
        raise OptionError(f"option {name} names no partition; {shape}")
    return dict(sorted(offsets.items()))
