"""One seam for all formats: a column of bytes in, a column of structs and what was wrong with which row out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from sparkcohort.runtime.values.formats import Decoding, Format
from sparkcohort.runtime.values.types import ColumnType


class Malformed(NamedTuple):
    """A row that could not be decoded, or not all of it: why, for counters and in words, without the value."""

    row: int
    reason: str
    message: str


Decoder: TypeAlias = Callable[[pa.Array], tuple[pa.Array, list[Malformed]]]
"""For one thread at a time.  Raises RegistryError while the schema of a record can't be had."""


def new_decoder(decoding: Decoding, target: ColumnType) -> Decoder:
    """What reads records into ``target``, which is all of the decoding's type or a part of it."""
    if decoding.format is Format.PROTOBUF:
        return _protobuf(decoding, target)
    return _avro(decoding, target) if decoding.format is Format.AVRO else _json(target)


def _json(target: ColumnType) -> Decoder:
    from sparkcohort.runtime.shell.values.json_decoder import JsonValues  # noqa: PLC0415  each format by itself

    values = JsonValues(target)

    def read(records: pa.Array) -> tuple[pa.Array, list[Malformed]]:
        rows, bad = values.decode(records)
        return rows, [Malformed(each.row, each.reason.name.lower(), each.message) for each in bad]

    return read


def _avro(decoding: Decoding, target: ColumnType) -> Decoder:
    from sparkcohort.runtime.shell.values.avro_decoder import AvroValues, Writers  # noqa: PLC0415  as above

    writers: Writers | None = None
    if decoding.registry:
        from sparkcohort.runtime.shell.registry.settings import read_settings  # noqa: PLC0415  only with a registry
        from sparkcohort.runtime.shell.registry.writer_schemas import shared_writer_schemas  # noqa: PLC0415

        settings = read_settings(dict(decoding.registry))
        writers = shared_writer_schemas(settings).get if settings else None
    values = AvroValues(decoding.reader_schema(), target, writers=writers)

    def read(records: pa.Array) -> tuple[pa.Array, list[Malformed]]:
        rows, bad = values.decode(records)
        return rows, [Malformed(each.row, each.reason.name.lower(), each.message) for each in bad]

    return read


def _protobuf(decoding: Decoding, target: ColumnType) -> Decoder:
    from sparkcohort.runtime.shell.values.protobuf_decoder import ProtobufValues  # noqa: PLC0415  as above

    values = ProtobufValues(
        decoding.reader_message(), target, framed=bool(decoding.registry), any_index=decoding.any_index
    )

    def read(records: pa.Array) -> tuple[pa.Array, list[Malformed]]:
        rows, bad = values.decode(records)
        return rows, [Malformed(each.row, each.reason.name.lower(), each.message) for each in bad]

    return read
