"""What is made of values and keys: the options, together."""

from __future__ import annotations

import pytest

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options.parse import parse
from sparkcohort.runtime.values.columns import KAFKA_ROW, STRING, Field, UserColumn, chosen_columns

OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "group.id": "g"}


def test_the_default_is_the_bytes() -> None:
    """As Spark's own source has them."""
    assert parse(OPTIONS).columns == KAFKA_ROW
    assert parse({**OPTIONS, "value.format": "Binary"}).columns == KAFKA_ROW


def test_strings_are_columns_of_that_type() -> None:
    """Each of the two by its own option; a schema then names them as STRING."""
    columns = parse({**OPTIONS, "value.format": "STRING"}).columns
    assert [column.type for column in columns[:2]] == ["binary", STRING]
    assert columns[2:] == KAFKA_ROW[2:]
    (key,) = chosen_columns([UserColumn("key", STRING)], parse({**OPTIONS, "key.format": "string"}).columns)
    assert (key.field, key.type) == (Field.KEY, STRING)


@pytest.mark.parametrize(
    ("format_", "asked", "remedy"),
    [
        ("binary", "string", "set the option value.format to string, or write it as value BINARY"),
        ("string", "binary", "leave out the option value.format, or write it as value STRING"),
    ],
)
def test_a_schema_that_wants_another_type_is_told_which_option(format_: str, asked: str, remedy: str) -> None:
    """Both ways out."""
    with pytest.raises(OptionError, match=remedy):
        chosen_columns([UserColumn("value", asked)], parse({**OPTIONS, "value.format": format_}).columns)


def test_words_that_are_none() -> None:
    """Of formats."""
    with pytest.raises(OptionError, match=r"option value.format='xml' must be one of "):
        parse({**OPTIONS, "value.format": "xml"})
