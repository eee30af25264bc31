"""Spark's type for a message, as ``from_protobuf`` of Spark 4.2 has it without options (SchemaConverters)."""

from __future__ import annotations

from sparkcohort.runtime.values.protobuf_descriptor import (
    DescriptorError,
    FieldDescriptor,
    FieldType,
    MessageDescriptor,
)
from sparkcohort.runtime.values.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    MOST_COLUMNS,
    STRING,
    TIMESTAMP,
    ColumnType,
    array,
    mapping,
    struct,
)

PLAIN = {
    **dict.fromkeys((FieldType.INT32, FieldType.UINT32, FieldType.SINT32, FieldType.FIXED32, FieldType.SFIXED32), INT),
    **dict.fromkeys(
        (FieldType.INT64, FieldType.UINT64, FieldType.SINT64, FieldType.FIXED64, FieldType.SFIXED64), BIGINT
    ),
    FieldType.FLOAT: FLOAT,
    FieldType.DOUBLE: DOUBLE,
    FieldType.BOOL: BOOLEAN,
    FieldType.STRING: STRING,
    FieldType.BYTES: BINARY,
    FieldType.ENUM: STRING,
}
TIMES = {"Timestamp": TIMESTAMP, "Duration": INTERVAL}
"""By the name of the message alone, as Spark has it, if its fields are ``seconds`` and ``nanos``."""
MOST_DEPTH = 64


def column_type(message: MessageDescriptor) -> ColumnType:
    """The type of a column that holds the message.

    A message without a field that has a column is left out where it is a field; a message inside of itself is refused.
    """
    kind = _MessageMapping().struct(message, (), "")
    if kind is None:
        raise DescriptorError(f"message {message.name} has no field that could be a column")
    return kind


class _MessageMapping:
    """Converts types, and counts the columns."""

    def __init__(self) -> None:
        self.columns = 0

    def struct(self, message: MessageDescriptor, outer: tuple[MessageDescriptor, ...], path: str) -> ColumnType | None:
        """The struct, or None if nothing is in it; ``outer`` are the messages around it."""
        if message in outer or len(outer) > MOST_DEPTH:
            problem = "is inside of itself" if message in outer else f"is more than {MOST_DEPTH} levels deep"
            raise DescriptorError(
                f"message {message.name} {problem}, at {path}, which has no columns in Spark: leave the format out, and use "
                "from_protobuf with its option recursive.fields.max.depth"
            )
        inner = (*outer, message)
        columns = {
            each.name: self._field(each, inner, f"{path}.{each.name}" if path else each.name) for each in message.fields
        }
        filled = {name: kind for name, kind in columns.items() if kind is not None}
        return struct(filled) if filled else None

    def _field(self, field: FieldDescriptor, outer: tuple[MessageDescriptor, ...], path: str) -> ColumnType | None:
        self.columns += 1
        if self.columns > MOST_COLUMNS:
            raise DescriptorError(f"there are more than {MOST_COLUMNS:,} columns")
        if field.is_map:
            key, value = (self._field(inner, outer, f"{path}.{inner.name}") for inner in field.inner.fields)
            return mapping(value, key) if key and value else None
        one = self._single(field, outer, path)
        return array(one) if one and field.repeated else one

    def _single(self, field: FieldDescriptor, outer: tuple[MessageDescriptor, ...], path: str) -> ColumnType | None:
        if field.message is None:
            return PLAIN[field.kind]
        return time_type(field.message) or self.struct(field.message, outer, path)


def time_type(message: MessageDescriptor) -> ColumnType | None:
    """TIMESTAMP or INTERVAL DAY TO SECOND, if the message is one of Google's two, or looks like it."""
    shape = [(each.name, each.kind, each.repeated) for each in message.fields]
    in_order = [each.number for each in message.fields] == sorted(each.number for each in message.fields)
    if not in_order or shape != [("seconds", FieldType.INT64, False), ("nanos", FieldType.INT32, False)]:
        return None
    return TIMES.get(message.short_name)
