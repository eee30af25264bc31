r"""Which columns a query delivers, in which order: one value, from the door to the native code and the pipe.

Nothing that isn't among them is built or copied on the way.

>>> [column.name for column in KAFKA_ROW]
['key', 'value', 'topic', 'partition', 'offset', 'timestamp', 'timestampType']
>>> chosen = chosen_columns([UserColumn("Timestamp", "timestamp"), UserColumn("value", "binary")], KAFKA_ROW_WITH_HEADERS)
>>> [(column.name, column.field.name) for column in chosen], fields_of(chosen)
([('Timestamp', 'TIMESTAMP'), ('value', 'VALUE')], b'\x05\x01')
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.values.formats import RAW, Decoding, Format


class Field(IntEnum):
    """What a record has; the native code knows it by these numbers (``native/arrow/columns.h``)."""

    KEY = 0
    VALUE = 1
    TOPIC = 2
    PARTITION = 3
    OFFSET = 4
    TIMESTAMP = 5
    TIMESTAMP_TYPE = 6
    HEADERS = 7


class Column(NamedTuple):
    """One column: what of the record it has, its name as the user wrote it, and its type as Spark's ``simpleString``.

    ``decoding`` is what is made of the record's bytes.
    """

    field: Field
    name: str
    type: str
    nullable: bool = True
    decoding: Decoding = RAW


class UserColumn(NamedTuple):
    """A column of the user's schema."""

    name: str
    type: str
    nullable: bool = True


Columns: TypeAlias = tuple[Column, ...]

BINARY: Final = "binary"
STRING: Final = "string"
HEADERS: Final = "array<struct<key:string,value:binary>>"

_REST: Final[Columns] = (
    Column(Field.TOPIC, "topic", STRING),
    Column(Field.PARTITION, "partition", "int"),
    Column(Field.OFFSET, "offset", "bigint"),
    Column(Field.TIMESTAMP, "timestamp", "timestamp"),
    Column(Field.TIMESTAMP_TYPE, "timestampType", "int"),
)
_HEADERS: Final = Column(Field.HEADERS, "headers", HEADERS)


def kafka_row(key: Decoding = RAW, value: Decoding = RAW, *, headers: bool = False) -> Columns:
    """The row of Spark's Kafka source, its key and value as their formats make them."""
    both = (
        Column(field, name, STRING if made.format is Format.STRING else BINARY, decoding=made)
        for field, name, made in ((Field.KEY, "key", key), (Field.VALUE, "value", value))
    )
    return with_headers((*both, *_REST)) if headers else (*both, *_REST)


def with_headers(columns: Columns) -> Columns:
    """The columns, headers among them."""
    return columns if has(columns, Field.HEADERS) else (*columns, _HEADERS)


def has(columns: Columns, field: Field) -> bool:
    """Whether a field is among the columns."""
    return any(column.field is field for column in columns)


KAFKA_ROW: Final[Columns] = kafka_row()
"""The row of Spark's Kafka source."""
KAFKA_ROW_WITH_HEADERS: Final[Columns] = with_headers(KAFKA_ROW)
OFFSETS: Final[Columns] = tuple(column for column in KAFKA_ROW if column.field is Field.OFFSET)
"""The least that can be read, for whoever looks only whether something comes."""

_DECODED: Final = (Field.KEY, Field.VALUE)
_MAY_BE_NULL: Final = frozenset((Field.KEY, Field.VALUE, Field.HEADERS))


def fields_of(columns: Columns) -> bytes:
    """The columns' fields as the native code takes them."""
    return bytes(column.field for column in columns)


def chosen_columns(asked: Sequence[UserColumn], possible: Columns) -> Columns:
    """The columns of the user's schema, in its order, of those that are possible.  Raises OptionError.

    Names are compared without regard to case, as Spark's analyzer does by default; the user's spelling stays.
    """
    if not asked:
        raise OptionError(
            f"the schema of format('cohort') has no column: name at least one of {_listed(possible)}, or leave out "
            ".schema(...); to count rows .schema('offset BIGINT') is the cheapest"
        )
    by_name = {column.name.lower(): column for column in possible}
    chosen: dict[Field, Column] = {}
    for each in asked:
        column = by_name.get(each.name.lower())
        if column is None:
            raise OptionError(
                f"the schema of format('cohort') names the column {each.name}, which a record of Kafka does not have: "
                f"it can have {_listed(possible)}"
            )
        if column.field in chosen:
            raise OptionError(
                f"the schema of format('cohort') names the column {each.name} twice: name it once, and copy it with "
                "select(...)"
            )
        if each.type != column.type:
            raise OptionError(_wrong_type(each, column))
        if not each.nullable and column.field in _MAY_BE_NULL:
            raise OptionError(
                f"the schema of format('cohort') has the column {each.name} as NOT NULL, and a record may come without "
                f"{'headers' if column.field is Field.HEADERS else f'a {column.name}'}: leave out NOT NULL"
            )
        chosen[column.field] = column._replace(name=each.name, nullable=each.nullable)
    return tuple(chosen.values())


def _wrong_type(asked: UserColumn, column: Column) -> str:
    ddl, option = _ddl(column), f"{column.name}.format"
    hint = f"write it as {asked.name} {ddl}, and cast it with select(...)"
    if column.field in _DECODED and {asked.type, column.type} == {BINARY, STRING}:
        remedy = f"set the option {option} to string" if asked.type == STRING else f"leave out the option {option}"
        hint = f"{remedy}, or write it as {asked.name} {ddl}"
    return (
        f"the schema of format('cohort') has the column {asked.name} as {asked.type.upper()}, and it can only be "
        f"{ddl}: {hint}"
    )


def _ddl(column: Column) -> str:
    """A type as a user writes it."""
    return "ARRAY<STRUCT<key: STRING, value: BINARY>>" if column.field is Field.HEADERS else column.type.upper()


def _listed(columns: Iterable[Column]) -> str:
    return ", ".join(f"{column.name} {_ddl(column)}" for column in columns)
