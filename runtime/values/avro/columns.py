"""Spark's type for an Avro schema, as ``from_avro`` of Spark 4.2 has it (SchemaConverters).

What differs: ``time-micros`` is BIGINT, microseconds since midnight, where Spark says TIME, which it has switched off;
a ``null`` alone has no column; and Spark's own property ``spark.sql.catalyst.type`` (intervals) is not looked at.
"""

from __future__ import annotations

from sparkcohort.runtime.values.avro.schema import MOST_DEPTH, AvroSchema, AvroSchemaError, subpath
from sparkcohort.runtime.values.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
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
MOST_RECURSION = 15  # Spark's limit for recursiveFieldMaxDepth
MOST_COLUMNS = 10_000


def column_type(schema: AvroSchema, recursive_depth: int = -1) -> ColumnType:
    """The type of a column that holds what ``schema`` describes.

    A record inside of itself is refused, unless ``recursive_depth`` (Spark's ``recursiveFieldMaxDepth``) tells how
    often it may be there: then the field one deeper is left out.
    """
    if recursive_depth > MOST_RECURSION:
        raise AvroSchemaError("", f"a recursive record may be there {MOST_RECURSION} times at most")
    kind = _Mapping(recursive_depth).convert(schema, {}, "")
    if kind is None:
        raise AvroSchemaError("", "nothing is left of it at this depth of recursion")
    return kind


class _Mapping:
    """Converts types, and counts the columns."""

    def __init__(self, recursive_depth: int) -> None:
        self.recursive_depth = recursive_depth
        self.columns = self.depth = 0

    def convert(self, schema: AvroSchema, outer: dict[str, int], path: str) -> ColumnType | None:
        """The type, or None for what recursion leaves out; ``outer`` counts the records around it, by name."""
        self.columns += 1
        if self.columns > MOST_COLUMNS:
            raise AvroSchemaError(path, f"more than {MOST_COLUMNS:,} columns")
        if self.depth > MOST_DEPTH:  # by name; as text it has been counted when it was parsed
            raise AvroSchemaError(path, f"more than {MOST_DEPTH} types inside of each other")
        self.depth += 1
        kind = self._inside(schema, outer, path)
        self.depth -= 1
        return kind

    def _inside(self, schema: AvroSchema, outer: dict[str, int], path: str) -> ColumnType | None:
        if schema.kind == "record":
            return self._record(schema, outer, path)
        if schema.kind == "union":
            return self._union(schema, outer, path)
        if schema.kind in ("array", "map"):
            item = self.convert(schema.item, outer, subpath(path, "items" if schema.kind == "array" else "values"))
            if item is None:
                return None
            return array(item) if schema.kind == "array" else mapping(item)
        if schema.kind == "null":
            raise AvroSchemaError(path, "null alone has no column")
        logical = schema.logical
        if logical and logical.name == "decimal":
            if logical.precision > MOST_DIGITS:
                raise AvroSchemaError(path, f"a decimal of {logical.precision} digits; Spark has {MOST_DIGITS}")
            return decimal(logical.precision, logical.scale)
        return BY_LOGICAL_TYPE.get(logical.name if logical else "", PLAIN[schema.kind])

    def _record(self, schema: AvroSchema, outer: dict[str, int], path: str) -> ColumnType | None:
        depth = outer.get(schema.name, 0)
        if depth and self.recursive_depth <= 0:
            raise AvroSchemaError(path, f"record {schema.name!r} is inside of itself, which has no columns in Spark")
        if depth and depth >= self.recursive_depth:
            return None
        inner = outer | {schema.name: depth + 1}
        columns = {each.name: self.convert(each.schema, inner, subpath(path, each.name)) for each in schema.fields}
        return struct({name: kind for name, kind in columns.items() if kind is not None})

    def _union(self, schema: AvroSchema, outer: dict[str, int], path: str) -> ColumnType | None:
        branches = value_branches(schema)
        if not branches:
            raise AvroSchemaError(path, "null alone has no column")
        if len(branches) == 1:
            return self.convert(branches[0], outer, path)
        if (both := number_union(branches)) is not None:
            return both
        columns = {f"member{i}": self.convert(branch, outer, path) for i, branch in enumerate(branches)}
        return struct({name: kind for name, kind in columns.items() if kind is not None})


def check_target(schema: AvroSchema, target: ColumnType, path: str = "") -> None:
    """Refuse a type that is not the schema's own, or what is left of it when fields are not asked for.

    >>> check_target(AvroSchema("long"), STRING)
    Traceback (most recent call last):
    sparkcohort.runtime.values.avro.schema.AvroSchemaError: Avro schema: its column is bigint, not string
    """
    branches = value_branches(schema)
    if schema.kind == "union" and len(branches) == 1:
        check_target(branches[0], target, path)
    elif schema.kind == "record" and target.kind == "struct":
        _check_fields({each.name: each.schema for each in schema.fields}, target, path)
    elif len(branches) > 1 and number_union(branches) is None and target.kind == "struct":
        _check_fields({f"member{number}": branch for number, branch in enumerate(branches)}, target, path)
    elif schema.kind in ("array", "map") and target.kind == schema.kind and target.children[:-1] in ((), (STRING,)):
        check_target(schema.item, target.children[-1], subpath(path, "items" if schema.kind == "array" else "values"))
    elif schema.kind == "record" or (own := column_type(schema)) != target:
        raise AvroSchemaError(path, f"its column is {'struct' if schema.kind == 'record' else own}, not {target}")


def _check_fields(fields: dict[str, AvroSchema], target: ColumnType, path: str) -> None:
    alike = {name.lower(): name for name in fields}
    for number, (name, kind) in enumerate(zip(target.names, target.children, strict=True)):
        field_path = subpath(path, name)
        if name in target.names[:number]:
            raise AvroSchemaError(field_path, "the column is there twice")
        if name in fields:
            check_target(fields[name], kind, field_path)
        elif name.lower() in alike:
            raise AvroSchemaError(field_path, f"its field is {alike[name.lower()]!r}: names go by upper and lower case")
        else:
            raise AvroSchemaError(field_path, "there is no such field")


def value_branches(union: AvroSchema) -> list[AvroSchema]:
    """A union's branches but null."""
    return [branch for branch in union.branches if branch.kind != "null"]


def number_union(branches: list[AvroSchema]) -> ColumnType | None:
    """BIGINT for int and long, DOUBLE for float and double: such a union is one column."""
    kinds = {branch.kind for branch in branches}
    if len(branches) != 2:
        return None
    return BIGINT if kinds == {"int", "long"} else DOUBLE if kinds == {"float", "double"} else None
