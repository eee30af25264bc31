"""The columns that a write takes, by the names and types that Spark's own sink asks for (``KafkaWriter``).

>>> sink_columns([("n", "int"), ("VALUE", "string"), ("topic", "string")], has_topic=False)
{'topic': 2, 'value': 1}
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from sparkcohort.runtime.errors import OptionError

TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
    "timestamp": ("timestamp",),  # Spark's sink takes it after 4.2
}
"""Spark's types of each column, by its name, in the order in which Spark's sink checks them."""


def sink_columns(
    schema: Sequence[tuple[str, str]], *, has_topic: bool, structs: Collection[str] = ()
) -> dict[str, int]:
    """The place of each column that is written, of a schema's names and types; all others are ignored.

    ``has_topic``: the option topic is set, so that a column of this name counts for nothing.  ``structs``: the columns with a format
    of structs.  Raises OptionError in Spark's words, with what to do.
    """
    columns: dict[str, int] = {}
    for name, types in TYPES.items():
        if name == "topic" and has_topic:
            continue
        place = _place(name, [column for column, _ in schema])
        if place is not None:
            _check_type(name, schema[place][1], ("struct",) if name in structs else types)
            columns[name] = place
        elif name == "topic":
            raise OptionError(
                "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic: "
                ".option('topic', 'billed')"
            )
        elif name == "value":
            raise OptionError(
                "Required attribute 'value' not found: name the column that is written value, with select(...)"
            )
    return columns


def _place(name: str, columns: Sequence[str]) -> int | None:
    """The place of a column of this name, else of one that differs in case only."""
    if name in columns:
        return columns.index(name)
    return next((place for place, column in enumerate(columns) if column.lower() == name), None)


def _check_type(name: str, kind: str, types: Sequence[str]) -> None:
    """Raises OptionError for a type that the column can't have; names of fields are compared without regard to case."""
    is_nested = kind.startswith(("struct", "array", "map"))
    if kind.lower() in types or (types == ("struct",) and kind.startswith("struct<")):
        return
    remedy = {
        "partition": "cast it to int, or drop it",
        "headers": "build it with array(struct(... AS key, ... AS value))",
        "timestamp": "cast it to timestamp, or drop it, for the time of writing",
    }
    cast = (
        f"set {name}.format to json, avro or protobuf for a struct, or encode it with to_json(...)"
        if is_nested
        else "cast it to string"
    )
    if types == ("struct",):
        cast = f"build it with struct(...), or leave {name}.format out for what is encoded already"
    raise OptionError(
        f"{name} attribute unsupported type {kind}. {name} must be a(n) {' or '.join(types)}: {remedy.get(name, cast)}"
    )
