"""A field's default, which a schema has as JSON, in Avro's binary form: it is then read as a record's bytes are."""

from __future__ import annotations

import struct
from typing import Any

from sparkcohort.runtime.values.avro_schema import MISSING, MOST_DEPTH, AvroSchema, AvroSchemaError, subpath

RANGES = {"int": 1 << 31, "long": 1 << 63}
MOST_VALUES = 100_000
FORMATS = {"float": "<f", "double": "<d"}


class EndlessDefaultError(AvroSchemaError):
    """A default that contains itself, or has too many values."""


class Budget:
    """How many values a default may still have, and how deep."""

    def __init__(self) -> None:
        self.values, self.depth = MOST_VALUES, MOST_DEPTH


def encode_default(schema: AvroSchema, value: Any, path: str) -> bytes:
    r"""The bytes of ``value``; of a union, it is the first branch that it fits.

    >>> encode_default(AvroSchema("string"), "none", "origin")
    b'\x08none'
    """
    return _inner(schema, value, path, Budget())


def _inner(schema: AvroSchema, value: Any, path: str, budget: Budget) -> bytes:
    budget.values -= 1
    budget.depth -= 1
    if budget.values < 0 or budget.depth < 0:
        raise EndlessDefaultError(path, "a default that never ends")
    encoded = _encode(schema, value, path, budget)
    budget.depth += 1
    if encoded is None:
        raise AvroSchemaError(path, f"a default that is no {schema.kind}")
    return encoded


def _encode(schema: AvroSchema, value: Any, path: str, budget: Budget) -> bytes | None:
    kind = schema.kind
    if kind == "null":
        return b"" if value is None else None
    if kind == "boolean":
        return bytes([value]) if isinstance(value, bool) else None
    if kind in RANGES:
        return varint(value) if type(value) is int and -RANGES[kind] <= value < RANGES[kind] else None
    if kind in FORMATS:
        return _number(FORMATS[kind], value) if type(value) in (int, float) else None
    if kind == "string":
        return _sized(value.encode()) if isinstance(value, str) else None
    if kind in ("bytes", "fixed"):
        return _raw(schema, value)
    if kind == "enum":
        return varint(schema.symbols.index(value)) if value in schema.symbols else None
    if kind == "union":
        return _union(schema, value, path, budget)
    if kind == "record":
        return _record(schema, value, path, budget) if isinstance(value, dict) else None
    items = value if isinstance(value, list) and kind == "array" else ()
    pairs = value.items() if isinstance(value, dict) and kind == "map" else [(None, item) for item in items]
    if not isinstance(value, list if kind == "array" else dict):
        return None
    inner = [
        (b"" if key is None else _sized(key.encode())) + _inner(schema.item, item, path, budget) for key, item in pairs
    ]
    return (varint(len(inner)) + b"".join(inner) if inner else b"") + b"\0"


def _number(form: str, value: float) -> bytes | None:
    try:
        return struct.pack(form, value)
    except OverflowError:
        return None


def _raw(schema: AvroSchema, value: Any) -> bytes | None:
    """JSON has bytes as text, a code point up to 255 for each."""
    if not isinstance(value, str) or max(value, default="") > "\xff":
        return None
    data = value.encode("latin-1")
    if schema.kind == "bytes":
        return _sized(data)
    return data if len(data) == schema.size else None


def _union(schema: AvroSchema, value: Any, path: str, budget: Budget) -> bytes | None:
    for number, branch in enumerate(schema.branches):
        depth = budget.depth
        try:
            return varint(number) + _inner(branch, value, path, budget)
        except EndlessDefaultError:
            raise
        except AvroSchemaError:
            budget.depth = depth
    return None


def _record(schema: AvroSchema, value: dict[str, Any], path: str, budget: Budget) -> bytes:
    parts = []
    for field in schema.fields:
        inner = value.get(field.name, field.default)
        field_path = subpath(path, field.name)
        if inner is MISSING:
            raise AvroSchemaError(field_path, "neither the field nor the default of its record has a default for it")
        parts.append(_inner(field.schema, inner, field_path, budget))
    return b"".join(parts)


def _sized(data: bytes) -> bytes:
    return varint(len(data)) + data


def varint(number: int) -> bytes:
    """An int or long as Avro writes it: zigzag, seven bits a byte, the lowest first.

    >>> [varint(number).hex() for number in (0, -1, 1, 64)]
    ['00', '01', '02', '8001']
    """
    zigzag = (number << 1) ^ (number >> 63)
    data = bytearray()
    while zigzag > 0x7F:
        data.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    data.append(zigzag)
    return bytes(data)
