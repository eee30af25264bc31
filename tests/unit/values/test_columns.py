"""The columns of the user's schema: which are chosen, and what is said of those that can't be."""

from __future__ import annotations

from itertools import permutations

import pytest

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.values.columns import (
    KAFKA_ROW_WITH_HEADERS,
    Column,
    Field,
    UserColumn,
    chosen_columns,
    fields_of,
    has_field,
)
from sparkcohort.runtime.values.types import BINARY, INT, STRING, mapping


def asked(column: Column) -> UserColumn:
    """A column as a user asks for it."""
    return UserColumn(column.name, column.type, column.nullable)


def test_any_columns_in_any_order() -> None:
    """What is asked for comes, in that order, and nothing else."""
    for size in (1, 2, 3):
        for some in permutations(KAFKA_ROW_WITH_HEADERS, size):
            assert chosen_columns([asked(column) for column in some], KAFKA_ROW_WITH_HEADERS) == some
            assert list(fields_of(some)) == [column.field for column in some]
    assert has_field(KAFKA_ROW_WITH_HEADERS[-2:], Field.HEADERS)
    assert not has_field(KAFKA_ROW_WITH_HEADERS[:2], Field.HEADERS)


def test_names_are_compared_as_spark_does_and_stay_as_they_were_written() -> None:
    """Spark's analyzer is insensitive to case by default; PySpark compares with the user's own spelling."""
    found = chosen_columns([UserColumn("TimestampTYPE", INT, nullable=False)], KAFKA_ROW_WITH_HEADERS)
    assert found == (Column(Field.TIMESTAMP_TYPE, "TimestampTYPE", INT, nullable=False),)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ([], "has no column: name at least one of key BINARY, value BINARY, .*; to count rows"),
        (
            [UserColumn("valeu", BINARY)],
            "names the column valeu, which a record of Kafka does not have: it can have key BINARY,",
        ),
        ([UserColumn("value", BINARY), UserColumn("VALUE", BINARY)], "names the column VALUE twice: name it once"),
        (
            [UserColumn("value", STRING)],
            "has the column value as STRING, and it can only be BINARY: set the option value.format to string, or write it as value BINARY",
        ),
        ([UserColumn("offset", INT)], "has the column offset as INT, and it can only be BIGINT"),
        ([UserColumn("headers", mapping(BINARY))], r"it can only be ARRAY<STRUCT<key: STRING, value: BINARY>>"),
        (
            [UserColumn("key", BINARY, nullable=False)],
            "has the column key as NOT NULL, and a record may come without a key: ",
        ),
        (
            [UserColumn("headers", KAFKA_ROW_WITH_HEADERS[-1].type, nullable=False)],
            "may come without headers: leave out NOT NULL",
        ),
    ],
)
def test_what_cannot_be_is_one_clear_error(wanted: list[UserColumn], words: str) -> None:
    """It names the column, what it can be, and what to do."""
    with pytest.raises(OptionError, match=words) as raised:
        chosen_columns(wanted, KAFKA_ROW_WITH_HEADERS)
    assert "\n" not in str(raised.value)
