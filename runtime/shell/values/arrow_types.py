"""Arrow's types for Spark's, and a row that could not be decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from sparkcohort.runtime.values.types import ColumnType

ARROW = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "interval day to second": pa.duration("us"),
}

MOST = (1 << 31) - 1
"""Bytes of a column, or items of its lists: Arrow's offsets have 32 bits."""


class BadRecord(NamedTuple):
    """A row at fault: null as a whole, or (JSON) with a field that is null; ``reason`` is one of its format's."""

    row: int
    reason: Any
    message: str


def binary_buffers(column: Any) -> list[Any]:
    """The buffers of a BINARY column; whatever else would be read as one is refused."""
    if not pa.types.is_binary(column.type):
        raise TypeError(f"records are a column of type binary, not {column.type}")
    return list(column.buffers())


def importer(kind: Any) -> Callable[[int], Any]:
    """What takes over an array of this type from the C code, by its address."""
    return lambda address: pa.Array._import_from_c(address, kind)


def arrow_type(kind: ColumnType) -> Any:
    """Arrow's type for Spark's.

    >>> arrow_type(ColumnType("array", (ColumnType("date"),)))
    ListType(list<element: date32[day]>)
    """
    if kind.kind == "struct":
        return pa.struct([(name, arrow_type(child)) for name, child in zip(kind.names, kind.children, strict=True)])
    if kind.kind == "array":
        return pa.list_(pa.field("element", arrow_type(kind.children[0])))
    if kind.kind == "map":
        return pa.map_(*map(arrow_type, kind.children))
    if kind.kind == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    return ARROW[kind.kind]
