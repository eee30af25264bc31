"""The options of bad records: the error column, and the dead letter topic of streams."""

from __future__ import annotations

import pytest

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.driver.fail_over import _members
from sparkcohort.runtime.shell.options.parse import parse
from sparkcohort.runtime.values.columns import (
    ERROR_TYPE,
    Field,
    UserColumn,
    chosen_columns,
    dead_letter_topic,
    has_field,
    raw_columns,
)
from sparkcohort.runtime.values.types import BIGINT, BINARY, INT, STRING, struct

LEAST = {"kafka.bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
TYPED = {**LEAST, "subscribe": "orders", "value.format": "json", "value.schema": "id BIGINT, name STRING"}
LETTERS = {**TYPED, "dead.letter.topic": "orders-dead"}
ERRORS = {**TYPED, "value.error.column": "why"}
VALUE = UserColumn("value", struct({"id": BIGINT}))


def test_the_error_column_is_chosen_whole_or_in_part() -> None:
    """Spark asks for some of its fields where a batch read selects them."""
    possible = parse(ERRORS).columns
    assert (possible[-1].name, possible[-1].type, possible[-1].field) == ("why", ERROR_TYPE, Field.VALUE_ERROR)
    for part in (ERROR_TYPE, struct({"message": STRING}), struct({"message": STRING, "reason": STRING})):
        columns = chosen_columns([UserColumn("Why", part), VALUE], possible)
        assert [(each.name, each.type) for each in columns] == [("Why", part), ("value", VALUE.type)]
        assert [each.name for each in raw_columns(columns)] == ["value"]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([UserColumn("why", STRING), VALUE], r"it can only be STRUCT<reason: STRING, message: STRING>"),
        ([UserColumn("why", struct({})), VALUE], r"it can only be STRUCT<reason"),
        ([UserColumn("why", struct({"reason": INT})), VALUE], r"it can only be STRUCT<reason"),
        ([UserColumn("why", ERROR_TYPE)], "names the column why and not value"),
        ([UserColumn("why", ERROR_TYPE, nullable=False), VALUE], "has the column why as NOT NULL"),
    ],
)
def test_what_the_error_column_cannot_be(columns: list[UserColumn], words: str) -> None:
    """By its name."""
    with pytest.raises(OptionError, match=words):
        chosen_columns(columns, parse(ERRORS).columns)


def test_the_error_column_has_a_name_of_its_own() -> None:
    """Two columns of one name could not be selected."""
    with pytest.raises(OptionError, match=r"option value.error.column=WHY: .* to another name, as _error_value"):
        parse({**ERRORS, "value.corrupt.column": "why", "value.error.column": "WHY"})


def test_dead_letters_are_whole_records_whatever_is_selected() -> None:
    """Read for them, and of no effect on the query's own columns."""
    chosen = chosen_columns([VALUE], parse(LETTERS).columns)
    assert dead_letter_topic(chosen) == "orders-dead"
    raw = raw_columns(chosen)
    wanted = [Field.VALUE, Field.KEY, Field.OFFSET, Field.TIMESTAMP, Field.HEADERS]
    assert [each.field for each in raw] == wanted
    assert raw[0].type == BINARY
    assert dead_letter_topic(parse(TYPED).columns) == ""
    assert not has_field(raw_columns(chosen_columns([VALUE], parse(TYPED).columns)), Field.HEADERS)


def test_a_schema_without_decoded_columns_is_told_of() -> None:
    """Nothing is decoded then, so nothing can be bad."""
    options = parse(LETTERS)
    assert options.with_columns(chosen_columns([VALUE], options.columns)).warnings == options.warnings
    columns = chosen_columns([UserColumn("offset", BIGINT)], options.columns)
    assert "option dead.letter.topic has no effect: the schema" in options.with_columns(columns).warnings[-1]


def test_agents_of_an_earlier_run_know_another_topic() -> None:
    """They are not taken over."""
    assert _members(parse(LETTERS)) != _members(parse({**LETTERS, "dead.letter.topic": "others"}))
    assert _members(parse(LETTERS)) == _members(parse(dict(LETTERS)))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"value.format": "string", "value.schema": ""},
            r"has no effect with key.format=binary and value.format=string",
        ),
        ({"value.mode": "failfast"}, r"dead.letter.topic does not go with value.mode=failfast"),
        ({"key.format": "json", "key.schema": "a INT", "key.mode": "failfast"}, r"set key.mode to permissive"),
        ({"dead.letter.topic": "no topic"}, r"names 'no topic', which is no topic name .*; give the name of one topic"),
        ({"dead.letter.topic": "orders"}, r"names orders, which option subscribe reads"),
        ({"subscribe": None, "subscribePattern": "^orders-"}, r"orders-dead, which option subscribePattern reads"),
        ({"subscribe": None, "assign": '{"orders-dead":[0]}'}, r"orders-dead, which option assign reads"),
    ],
)
def test_dead_letters_that_cannot_be_are_told_at_once(given: dict[str, str | None], words: str) -> None:
    """By the option, and what to do."""
    options = {name: text for name, text in (LETTERS | given).items() if text is not None}
    with pytest.raises(OptionError, match=rf"option dead.letter.topic.*{words}|{words}"):
        parse(options)


def test_batch_reads_have_no_dead_letters() -> None:
    """Each action would write them again."""
    with pytest.raises(OptionError, match=r"option dead.letter.topic is not supported in a batch read"):
        parse(LETTERS, "batches")
