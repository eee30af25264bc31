"""Spark's types, as far as a decoded value can have them; nothing here knows Spark or Arrow.

>>> str(SparkType("struct", (TypeField("id", SparkType("bigint"), nullable=False), TypeField("a b", SparkType("date")))))
'struct<`id`:bigint not null,`a b`:date>'
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SparkType:
    """A type by Spark's own name for it.

    ``fields`` are those of a struct, the ``element`` of an array, the ``key`` and ``value`` of a map; precision and scale
    are a decimal's.
    """

    kind: str
    fields: tuple[TypeField, ...] = ()
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.kind == "struct":
            return f"struct<{','.join(map(str, self.fields))}>"
        if self.kind == "decimal":
            return f"decimal({self.precision},{self.scale})"
        return f"{self.kind}<{','.join(str(each.type) for each in self.fields)}>" if self.fields else self.kind


@dataclass(frozen=True, slots=True)
class TypeField:
    """A field of a struct, or a part of an array or a map."""

    name: str
    type: SparkType
    nullable: bool = True

    def __str__(self) -> str:
        name = self.name.replace("`", "``")
        return f"`{name}`:{self.type}{'' if self.nullable else ' not null'}"


def array_of(element: SparkType) -> SparkType:
    """ARRAY<element>, whose elements may be null."""
    return SparkType("array", (TypeField("element", element),))


def map_of(key: SparkType, value: SparkType) -> SparkType:
    """MAP<key, value>, whose values may be null."""
    return SparkType("map", (TypeField("key", key, nullable=False), TypeField("value", value)))
