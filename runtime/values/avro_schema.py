"""Avro's schemas: their text (JSON) becomes checked values, with the path of the field in every error.

The rules are those of the specification: https://avro.apache.org/docs/1.12.0/specification/.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
MOST_DEPTH = 64  # types inside of types, as the text has them

LOGICAL = {
    "int": ("date", "time-millis"),
    "long": (
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "timestamp-nanos",
        "local-timestamp-millis",
        "local-timestamp-micros",
        "local-timestamp-nanos",
    ),
    "string": ("uuid",),
    "bytes": ("decimal",),
    "fixed": ("decimal", "duration", "uuid"),
}
FIXED_SIZES = {"duration": 12, "uuid": 16}
SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}  # of every value, in bytes
MOST_BYTES = (1 << 31) - 1  # of a record: no column has more
MISSING = object()
"""The default of a field that has none; None is Avro's null."""


class AvroSchemaError(ValueError):
    """A schema that breaks Avro's rules, or that has no columns in Spark."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"Avro schema, at {path}: {reason}" if path else f"Avro schema: {reason}")


@dataclass(frozen=True, slots=True)
class LogicalType:
    """What a primitive or fixed stands for.  An unknown or impossible one is none: the specification says so."""

    name: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class AvroField:
    """A field of a record; ``default`` is JSON, or ``MISSING``."""

    name: str
    schema: AvroSchema
    aliases: tuple[str, ...] = ()
    default: Any = MISSING


@dataclass(slots=True, eq=False)
class AvroSchema:
    """One type.  A record may hold itself, so values are told apart by identity; nothing changes them once parsed."""

    kind: str
    name: str = ""  # with its namespace: a full name
    aliases: tuple[str, ...] = ()  # full names
    logical: LogicalType | None = None
    size: int = 0  # of fixed
    symbols: tuple[str, ...] = ()  # of enum
    default: str | None = None  # of enum
    items: AvroSchema | None = None  # of array, and the values of map
    fields: tuple[AvroField, ...] = ()  # of record
    branches: tuple[AvroSchema, ...] = field(default=())  # of union
    exact: int | None = None  # the bytes of every value, where all have as many
    least: int = 0  # the fewest bytes that a value takes, or fewer: a record inside of itself counts as nothing

    def __post_init__(self) -> None:
        """A record is measured once its fields are known, a fixed with its size."""
        if self.kind not in ("record", "fixed"):
            self.measure()

    def measure(self) -> None:
        """Work out the sizes from those of what is inside, which comes first: however deep that is, it is one look."""
        if self.kind == "record":
            exact = [each.schema.exact for each in self.fields]
            whole = [size for size in exact if size is not None]
            self.exact = min(sum(whole), MOST_BYTES) if len(whole) == len(exact) else None
            self.least = min(sum(each.schema.least for each in self.fields), MOST_BYTES)
        elif self.kind == "union":
            self.least = 1 + min((branch.least for branch in self.branches), default=0)
        else:
            self.exact = self.size if self.kind == "fixed" else SIZES.get(self.kind)
            self.least = 1 if self.exact is None else self.exact

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]

    @property
    def item(self) -> AvroSchema:
        """The type of an array's items, or of a map's values."""
        if self.items is None:
            raise AvroSchemaError("", f"{self.kind} has no items")
        return self.items

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>" if self.name else f"<{self.kind}>"


def parse_schema(text: str, references: Iterable[str] = ()) -> AvroSchema:
    """The type that ``text`` describes; ``references`` are the texts that define names it uses, in their order.

    >>> parse_schema('{"type": "record", "name": "Order", "namespace": "shop", "fields": []}')
    <record shop.Order>
    """
    parser = _Parser()
    for reference in references:
        parser.parse(_load(reference), "", "", 0)
    return parser.parse(_load(text), "", "", 0)


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AvroSchemaError("", f"it is not JSON ({error})") from None


def subpath(path: str, name: str) -> str:
    """The path of what is inside of ``path``."""
    return f"{path}.{name}" if path else name


class _Parser:
    """Reads types; knows the names defined so far."""

    def __init__(self) -> None:
        self.types: dict[str, AvroSchema] = {}

    def parse(self, node: Any, namespace: str, path: str, depth: int) -> AvroSchema:
        if depth > MOST_DEPTH:
            raise AvroSchemaError(path, f"more than {MOST_DEPTH} types inside of each other")
        if isinstance(node, str):
            return self._by_name(node, namespace, path)
        if isinstance(node, list):
            return self._union(node, namespace, path, depth)
        if not isinstance(node, dict):
            raise AvroSchemaError(path, f"a type is a name, a list or an object, not {json.dumps(node)[:40]}")
        kind = node.get("type")
        if kind in PRIMITIVES:
            return AvroSchema(kind, logical=_logical(kind, node))
        if kind in ("record", "error"):
            return self._record(node, namespace, path, depth)
        if kind == "enum":
            return self._enum(node, namespace, path)
        if kind == "fixed":
            return self._fixed(node, namespace, path)
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            if inner not in node:
                raise AvroSchemaError(path, f"{kind} has no {inner!r}")
            return AvroSchema(kind, items=self.parse(node[inner], namespace, subpath(path, inner), depth + 1))
        if kind is None:
            raise AvroSchemaError(path, "an object without 'type'")
        return self.parse(kind, namespace, path, depth + 1)

    def _by_name(self, name: str, namespace: str, path: str) -> AvroSchema:
        if name in PRIMITIVES:
            return AvroSchema(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        kind = self.types.get(full) or self.types.get(name)
        if kind is None:
            raise AvroSchemaError(path, f"the type {full!r} is not defined before it is used")
        return kind

    def _union(self, node: list[Any], namespace: str, path: str, depth: int) -> AvroSchema:
        branches = [self.parse(each, namespace, path, depth + 1) for each in node]
        kinds: set[str] = set()
        for branch in branches:
            if branch.kind == "union":
                raise AvroSchemaError(path, "a union right inside of a union")
            if (key := branch.name or branch.kind) in kinds:
                raise AvroSchemaError(path, f"a union that has {key!r} twice")
            kinds.add(key)
        return AvroSchema("union", branches=tuple(branches))

    def _record(self, node: Mapping[str, Any], namespace: str, path: str, depth: int) -> AvroSchema:
        record = self._define("record", node, namespace, path)
        inner = record.name.rpartition(".")[0]
        if not isinstance(node.get("fields"), list):
            raise AvroSchemaError(path, f"record {record.name!r} has no list 'fields'")
        fields: dict[str, AvroField] = {}
        for entry in node["fields"]:
            if not isinstance(entry, dict) or "type" not in entry:
                raise AvroSchemaError(path, f"a field of {record.name!r} is no object with 'name' and 'type'")
            name = _check_name(entry.get("name"), path)
            field_path = subpath(path, name)
            if name in fields:
                raise AvroSchemaError(field_path, "the field is there twice")
            schema = self.parse(entry["type"], inner, field_path, depth + 1)
            fields[name] = AvroField(name, schema, _texts(entry, "aliases", field_path), entry.get("default", MISSING))
        record.fields = tuple(fields.values())
        record.measure()
        return record

    def _enum(self, node: Mapping[str, Any], namespace: str, path: str) -> AvroSchema:
        enum = self._define("enum", node, namespace, path)
        symbols = tuple(_check_name(each, path) for each in _texts(node, "symbols", path))
        if not symbols or len(set(symbols)) < len(symbols):
            raise AvroSchemaError(path, f"enum {enum.name!r} has no symbols, or one twice")
        enum.symbols, enum.default = symbols, node.get("default")
        if enum.default is not None and enum.default not in symbols:
            raise AvroSchemaError(path, f"the default of enum {enum.name!r} is none of its symbols")
        return enum

    def _fixed(self, node: Mapping[str, Any], namespace: str, path: str) -> AvroSchema:
        fixed = self._define("fixed", node, namespace, path)
        size = node.get("size")
        if type(size) is not int or not 0 <= size < 1 << 31:
            raise AvroSchemaError(path, f"fixed {fixed.name!r} has no 'size' in bytes")
        fixed.size, fixed.logical = size, _logical("fixed", node)
        fixed.measure()
        return fixed

    def _define(self, kind: str, node: Mapping[str, Any], namespace: str, path: str) -> AvroSchema:
        full = _full_name(node.get("name"), node.get("namespace", namespace), path)
        if full in PRIMITIVES:
            raise AvroSchemaError(path, f"{full!r} is the name of a primitive type")
        if full in self.types:
            raise AvroSchemaError(path, f"the name {full!r} is defined twice")
        inner = full.rpartition(".")[0]
        aliases = tuple(_full_name(each, inner, path) for each in _texts(node, "aliases", path))
        self.types[full] = AvroSchema(kind, name=full, aliases=aliases)
        return self.types[full]


def _full_name(name: Any, namespace: Any, path: str) -> str:
    if not isinstance(name, str) or not (namespace is None or isinstance(namespace, str)):
        raise AvroSchemaError(path, "a record, enum or fixed without a name, or with one that is no text")
    full = name if "." in name or not namespace else f"{namespace}.{name}"
    for part in full.removeprefix(".").split("."):
        _check_name(part, path)
    return full.removeprefix(".")


def _check_name(name: Any, path: str) -> str:
    """A name as Avro's Java library takes it: letters, digits and underscores, no digit first."""
    if isinstance(name, str) and name.replace("_", "a").isalnum() and not name[0].isdigit():
        return name
    raise AvroSchemaError(path, f"{json.dumps(name)[:60]} is no name: letters, digits and _, no digit first")


def _texts(node: Mapping[str, Any], key: str, path: str) -> tuple[str, ...]:
    texts = node.get(key, [])
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise AvroSchemaError(path, f"{key!r} is no list of texts")
    return tuple(texts)


def _logical(kind: str, node: Mapping[str, Any]) -> LogicalType | None:
    name = node.get("logicalType")
    if name not in LOGICAL.get(kind, ()):
        return None
    if kind == "fixed" and node["size"] != FIXED_SIZES.get(name, node["size"]):
        return None
    if name != "decimal":
        return LogicalType(name)
    precision, scale = node.get("precision"), node.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision < 1:
        return None
    if kind == "fixed" and precision > most_digits(node["size"]):
        return None
    return LogicalType(name, precision, scale)


def most_digits(size: int) -> int:
    """How many decimal digits always fit in a signed number of so many bytes.

    >>> [most_digits(size) for size in (1, 4, 8, 16)]
    [2, 9, 18, 38]
    """
    return math.floor(math.log10(2) * (8 * size - 1)) if size else 0
