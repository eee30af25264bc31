"""How a record's value, or key, is decoded before it is delivered: the format's options as one value.

>>> decoding("value", {"format": "json", "schema": "id BIGINT"}).type.names
('id',)
>>> decoding("key", {"schema": "a INT"})
Traceback (most recent call last):
...
sparkcohort.runtime.errors.OptionError: option key.schema has no effect with key.format=binary: set key.format to json, avro or protobuf, or leave key.schema out
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.values.types import BINARY, STRING, ColumnType, struct

if TYPE_CHECKING:
    from sparkcohort.runtime.values.avro_schema import AvroSchema
    from sparkcohort.runtime.values.protobuf_descriptor import MessageDescriptor

UNKNOWN_FIELDS: Final = struct({})
"""The type of a struct whose fields the query's schema has to name."""


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
    """The options of one format.

    ``type`` is what the bytes become, all of it.  ``schema`` is Avro's reader's, with the texts that it refers to, or
    Protobuf's descriptor set in base64, with the name of its ``message``.  ``registry`` are the options of the one that has
    the writers' schemas, () where records have no frame; what has no schema yet gets the reader's from there, by ``subject``
    and ``version``.
    """

    format: Format = Format.BINARY
    type: ColumnType = BINARY
    mode: Mode = Mode.PERMISSIVE
    corrupt_column: str = ""  # its name; "": none
    error_column: str = ""
    dead_letter_topic: str = ""  # of streams; "": bad records are written nowhere
    schema: str = ""
    references: tuple[str, ...] = ()
    registry: tuple[tuple[str, str], ...] = ()
    subject: str = ""  # "": the topic's
    version: str = "latest"
    message: str = ""
    timezone: str = ""  # JSON: where timestamps are from that name none; "": UTC, if that is the session's
    bare_timestamps: bool = False  # JSON: the DDL has a TIMESTAMP that doesn't say of which kind
    any_index: bool = False  # Protobuf: a record of any message of its schema counts as one of ``message``

    def __repr__(self) -> str:  # settings of a registry have passwords
        return f"Decoding({self.format}, {self.type}, {self.mode})"

    @property
    def of_structs(self) -> bool:
        """Whether records are read field by field, and may turn out not to be readable."""
        return self.format not in (Format.BINARY, Format.STRING)

    def reader_schema(self) -> AvroSchema:
        """Avro's reader's schema."""
        from sparkcohort.runtime.values.avro_schema import parse_schema  # noqa: PLC0415  most queries have none

        return parse_schema(self.schema, self.references)

    def reader_message(self) -> MessageDescriptor:
        """Protobuf's message."""
        from sparkcohort.runtime.values.protobuf_descriptor import parse_message  # noqa: PLC0415  as above

        return parse_message(b64decode(self.schema), self.message)


RAW: Final = Decoding()

TOO_LARGE: Final = "too_large"
"""The reason for a record that becomes more than a column can hold, of whatever format."""
DECODER_FAILED: Final = "decoder_failed"
"""The reason for a record that alone makes its decoder fail: a bug of ours, which costs that record and no more."""


def reasons(kind: Format) -> tuple[str, ...]:
    """Why a record of this format may be bad: the names in counters, errors and log lines."""
    match kind:
        case Format.JSON:
            from sparkcohort.runtime.values.json_plan import JsonReason  # noqa: PLC0415  most queries have none

            names = [each.name for each in JsonReason]
        case Format.AVRO:
            from sparkcohort.runtime.values.avro_steps import AvroReason  # noqa: PLC0415  as above

            names = [each.name for each in AvroReason]
        case Format.PROTOBUF:
            from sparkcohort.runtime.values.protobuf_steps import ProtobufReason  # noqa: PLC0415  as above

            names = [each.name for each in ProtobufReason]
        case _:
            return ()
    return (*(name.lower() for name in names), TOO_LARGE, DECODER_FAILED)


ANY_INDEX: Final = "any"
OF_STRUCTS: Final = (
    "schema", "message", "message.index", "timezone", "mode", "corrupt.column", "error.column", "subject", "schema.version",
    "schema.registration",
)  # fmt: skip
"""The options that only formats of structs have."""
UTC: Final = "UTC"


