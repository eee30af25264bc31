"""One seam for all formats: columns of bytes and of headers in, a column of structs and what was wrong with which row out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa

from sparkcohort.runtime.shell.values.header_ids import HeaderIds
from sparkcohort.runtime.values.formats import UTC, Decoding, Format
from sparkcohort.runtime.values.types import ColumnType

if TYPE_CHECKING:
    from sparkcohort.runtime.shell.values.avro_decoder import AvroValues
    from sparkcohort.runtime.shell.values.json_decoder import JsonValues
    from sparkcohort.runtime.shell.values.protobuf_decoder import ProtobufValues


class Malformed(NamedTuple):
    """A row that could not be decoded, or not all of it: why, for counters and in words, without the value."""

    row: int
    reason: str
    message: str


Decoder: TypeAlias = Callable[[pa.Array, "pa.Array | None"], tuple[pa.Array, list[Malformed]]]
"""Reads records, with their headers where the decoding has a registry; for one thread at a time.

Raises RegistryError while the schema of a record can't be had.
"""


def new_decoder(decoding: Decoding, target: ColumnType, part: str) -> Decoder:
    """The decoder of records' ``part`` (key or value) into ``target``, all of the decoding's type or a part of it."""
    ids = HeaderIds(part, indexed=decoding.format is Format.PROTOBUF)
    values = _values(decoding, target, ids)

    def read(records: pa.Array, headers: pa.Array | None) -> tuple[pa.Array, list[Malformed]]:
        framed, faults = (records, {}) if headers is None else ids.add_frames(records, headers)
        rows, bad = values.decode(framed)
        return rows, [Malformed(each.row, each.reason.name.lower(), faults.get(each.row, each.message)) for each in bad]

    return read


def _values(decoding: Decoding, target: ColumnType, ids: HeaderIds) -> AvroValues | JsonValues | ProtobufValues:
    """The format's decoder; each format is imported by itself."""
    if decoding.format is Format.AVRO:
        return _avro(decoding, target, ids)
    if decoding.format is Format.JSON:
        from sparkcohort.runtime.shell.values.json_decoder import JsonValues  # noqa: PLC0415
        from sparkcohort.runtime.values.json_zone import zone_table  # noqa: PLC0415

        return JsonValues(target, zone=zone_table(decoding.timezone or UTC))
    from sparkcohort.runtime.shell.values.protobuf_decoder import ProtobufValues  # noqa: PLC0415

    return ProtobufValues(
        decoding.reader_message(), target, framed=bool(decoding.registry), any_index=decoding.any_index
    )


def _avro(decoding: Decoding, target: ColumnType, ids: HeaderIds) -> AvroValues:
    from sparkcohort.runtime.shell.values.avro_decoder import AvroValues, Writers  # noqa: PLC0415  as above

    writers: Writers | None = None
    if decoding.registry:
        from sparkcohort.runtime.shell.values.registry_settings import read_settings  # noqa: PLC0415  only with a registry
        from sparkcohort.runtime.shell.values.writer_schemas import shared_writer_schemas  # noqa: PLC0415

        settings = read_settings(dict(decoding.registry))
        writers = shared_writer_schemas(settings).get if settings else None
    return AvroValues(decoding.reader_schema(), target, writers=writers, registered=ids.registry_key)
