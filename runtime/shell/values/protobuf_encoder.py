"""Columns become Protobuf's records, written by Google's library."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.values.python_values import (
    MisfitError,
    check_all,
    check_nulls,
    lists,
    maps,
    structs,
    with_nulls,
)
from sparkcohort.runtime.values.avro_defaults import varint
from sparkcohort.runtime.values.protobuf_columns import time_type
from sparkcohort.runtime.values.protobuf_descriptor import FieldDescriptor, FieldType, MessageDescriptor
from sparkcohort.runtime.values.types import INTERVAL

UNSIGNED = {
    **dict.fromkeys((FieldType.UINT32, FieldType.FIXED32), pa.uint32()),
    **dict.fromkeys((FieldType.UINT64, FieldType.FIXED64), pa.uint64()),
}
BUILT_IN = ("google/protobuf/", "google/type/", "confluent/")
"""Files that every registry has."""


class ProtobufRecords:
    """Writes columns of structs as messages of one type; ``path`` is the column's name in errors."""

    def __init__(self, message: MessageDescriptor, descriptor_set: bytes, path: str = "value") -> None:
        """Raises CohortError without the library."""
        try:
            from google.protobuf import (  # noqa: PLC0415  an extra
                descriptor_database,
                descriptor_pb2,
                descriptor_pool,
                message_factory,
            )
        except ImportError as error:
            raise CohortError(
                f"option {path}.format=protobuf: {error.name} is missing: pip install 'sparkcohort[protobuf]' where the executors run"
            ) from None
        database = descriptor_database.DescriptorDatabase()
        for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file:
            database.Add(file)
        descriptor = descriptor_pool.DescriptorPool(database).FindMessageTypeByName(message.name)
        self.file: Any = descriptor.file
        self._message, self._path, self._new = message, path, message_factory.GetMessageClass(descriptor)

    def encode(self, column: pa.Array) -> list[bytes]:
        """The records of an array without nulls.  Raises MisfitError, or what the library raises."""
        return [self._new(**row).SerializeToString() for row in _messages(column, self._message, self._path)]


def _messages(column: pa.Array, message: MessageDescriptor, path: str) -> list[dict[str, Any]]:
    """Messages as their constructors take them; None is a field that is not there."""
    for field in message.fields:
        if field.required and column.type.get_field_index(field.name) < 0:
            raise MisfitError(f"{path}.{field.name}", "there is no such field, and the message requires it")
    inside = {each.name: partial(_values, field=each, path=f"{path}.{each.name}") for each in message.fields}
    return structs(column, inside)


def _values(column: pa.Array, field: FieldDescriptor, path: str) -> list[Any]:
    if field.required:
        check_nulls(column, path)
    if field.is_map:
        entry = [partial(_items, field=each, path=f"{path}[]") for each in field.inner.fields]
        return with_nulls(column, lambda present: maps(present, *entry))
    if field.repeated:
        items = partial(_items, field=field, path=f"{path}[]")
        return with_nulls(column, partial(lists, convert=items))
    return with_nulls(column, partial(_single, field=field, path=path))


def _items(column: pa.Array, field: FieldDescriptor, path: str) -> list[Any]:
    check_nulls(column, path)
    return _single(column, field, path)


def _single(column: pa.Array, field: FieldDescriptor, path: str) -> list[Any]:
    """The values of an array without nulls."""
    if field.message is not None:
        if (kind := time_type(field.message)) is None:
            return _messages(column, field.message, path)
        micros = column.cast(pa.int64()).to_numpy()
        # A Duration's two parts have one sign; a Timestamp's nanos are never below zero.
        nanos = (np.fmod if kind == INTERVAL else np.mod)(micros, 1_000_000)
        parts = zip(((micros - nanos) // 1_000_000).tolist(), (nanos * 1000).tolist(), strict=True)
        return [{"seconds": seconds, "nanos": nanos} for seconds, nanos in parts]
    if field.enum is not None:
        names = pa.array(list(field.enum.values.values()), pa.string())
        check_all(pc.is_in(column, names), path, f"are no name of the enum {field.enum.name}")
    return list((column.view(UNSIGNED[field.kind]) if field.kind in UNSIGNED else column).to_pylist())


def frame_index(index: tuple[int, ...]) -> bytes:
    r"""A message's place in its file, as it stands in Confluent's frame: numbers as Avro has them, but one zero for the first message.

    >>> frame_index((0,)), frame_index((2, 1)), frame_index((100,))
    (b'\x00', b'\x04\x04\x02', b'\x02\xc8\x01')
    """
    if index == (0,):
        return b"\0"
    return b"".join(map(varint, (len(index), *index)))
