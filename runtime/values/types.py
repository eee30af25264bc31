"""Spark's types, as far as a decoded value can have them; nothing here knows Spark or Arrow."""

from __future__ import annotations

import struct as struct_module
from collections.abc import Iterator
from typing import NamedTuple


class ColumnType(NamedTuple):
    """A type by Spark's own name for it; all of it may be null, as with ``from_json``.

    ``children`` are a struct's fields (with ``names``), an array's element, a map's key and value; precision and scale are
    a decimal's.  Its text is Spark's ``simpleString``.
    """

    kind: str
    children: tuple[ColumnType, ...] = ()
    names: tuple[str, ...] = ()
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.kind == "struct":
            fields = zip(self.names, self.children, strict=True)
            return f"struct<{','.join(f'{name}:{child}' for name, child in fields)}>"
        if self.kind == "decimal":
            return f"decimal({self.precision},{self.scale})"
        return f"{self.kind}<{','.join(map(str, self.children))}>" if self.children else self.kind


INT, BIGINT, FLOAT, DOUBLE, BOOLEAN, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ = map(
    ColumnType,
    ("int", "bigint", "float", "double", "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz"),
)
INTERVAL = ColumnType("interval day to second")
MOST_COLUMNS = (
    10_000  # of one schema: where types are inside of each other by name, a short text may stand for any number
)


def decimal(precision: int, scale: int) -> ColumnType:
    """DECIMAL(precision, scale)."""
    return ColumnType("decimal", precision=precision, scale=scale)


def array(element: ColumnType) -> ColumnType:
    """ARRAY<element>."""
    return ColumnType("array", (element,))


def mapping(value: ColumnType, key: ColumnType = STRING) -> ColumnType:
    """MAP<key, value>."""
    return ColumnType("map", (key, value))


def struct(fields: dict[str, ColumnType]) -> ColumnType:
    """STRUCT<fields>.

    >>> str(struct({"id": BIGINT, "tags": array(STRING)}))
    'struct<id:bigint,tags:array<string>>'
    """
    return ColumnType("struct", tuple(fields.values()), tuple(fields))


def ddl(kind: ColumnType) -> str:
    """A type as a user writes it.

    >>> ddl(struct({"id": BIGINT, "my tags": array(STRING)}))
    'STRUCT<id: BIGINT, `my tags`: ARRAY<STRING>>'
    """
    if kind.kind == "struct":
        fields = zip(kind.names, kind.children, strict=True)
        return f"STRUCT<{', '.join(f'{_quote_name(name)}: {ddl(child)}' for name, child in fields)}>"
    if kind.kind == "decimal":
        return f"DECIMAL({kind.precision},{kind.scale})"
    inside = f"<{', '.join(map(ddl, kind.children))}>" if kind.children else ""
    return kind.kind.upper() + inside


def _quote_name(name: str) -> str:
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name.isdigit()
    return name if plain else f"`{name.replace('`', '``')}`"


def walk(root: ColumnType, path: str = "value") -> Iterator[tuple[str, ColumnType]]:
    """Every column of a type, parents first, with its path: the place in this order is a column's number."""
    yield path, root
    names = {"array": ("element",), "map": ("key", "value")}.get(root.kind, root.names)
    for name, child in zip(names, root.children, strict=True):
        yield from walk(child, f"{path}.{name}")


def type_difference(part: ColumnType, whole: ColumnType, path: str) -> str:
    """Where a type differs from the whole but by missing fields; "" if it is a part of it."""
    if part.kind != whole.kind or part.kind not in ("struct", "array", "map"):
        return "" if part == whole else f"{path} is {ddl(part)} instead of {ddl(whole)}"
    if part.kind != "struct":
        inside = zip(part.children, whole.children, strict=True)
        return next((text for item in inside if (text := type_difference(*item, f"{path}[]"))), "")
    if len(set(part.names)) < len(part.names):
        return f"{path} has two fields of one name"
    outer = dict(zip(whole.names, whole.children, strict=True))
    for name, inner in zip(part.names, part.children, strict=True):
        if name not in outer:
            return f"there is no {path}.{name}"
        if difference := type_difference(inner, outer[name], f"{path}.{name}"):
            return difference
    return ""


NATIVE_KINDS = {
    "struct": 0,
    "array": 1,
    "map": 2,
    "boolean": 3,
    "int": 4,
    "date": 4,
    "bigint": 5,
    "timestamp": 5,
    "timestamp_ntz": 5,
    "interval day to second": 5,
    "float": 6,
    "double": 7,
    "binary": 8,
    "string": 9,
    "decimal": 10,
}
"""By kind, as native/values/tree.h numbers them."""


def packed(root: ColumnType) -> bytes:
    """The columns as native/values takes them: for each its kind's number, and how many columns are inside of it."""
    numbers = [number for _, each in walk(root) for number in (NATIVE_KINDS[each.kind], width(each) - 1)]
    return struct_module.pack(f"={len(numbers)}i", *numbers)


def width(root: ColumnType) -> int:
    """How many columns a type is, itself included."""
    return 1 + sum(map(width, root.children))