def decoding(part: str, options: Mapping[str, str]) -> Decoding:
    """The options ``<which>.*`` by what follows the dot; those that are not set are absent.  Raises OptionError."""
    kind = Format(options.get("format", Format.BINARY))
    if kind in (Format.BINARY, Format.STRING):
        for name in OF_STRUCTS:
            if name in options:
                raise OptionError(
                    f"option {part}.{name} has no effect with {part}.format={kind}: set {part}.format to json, "
                    f"avro or protobuf, or leave {part}.{name} out"
                )
        return Decoding(kind, STRING if kind is Format.STRING else BINARY)
    for name in ("message", "message.index"):
        if kind is not Format.PROTOBUF and options.get(name):
            raise OptionError(f"option {part}.{name} has no effect with {part}.format={kind}: leave it out")
    if kind is not Format.JSON and options.get("timezone"):
        raise OptionError(f"option {part}.timezone has no effect with {part}.format={kind}: leave it out")
    for name, meaning in (("schema", "the file of a descriptor set"), ("message", "a message's name in it")):
        if kind is Format.PROTOBUF and not options.get(name):
            raise OptionError(
                f"option {part}.format=protobuf needs {part}.schema and {part}.message: set {part}.{name} to {meaning}"
            )
    result = Decoding(
        kind,
        UNKNOWN_FIELDS,
        mode=Mode(options.get("mode", Mode.PERMISSIVE)),
        corrupt_column=options.get("corrupt.column", ""),
        error_column=options.get("error.column", ""),
        subject=options.get("subject", ""),
        version=options.get("schema.version", "latest"),
        message=options.get("message", ""),
        timezone=_timezone(part, options.get("timezone", "")),
        any_index=options.get("message.index") == ANY_INDEX,
    )
    return with_schema(part, result, options["schema"]) if options.get("schema") else result


def _timezone(part: str, name: str) -> str:
    from sparkcohort.runtime.values.json_zone import UnknownZoneError, zone_of  # noqa: PLC0415  most queries have none

    try:
        zone_of(name or UTC)
    except UnknownZoneError as error:
        raise OptionError(f"option {part}.timezone: {error}") from None
    return name


def with_schema(part: str, draft: Decoding, text: str, references: tuple[str, ...] = (), origin: str = "") -> Decoding:
    """The decoding by a schema: DDL for JSON, Avro's own JSON, Protobuf's descriptor set in base64.

    Raises OptionError, which names the schema's ``origin`` (by default the option).
    """
    try:
        if draft.format is Format.AVRO:
            return _by_avro(draft, text, references)
        return _by_protobuf(part, draft, text) if draft.format is Format.PROTOBUF else _by_ddl(draft, text)
    except ValueError as error:  # AvroSchemaError, DescriptorError, MalformedDdl, JsonPlanError
        raise OptionError(f"{origin or f'option {part}.schema'}: {error}") from None


def _by_protobuf(part: str, decoding: Decoding, text: str) -> Decoding:
    from sparkcohort.runtime.values.protobuf_columns import column_type  # noqa: PLC0415  most queries have none
    from sparkcohort.runtime.values.protobuf_compilation import compile_steps  # noqa: PLC0415
    from sparkcohort.runtime.values.protobuf_descriptor import UnknownMessageError  # noqa: PLC0415

    decoding = decoding._replace(schema=text)
    try:
        message = decoding.reader_message()
        decoding = decoding._replace(type=column_type(message))
        compile_steps(message, decoding.type)
    except UnknownMessageError as error:
        raise OptionError(f"option {part}.message: {error}") from None
    return decoding


def _by_avro(decoding: Decoding, text: str, references: tuple[str, ...]) -> Decoding:
    from sparkcohort.runtime.values.avro_columns import column_type  # noqa: PLC0415  most queries have none

    decoding = decoding._replace(schema=text, references=references)
    return decoding._replace(type=column_type(decoding.reader_schema()))


def _by_ddl(decoding: Decoding, text: str) -> Decoding:
    from sparkcohort.runtime.values.ddl import parse_ddl  # noqa: PLC0415  as above
    from sparkcohort.runtime.values.json_plan import plan  # noqa: PLC0415

    kind = parse_ddl(text)
    plan(kind)
    return decoding._replace(type=kind, bare_timestamps=parse_ddl(text, "timestamp_ntz") != kind)
