"""What is made of a record's value, or key, before it is delivered: the format's options as one value.

>>> decoding("value", {"format": "string"})
Decoding(format=<Format.STRING: 'string'>, schema='', message='', mode=<Mode.PERMISSIVE: 'permissive'>, corrupt_column='', subject='')
>>> decoding("key", {"schema": "a INT"})
Traceback (most recent call last):
...
sparkcohort.runtime.errors.OptionError: option key.schema has no effect with key.format=binary: set key.format to json, avro or protobuf, or leave key.schema out
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from sparkcohort.runtime.errors import OptionError


class Format(StrEnum):
    """How the bytes are read."""

    BINARY = "binary"
    STRING = "string"
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"


class Mode(StrEnum):
    """What becomes of a record that can't be decoded, in the words of Spark's ``from_json``."""

    PERMISSIVE = "permissive"
    DROPMALFORMED = "dropmalformed"
    FAILFAST = "failfast"


class Decoding(NamedTuple):
    """The options of one format."""

    format: Format = Format.BINARY
    schema: str = ""  # DDL for JSON; the schema's text or file for Avro; the file of a descriptor set for Protobuf
    message: str = ""  # of the descriptor set
    mode: Mode = Mode.PERMISSIVE
    corrupt_column: str = ""  # its name; "": none
    subject: str = ""  # in the registry; "": the topic's


RAW: Final = Decoding()

OF_STRUCTS: Final = ("schema", "message", "mode", "corrupt.column", "subject")
"""The options that only formats of structs have."""

NOT_YET: Final = {
    Format.JSON: "from_json",
    Format.AVRO: "from_avro",
    Format.PROTOBUF: "from_protobuf",
}
"""Formats without a decoder so far, and what decodes them in Spark: a decoder that is added takes its line away."""


def decoding(which: str, given: Mapping[str, str]) -> Decoding:
    """The options ``<which>.*`` by what follows the dot; those not given are left out.  Raises OptionError."""
    chosen = Format(given.get("format", Format.BINARY))
    if chosen in (Format.BINARY, Format.STRING):
        for name in OF_STRUCTS:
            if name in given:
                raise OptionError(
                    f"option {which}.{name} has no effect with {which}.format={chosen}: set {which}.format to json, "
                    f"avro or protobuf, or leave {which}.{name} out"
                )
    if chosen in NOT_YET:
        raise OptionError(
            f"option {which}.format={chosen} is not supported yet: leave it out, and decode the column {which} with "
            f"{NOT_YET[chosen]}"
        )
    return Decoding(
        chosen,
        schema=given.get("schema", ""),
        message=given.get("message", ""),
        mode=Mode(given.get("mode", Mode.PERMISSIVE)),
        corrupt_column=given.get("corrupt.column", ""),
        subject=given.get("subject", ""),
    )
