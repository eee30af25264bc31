"""PySpark's types from ours, and back.

Built by hand: PySpark parses DDL text in the JVM, and the processes that make readers have no JVM.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sparkcohort.runtime.values.types import ColumnType, array, decimal, mapping

PLAIN: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "tinyint": ByteType(),
    "smallint": ShortType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
    "interval day to second": DayTimeIntervalType(),
}
_KINDS: Final = {each: kind for kind, each in PLAIN.items()}


def data_type(kind: ColumnType) -> DataType:
    """PySpark's type; every part of it is nullable.

    >>> data_type(array(ColumnType("int"))).simpleString()
    'array<int>'
    """
    if kind.kind == "struct":
        return StructType([StructField(*each) for each in zip(kind.names, map(data_type, kind.children), strict=True)])
    if kind.kind == "array":
        return ArrayType(data_type(kind.children[0]))
    if kind.kind == "map":
        return MapType(data_type(kind.children[0]), data_type(kind.children[1]))
    if kind.kind == "decimal":
        return DecimalType(kind.precision, kind.scale)
    return PLAIN[kind.kind]


def column_type(kind: DataType) -> ColumnType:
    """Our type for PySpark's.  A type that we don't have, or with NOT NULL inside, gets a kind that equals no other.

    >>> str(column_type(ArrayType(IntegerType(), containsNull=False)))
    'array<int> with NOT NULL inside'
    """
    if _has_not_null(kind):
        return ColumnType(kind.simpleString() + " with NOT NULL inside")
    if isinstance(kind, StructType):
        kinds = tuple(column_type(each.dataType) for each in kind.fields)
        return ColumnType("struct", kinds, tuple(kind.names))
    if isinstance(kind, ArrayType):
        return array(column_type(kind.elementType))
    if isinstance(kind, MapType):
        return mapping(column_type(kind.valueType), column_type(kind.keyType))
    if isinstance(kind, DecimalType):
        return decimal(kind.precision, kind.scale)
    return ColumnType(_KINDS.get(kind, kind.simpleString()))


def _has_not_null(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return not kind.containsNull or _has_not_null(kind.elementType)
    if isinstance(kind, MapType):
        return not kind.valueContainsNull or _has_not_null(kind.valueType) or _has_not_null(kind.keyType)
    if isinstance(kind, StructType):
        return any(not each.nullable or _has_not_null(each.dataType) for each in kind.fields)
    return False
