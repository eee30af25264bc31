"""What is read out of a JSON object: a list of fields, parents first, that native/values/json.c takes as it is."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from sparkcohort.runtime.values.types import ColumnType, walk, width

KINDS = (
    "struct", "array", "map", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double",
    "string", "binary", "decimal", "date", "timestamp", "timestamp_ntz",
)  # fmt: skip
"""A kind's number is its place here, as in native/values/json.h."""


class JsonReason(IntEnum):
    """Why a record, or a field of it, is null; the names are those of the counters."""

    SYNTAX = 1
    UTF8 = 2
    NOT_OBJECT = 3
    WRONG_TYPE = 4
    OUT_OF_RANGE = 5
    BAD_TEXT = 6

    @property
    def whole(self) -> bool:
        """Whether the record is lost, and not just a field."""
        return self <= JsonReason.NOT_OBJECT


class JsonField(NamedTuple):
    """A column: ``path`` from the record, ``name`` in its struct, and how many columns are inside of it."""

    path: str
    name: str
    type: ColumnType
    inside: int


class JsonPlanError(ValueError):
    """No JSON object can be read into this type."""


def plan(target: ColumnType) -> tuple[JsonField, ...]:
    r"""The fields of a type, parents first.

    >>> from sparkcohort.runtime.values.types import BIGINT, STRING, array, struct
    >>> print(*(f"{field.path}: {field.type}" for field in plan(struct({"id": BIGINT, "tags": array(STRING)}))), sep="\n")
    value: struct<id:bigint,tags:array<string>>
    value.id: bigint
    value.tags: array<string>
    value.tags.element: string
    """
    if target.kind != "struct":
        raise JsonPlanError(f"a JSON object becomes a STRUCT, not {target}")
    fields = []
    for path, kind in walk(target):
        _check(path, kind)
        fields.append(JsonField(path, path.rpartition(".")[2], kind, width(kind) - 1))
    for place, field in enumerate(fields):
        if field.type.kind == "struct":
            child = place + 1
            for name in field.type.names:
                fields[child] = fields[child]._replace(name=name)
                child += 1 + fields[child].inside
    return tuple(fields)


def _check(path: str, kind: ColumnType) -> None:
    if kind.kind not in KINDS:
        raise JsonPlanError(f"{path}: JSON has no values for {kind}")
    if len(set(kind.names)) < len(kind.names):
        raise JsonPlanError(f"{path}: two fields of one name")
    if any("\0" in name for name in kind.names):
        raise JsonPlanError(f"{path}: a field's name with a zero in it")
    if kind.kind == "map" and kind.children[0].kind != "string":
        raise JsonPlanError(f"{path}: JSON's names are STRING, so must be the keys of a MAP")


def packed(fields: tuple[JsonField, ...]) -> tuple[bytes, bytes]:
    """The plan as native/values/json.c takes it: numbers, and names."""
    numbers = [(KINDS.index(each.type.kind), each.inside, each.type.precision, each.type.scale) for each in fields]
    names = b"".join(each.name.encode() + b"\0" for each in fields)
    return b"".join(struct.pack("=4i", *each) for each in numbers), names


def words(reason: JsonReason, place: int, fields: tuple[JsonField, ...]) -> str:
    """What is wrong, without the value.

    >>> words(JsonReason.SYNTAX, 17, ())
    'not JSON at byte 17'
    """
    if reason is JsonReason.SYNTAX:
        return f"not JSON at byte {place}"
    if reason is JsonReason.UTF8:
        return f"not UTF-8 at byte {place}"
    if reason is JsonReason.NOT_OBJECT:
        return "not a JSON object"
    problem = {
        JsonReason.WRONG_TYPE: "JSON of another type than",
        JsonReason.OUT_OF_RANGE: "a number out of the range of",
        JsonReason.BAD_TEXT: "a text that can't be read as",
    }[reason]
    return f"{fields[place].path}: {problem} {fields[place].type}"
