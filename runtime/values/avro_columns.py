"""Spark's type for an Avro schema, as ``from_avro`` of Spark 4.2 has it (SchemaConverters).

What differs: ``time-micros`` is BIGINT, microseconds since midnight, where Spark says TIME, which it has switched off;
a ``null`` alone has no column; and Spark's own property ``spark.sql.catalyst.type`` (intervals) is not looked at.
"""

from __future__ import annotations

from sparkcohort.runtime.values.avro_schema import MOST_DEPTH, AvroSchema, AvroSchemaError, subpath
from sparkcohort.runtime.values.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MOST_COLUMNS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ColumnType,
    array,
    decimal,
    mapping,
    struct,
)

PLAIN = {
    "boolean": BOOLEAN,
    "int": INT,
    "long": BIGINT,
    "float": FLOAT,
    "double": DOUBLE,
    "bytes": BINARY,
    "fixed": BINARY,
    "string": STRING,
    "enum": STRING,
}
BY_LOGICAL_TYPE = {
    "date": DATE,
    "timestamp-millis": TIMESTAMP,
    "timestamp-micros": TIMESTAMP,
    "local-timestamp-millis": TIMESTAMP_NTZ,
    "local-timestamp-micros": TIMESTAMP_NTZ,
}
MOST_DIGITS = 38  # of a decimal, in Spark and in Arrow


def column_type(schema: AvroSchema) -> ColumnType:
    """The type of a column that holds what ``schema`` describes; a record inside of itself is refused."""
    return _Mapping().convert(schema, (), "")


class _Mapping:
    """Converts types, and counts the columns."""

    def __init__(self) -> None:
        self.columns = self.depth = 0

    def convert(self, schema: AvroSchema, outer: tuple[str, ...], path: str) -> ColumnType:
        """The type; ``outer`` are the names of the records around it."""
        self.columns += 1
        if self.columns > MOST_COLUMNS:
            raise AvroSchemaError(path, f"more than {MOST_COLUMNS:,} columns")
        if self.depth > MOST_DEPTH:  # by name; as text it has been counted when it was parsed
            raise AvroSchemaError(path, f"more than {MOST_DEPTH} types inside of each other")
        self.depth += 1
        kind = self._inside(schema, outer, path)
        self.depth -= 1
        return kind

    def _inside(self, schema: AvroSchema, outer: tuple[str, ...], path: str) -> ColumnType:
        if schema.kind == "record":
            if schema.name in outer:
                raise AvroSchemaError(
                    path, f"record {schema.name!r} is inside of itself, which has no columns in Spark"
                )
            inner = (*outer, schema.name)
            return struct(
                {each.name: self.convert(each.schema, inner, subpath(path, each.name)) for each in schema.fields}
            )
        if schema.kind == "union":
            return self._union(schema, outer, path)
        if schema.kind == "array":
            return array(self.convert(schema.item, outer, subpath(path, "items")))
        if schema.kind == "map":
            return mapping(self.convert(schema.item, outer, subpath(path, "values")))
        if schema.kind == "null":
            raise AvroSchemaError(path, "null alone has no column")
        logical = schema.logical
        if logical and logical.name == "decimal":
            if logical.precision > MOST_DIGITS:
                raise AvroSchemaError(path, f"a decimal of {logical.precision} digits; Spark has {MOST_DIGITS}")
            return decimal(logical.precision, logical.scale)
        return BY_LOGICAL_TYPE.get(logical.name if logical else "", PLAIN[schema.kind])

    def _union(self, schema: AvroSchema, outer: tuple[str, ...], path: str) -> ColumnType:
        branches = value_branches(schema)
        if not branches:
            raise AvroSchemaError(path, "null alone has no column")
        if len(branches) == 1:
            return self.convert(branches[0], outer, path)
        if (both := number_union(branches)) is not None:
            return both
        return struct({f"member{i}": self.convert(branch, outer, path) for i, branch in enumerate(branches)})


def value_branches(union: AvroSchema) -> list[AvroSchema]:
    """A union's branches but null."""
    return [branch for branch in union.branches if branch.kind != "null"]


def number_union(branches: list[AvroSchema]) -> ColumnType | None:
    """BIGINT for int and long, DOUBLE for float and double: such a union is one column."""
    kinds = {branch.kind for branch in branches}
    if len(branches) != 2:
        return None
    return BIGINT if kinds == {"int", "long"} else DOUBLE if kinds == {"float", "double"} else None
