"""One seam for all formats of writes: a column of structs and the rows' topics in, a column of records out."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.values.arrow_types import arrow_type
from sparkcohort.runtime.shell.values.python_values import Convert, MisfitError, with_nulls
from sparkcohort.runtime.shell.values.registry_settings import read_settings
from sparkcohort.runtime.shell.values.schema_registry import RegisteredText, SchemaRegistry, UnknownSchemaError
from sparkcohort.runtime.values.encodings import Encoding, check_column
from sparkcohort.runtime.values.formats import Format, with_schema

References: TypeAlias = Sequence[tuple[str, int]]
"""Names of imported files with their versions."""


def encoded(encoding: Encoding, column: pa.Array, topics: pa.Array) -> pa.Array:
    """The records (binary) of a column, null where it is null; ``topics`` are the rows', as text or in a dictionary.

    Raises CohortError: for rows that the schema can't hold, with topic, field and option; for the registry's errors.
    """
    if encoding.records.format is Format.JSON:
        from sparkcohort.runtime.shell.values.json_encoder import JsonRecords  # noqa: PLC0415  each format by itself

        return JsonRecords(encoding.records.timezone, encoding.part).encode(column)
    column = column.cast(arrow_type(encoding.type))
    topics = topics if pa.types.is_dictionary(topics.type) else topics.dictionary_encode()
    codes = topics.indices.to_numpy()
    rows_of = [(topic, np.flatnonzero(codes == code)) for code, topic in enumerate(topics.dictionary.to_pylist())]
    parts = [_of_topic(encoding, column.take(pa.array(rows)), topic) for topic, rows in rows_of]
    order = np.argsort(np.concatenate([rows for _, rows in rows_of]))
    return pa.concat_arrays(parts).take(pa.array(order))


def _of_topic(encoding: Encoding, column: pa.Array, topic: str) -> pa.Array:
    """The records of rows of one topic."""
    part, subject = encoding.part, encoding.records.subject or f"{topic}-{encoding.part}"  # TopicNameStrategy
    encode = _encoder(encoding, subject if encoding.records.registry else "")
    try:
        return pa.array(with_nulls(column, encode), pa.binary())
    except MisfitError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001  a library's own, whose text may have a value
        reason = f"{part}: its library refuses them ({type(error).__name__})"
    raise CohortError(
        f"rows for topic {topic!r} can't be written with option {part}.format={encoding.records.format}: {reason}: filter these rows, "
        f"change the column, or set {part}.schema to a schema that can hold them"
    )


@cache
def _encoder(encoding: Encoding, subject: str) -> Convert:
    """What writes rows of a subject, with its frame; made once in a process, and "" is no subject and no frame."""
    registry = _registry(encoding) if subject else None
    make = _avro if encoding.records.format is Format.AVRO else _protobuf
    encode, frame = make(encoding, subject, registry)
    return lambda column: [frame + record for record in encode(column)]


def _avro(encoding: Encoding, subject: str, registry: SchemaRegistry | None) -> tuple[Convert, bytes]:
    from sparkcohort.runtime.shell.values.avro_encoder import AvroRecords  # noqa: PLC0415  each format by itself

    records, frame = encoding.records, b""
    if registry and not records.schema:
        latest = registry.reader_schema(subject, records.version)
        place = f"subject {subject!r}, version {latest.version}, of the schema registry"
        if latest.schema.kind != "AVRO":
            raise CohortError(f"option {encoding.part}.format=avro: {place} has a schema of {latest.schema.kind}")
        records = with_schema(encoding.part, records, latest.schema.text, latest.schema.references, place)
        check_column(encoding._replace(records=records))
        frame = _frame(latest.schema_id)
    elif registry:
        frame = _frame(_schema_id(encoding, registry, subject, RegisteredText("AVRO", records.schema)))
    return AvroRecords(records.schema, records.references, encoding.part).encode, frame


def _protobuf(encoding: Encoding, subject: str, registry: SchemaRegistry | None) -> tuple[Convert, bytes]:
    from sparkcohort.runtime.shell.values.protobuf_encoder import (  # noqa: PLC0415  as above
        BUILT_IN,
        ProtobufRecords,
        frame_index,
    )

    message = encoding.records.reader_message()
    values = ProtobufRecords(message, b64decode(encoding.records.schema), encoding.part)
    if registry is None:
        return values.encode, b""

    def imports(file: Any) -> list[tuple[str, int]]:
        """The files that one imports, with their versions: each is a subject of its own, as for Confluent's serializers."""
        return [
            (each.name, _schema_version(encoding, registry, each.name, _text(each), imports(each)))
            for each in file.dependencies
            if not each.name.startswith(BUILT_IN)
        ]

    schema_id = _schema_id(encoding, registry, subject, _text(values.file), imports(values.file))
    return values.encode, _frame(schema_id) + frame_index(message.index)


def _text(file: Any) -> RegisteredText:
    return RegisteredText("PROTOBUF", b64encode(file.serialized_pb).decode())


def _schema_version(
    encoding: Encoding, registry: SchemaRegistry, subject: str, schema: RegisteredText, references: References
) -> int:
    _schema_id(encoding, registry, subject, schema, references)
    return registry.schema_version(subject, schema, references)


def _schema_id(
    encoding: Encoding, registry: SchemaRegistry, subject: str, schema: RegisteredText, references: References = ()
) -> int:
    """The id of a schema, registered if the option says so.  Raises RegistryError."""
    try:
        return registry.schema_id(subject, schema, references, register=not encoding.lookup)
    except UnknownSchemaError as error:
        raise UnknownSchemaError(
            f"option {encoding.part}.schema.registration=lookup: {error}: register it there, or leave the option out"
        ) from None


def _frame(schema_id: int) -> bytes:
    """What stands in front of a record, as Confluent's serializers write it."""
    return b"\0" + schema_id.to_bytes(4, "big")


def _registry(encoding: Encoding) -> SchemaRegistry | None:
    settings = read_settings(dict(encoding.records.registry))
    return SchemaRegistry(settings) if settings else None
