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
from sparkcohort.runtime.shell.options.declaration import Kind, Option
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

    def _is_given(self, name: str) -> bool:
        return name.lower() in self._texts

    def read(self, option: Option) -> Any:
        """The value of an option, by its kind."""
        return _READERS[option.kind](self, option.name)

    def servers(self, name: str) -> str:
        """The brokers' addresses: host:port,host:port."""
        text = self.text(name)
        if not text:
            raise OptionError(f"option {name} is missing: give the brokers to start from, host:port,host:port")
        try:
            addresses.servers(text)
        except ValueError as error:
            raise OptionError(f"option {name}: {error}; give host:port,host:port") from None
        # librdkafka would take 9092 for a port that is missing, and wait for it; Java refuses it (ClientUtils.parseAndValidateAddresses).
        if wrong := [each for each in text.split(",") if each.strip() and not _ADDRESS.fullmatch(each)]:
            address = printable(wrong[0].strip(), 100)
            raise OptionError(f"option {name}: {address} is no host with a port; give host:port,host:port")
        return text

    def assignors(self, name: str) -> tuple[str, ...]:
        """Names of assignors, in order of preference."""
        return assignor_names(self.text(name))

    def dotted_name(self, name: str) -> str:
        """A dotted name, or ""; only its form is checked here."""
        text = self.text(name)
        if text and not re.fullmatch(DOTTED_NAME, text):
            raise OptionError(f"option {name}={text!r} must be package.module.Class or package.module:object")
        return text

    def variable(self, name: str) -> str:
        """The name of an environment variable, or ""."""
        text = self.text(name)
        if text and not re.fullmatch(r"[A-Za-z_]\w*", text, re.ASCII):
            raise OptionError(
                f"option {name}={text!r} must name an environment variable of the executors, such as NODE_ZONE"
            )
        return text

    def host(self, name: str) -> str:
        """A host's name or address without a port, or "".  An IPv6 address may have brackets."""
        text = self.text(name)
        host = bare(text)
        if host and not (_is_ipv6(host) if ":" in host or host != text else re.fullmatch(r"[A-Za-z0-9._-]+", host)):
            raise OptionError(
                f"option {name}={text!r} is not a host's name or address, such as driver.example.org, 192.0.2.1 or ::1; "
                "the port is an option of its own, and an address with a zone (%eth0) is not taken"
            )
        return host

    def integer(self, name: str) -> int | None:
        """A whole number within the option's bounds, or None where it is not set and has no default."""
        option, text = BY_KEY[name.lower()], self.text(name)
        if not text and not self._is_given(name):
            return None
        if text.startswith("{") and f"{name}.topics".lower() in BY_KEY:
            raise OptionError(
                f"option {name} is one number for all topics: limits of single topics are given with {name}.topics"
            )
        if not _WHOLE.fullmatch(text):
            epoch = " since 1970" if option.name.endswith("Timestamp") else ""
            unit = f" of milliseconds{epoch}" if option.kind == "milliseconds" else ""
            raise OptionError(f"option {option.name}={text!r} is not a whole number{unit}")
        number = int(text)
        if not option.minimum <= number <= option.maximum:
            raise OptionError(f"option {option.name}={number} is out of bounds: {_bounds(option)}")
        return number

    def number(self, name: str) -> float:
        """A number above the option's minimum and not above its maximum."""
        option, text = BY_KEY[name.lower()], self.text(name)
        try:
            value = float(text.replace("_", "?") if text.isascii() else "?")
        except ValueError:
            raise OptionError(f"option {option.name}={text!r} is not a number such as {option.default}") from None
        if not option.minimum < value <= option.maximum:  # NaN is out of any bounds
            bounds = f"more than {option.minimum}, at most {option.maximum}"
            raise OptionError(f"option {option.name}={text} is out of bounds: {bounds}")
        return value

    def boolean(self, name: str) -> bool:
        """``true`` or ``false``, in any case."""
        text = self.text(name).lower()
        if text not in ("true", "false"):
            raise OptionError(f"option {name}={text!r} must be true or false")
        return text == "true"

    def choice(self, name: str) -> str:
        """One of the option's choices, in any case."""
        text, choices = self.text(name).lower(), BY_KEY[name.lower()].choices
        if text not in choices:
            raise OptionError(f"option {name}={text!r} must be one of {', '.join(choices)}")
        return text

    def duration(self, name: str) -> int | None:
        """Milliseconds from Spark's time strings (``15m``, ``30s``, ``500ms``; a bare number is milliseconds), or None where not set."""
        option, text = BY_KEY[name.lower()], self.text(name)
        if not text and option.default is None:
            return None
        match = re.fullmatch(r"([0-9]{1,100})([a-z]*)", text.lower())
        if match is None or match[2] not in _UNITS_US:
            raise OptionError(f"option {option.name}={text!r} is not a duration such as 15m, 30s or 500ms")
        number = int(match[1]) * _UNITS_US[match[2]] // 1000
        if not option.minimum <= number <= option.maximum:
            raise OptionError(f"option {option.name}={text} is out of bounds: {_bounds(option)} milliseconds")
        return number

    def size(self, name: str) -> int | None:
        """Bytes from Spark's size strings (``64m``, ``1g``; a bare number is bytes), or None where not set."""
        option, text = BY_KEY[name.lower()], self.text(name).lower()
        if not text and not self._is_given(name):
            return None
        match = re.fullmatch(r"([0-9]{1,100})\s*([kmgtp]?)i?b?", text)
        if match is None:
            raise OptionError(f"option {option.name}={text!r} is not a number of bytes such as 67108864, 64m or 1g")
        number = int(match[1]) << _SHIFTS[match[2]]
        if not option.minimum <= number <= option.maximum:
            raise OptionError(f"option {option.name}={text} is out of bounds: {_bounds(option)}")
        return number

    def by_topic(self, name: str) -> dict[str, int]:
        """``{"topic":1000}`` in order of topics, empty where not set."""
        option, text = BY_KEY[name.lower()], self.text(name)
        if not text and not self._is_given(name):
            return {}
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

    def start(self, name: str) -> Start:
        """A start by word or by JSON."""
        text, choices = self.text(name), BY_KEY[name.lower()].choices
        if text.lower() in choices:
            return text.lower()
        shape = f"expected {', '.join(choices)} or {_OFFSETS_SHAPE}"
        return per_partition(name, text, shape, EARLIEST)

    def timestamps(self, name: str) -> Mapping[TopicPartition, int] | None:
        """Timestamps by partition, or None where not set."""
        text = self.text(name)
        return (
            per_partition(name, text, 'expected {"topic":{"0":1700000000000}} with milliseconds', 0) if text else None
        )


_READERS: Final[dict[Kind, Callable[[Values, str], object]]] = {
    "assignors": Values.assignors,
    "boolean": Values.boolean,
    "by topic": Values.by_topic,
    "choice": Values.choice,
    "dotted name": Values.dotted_name,
    "duration": Values.duration,
    "host": Values.host,
    "integer": Values.integer,
    "milliseconds": Values.integer,
    "number": Values.number,
    "offsets": Values.start,
    "servers": Values.servers,
    "size": Values.size,
    "string": Values.text,
    "timestamps": Values.timestamps,
    "variable": Values.variable,
}


def _is_ipv6(text: str) -> bool:
    try:
        return not ipaddress.IPv6Address(text).scope_id
    except ValueError:
        return False


def _bounds(option: Option) -> str:
    return f"at least {option.minimum}" if option.maximum == 2**63 - 1 else f"{option.minimum} to {option.maximum}"


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
