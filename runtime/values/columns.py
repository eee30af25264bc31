r"""The columns that a query delivers, in their order: one value from the options to the native code and the pipe.

No other column is built or copied on the way.

>>> [column.name for column in KAFKA_ROW]
['key', 'value', 'topic', 'partition', 'offset', 'timestamp', 'timestampType']
>>> chosen = chosen_columns([UserColumn("Timestamp", TIMESTAMP), UserColumn("value", BINARY)], KAFKA_ROW_WITH_HEADERS)
>>> [(column.name, column.field.name) for column in chosen], fields_of(chosen)
([('Timestamp', 'TIMESTAMP'), ('value', 'VALUE')], b'\x05\x01')
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.values.formats import RAW, UNKNOWN_FIELDS, Decoding
from sparkcohort.runtime.values.types import (
    BIGINT,
    BINARY,
    INT,
    STRING,
    TIMESTAMP,
    ColumnType,
    array,
    ddl,
    struct,
    type_difference,
)


class Field(IntEnum):
    """What a record has; the native code knows the first eight by these numbers (``native/arrow/columns.h``)."""

    KEY = 0
    VALUE = 1
    TOPIC = 2
    PARTITION = 3
    OFFSET = 4
    TIMESTAMP = 5
    TIMESTAMP_TYPE = 6
    HEADERS = 7
    CORRUPT_KEY = 8  # its bytes, if they could not be decoded
    CORRUPT_VALUE = 9
    KEY_ERROR = 10  # why they could not
    VALUE_ERROR = 11


class Column(NamedTuple):
    """One column: what of the record it has, its name as the user wrote it, and its type.

    ``decoding`` is what is made of the record's bytes; of its type the column has all, or the fields that are asked for.
    """

    field: Field
    name: str
    type: ColumnType
    nullable: bool = True
    decoding: Decoding = RAW


class UserColumn(NamedTuple):
    """A column of the user's schema."""

    name: str
    type: ColumnType
    nullable: bool = True


Columns: TypeAlias = tuple[Column, ...]

HEADERS: Final = array(struct({"key": STRING, "value": BINARY}))
ERROR_TYPE: Final = struct({"reason": STRING, "message": STRING})

_TIMESTAMP: Final = Column(Field.TIMESTAMP, "timestamp", TIMESTAMP)
_METADATA: Final[Columns] = (
    Column(Field.TOPIC, "topic", STRING),
    Column(Field.PARTITION, "partition", INT),
    Column(Field.OFFSET, "offset", BIGINT),
    _TIMESTAMP,
    Column(Field.TIMESTAMP_TYPE, "timestampType", INT),
)
CORRUPT: Final = {Field.KEY: Field.CORRUPT_KEY, Field.VALUE: Field.CORRUPT_VALUE}
ERROR: Final = {Field.KEY: Field.KEY_ERROR, Field.VALUE: Field.VALUE_ERROR}
FAULT_COLUMNS: Final = {column: part for columns in (CORRUPT, ERROR) for part, column in columns.items()}
"""What decoding makes of bad records only, each with the part of the record that it tells of."""
_HEADERS: Final = Column(Field.HEADERS, "headers", HEADERS)


def kafka_row(key: Decoding = RAW, value: Decoding = RAW, *, headers: bool = False) -> Columns:
    """The row of Spark's Kafka source, its key and value as their formats make them."""
    both = ((Field.KEY, "key", key), (Field.VALUE, "value", value))
    decoded = [Column(field, name, decoding.type, decoding=decoding) for field, name, decoding in both]
    row = (*decoded, *_METADATA)
    names = {column.name.lower() for column in (*row, _HEADERS)}
    for field, part, decoding in both:
        corrupt = Column(CORRUPT[field], decoding.corrupt_column, BINARY, decoding=decoding)
        error = Column(ERROR[field], decoding.error_column, ERROR_TYPE, decoding=decoding)
        for kind, column in (("corrupt", corrupt), ("error", error)):
            name = column.name.lower()  # names of columns are the same in any case (spark.sql.caseSensitive)
            if name in names:
                raise OptionError(
                    f"option {part}.{kind}.column={column.name}: there is a column of this name already: set it to another name, "
                    f"as _{kind}_{part}"
                )
            if name:
                names.add(name)
                row += (column,)
    return with_headers(row) if headers else row


def with_headers(columns: Columns) -> Columns:
    """The columns, headers among them."""
    return columns if has_field(columns, Field.HEADERS) else (*columns, _HEADERS)


def with_timestamp(columns: Columns) -> Columns:
    """The columns, the timestamp among them; last, if it is not asked for."""
    return columns if has_field(columns, Field.TIMESTAMP) else (*columns, _TIMESTAMP)


def has_field(columns: Columns, field: Field) -> bool:
    """Whether a column has this field."""
    return any(column.field is field for column in columns)


def raw_columns(columns: Columns) -> Columns:
    """The columns that these are decoded from, in their order; what is read for schema ids and dead letters only comes last."""
    raw = tuple(
        each._replace(type=BINARY, decoding=RAW) if each.decoding.of_structs else each
        for each in columns
        if each.field not in FAULT_COLUMNS
    )
    missing = (each for each in _OF_DEAD_LETTERS if not has_field(raw, each.field))
    raw = (*raw, *missing) if dead_letter_topic(columns) else raw
    return with_headers(raw) if any(each.decoding.registry for each in columns) else raw


def dead_letter_topic(columns: Columns) -> str:
    """The topic for records of which one of these columns can't be decoded, "" without one."""
    return next((each.decoding.dead_letter_topic for each in columns if each.decoding.dead_letter_topic), "")


def unknown_fields(columns: Columns) -> str:
    """The names of columns without known fields, with what to do; "" if there are none."""
    names = [each.name for each in columns if each.type == UNKNOWN_FIELDS]
    return "; ".join(
        f"option {name}.format is set, and nothing says which fields there are: set {name}.schema, or give them with "
        f".schema('{name} STRUCT<...>')"
        for name in names
    )


KAFKA_ROW: Final[Columns] = kafka_row()
"""The row of Spark's Kafka source."""
KAFKA_ROW_WITH_HEADERS: Final[Columns] = with_headers(KAFKA_ROW)
OFFSETS: Final[Columns] = tuple(column for column in KAFKA_ROW if column.field is Field.OFFSET)
"""The least that can be read, to see only whether records come."""

_DECODED: Final = (Field.KEY, Field.VALUE)
_MAY_BE_NULL: Final = frozenset((Field.KEY, Field.VALUE, Field.HEADERS, *FAULT_COLUMNS))
_OF_DEAD_LETTERS: Final[Columns] = tuple(
    each
    for each in KAFKA_ROW_WITH_HEADERS
    if each.field in (Field.KEY, Field.VALUE, Field.OFFSET, Field.TIMESTAMP, Field.HEADERS)
)


def fields_of(columns: Columns) -> bytes:
    """The columns' fields as the native code takes them."""
    return bytes(column.field for column in columns)


def chosen_columns(schema: Sequence[UserColumn], possible: Columns) -> Columns:
    """The columns of the user's schema, in its order, of those that are possible.  Raises OptionError.

    Names are compared without regard to case, as Spark's analyzer does by default; the user's spelling stays.
    """
    if not schema:
        raise OptionError(
            f"the schema of format('cohort') has no column: name at least one of {_list_columns(possible)}, or leave out "
            ".schema(...); to count rows .schema('offset BIGINT') is the cheapest"
        )
    by_name = {column.name.lower(): column for column in possible}
    columns: dict[Field, Column] = {}
    for declared in schema:
        column = by_name.get(declared.name.lower())
        if column is None:
            raise OptionError(
                f"the schema of format('cohort') names the column {declared.name}, which a record of Kafka does not have: "
                f"it can have {_list_columns(possible)}"
            )
        if column.field in columns:
            raise OptionError(
                f"the schema of format('cohort') names the column {declared.name} twice: name it once, and copy it with "
                "select(...)"
            )
        _check_type(declared, column)
        if not declared.nullable and column.field in _MAY_BE_NULL:
            raise OptionError(
                f"the schema of format('cohort') has the column {declared.name} as NOT NULL, and a record may come without "
                f"{'headers' if column.field is Field.HEADERS else f'a {column.name}'}: leave out NOT NULL"
            )
        columns[column.field] = column._replace(name=declared.name, type=declared.type, nullable=declared.nullable)
    for fault, part in FAULT_COLUMNS.items():
        if fault in columns and part not in columns:
            raise OptionError(
                f"the schema of format('cohort') names the column {columns[fault].name} and not {part.name.lower()}: "
                "it tells which of those could not be decoded, so name both"
            )
    return tuple(columns.values())


def _check_type(declared: UserColumn, column: Column) -> None:
    """A column has its own type; a decoded struct may have fewer fields, and unknown ones are as the user declares them."""
    if not column.decoding.of_structs or column.field in FAULT_COLUMNS:
        of_error = column.type == ERROR_TYPE and declared.type.children
        is_part = of_error and not type_difference(declared.type, ERROR_TYPE, "")
        if declared.type != column.type and not is_part:
            raise OptionError(_wrong_type(declared, column))
        return
    prefix = f"the schema of format('cohort') has the column {declared.name} as"
    # Avro's outermost schema may be of any type: keys of Kafka Connect are often a string or a long.
    is_struct = column.type == UNKNOWN_FIELDS or column.type.kind == "struct"
    if is_struct and (declared.type.kind != "struct" or not declared.type.children):
        raise OptionError(
            f"{prefix} {ddl(declared.type)}, and with {column.name}.format={column.decoding.format} it can only be a STRUCT "
            "with fields"
        )
    if column.type == UNKNOWN_FIELDS:
        from sparkcohort.runtime.values.json_plan import JsonPlanError, plan  # noqa: PLC0415  most queries have none

        try:
            plan(declared.type)
        except JsonPlanError as error:
            raise OptionError(f"{prefix} {ddl(declared.type)}: {error}") from None
    elif difference := type_difference(declared.type, column.type, declared.name):
        raise OptionError(f"{prefix} a type that its schema does not have: {difference}")


def _wrong_type(declared: UserColumn, column: Column) -> str:
    ddl_type, option = ddl(column.type), f"{column.name}.format"
    hint = f"write it as {declared.name} {ddl_type}, and cast it with select(...)"
    if column.field in _DECODED and {declared.type, column.type} == {BINARY, STRING}:
        remedy = f"set the option {option} to string" if declared.type == STRING else f"leave out the option {option}"
        hint = f"{remedy}, or write it as {declared.name} {ddl_type}"
    return (
        f"the schema of format('cohort') has the column {declared.name} as {ddl(declared.type)}, and it can only be "
        f"{ddl_type}: {hint}"
    )


def _list_columns(columns: Iterable[Column]) -> str:
    return ", ".join(f"{column.name} {ddl(column.type)}" for column in columns)
