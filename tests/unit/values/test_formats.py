"""What is made of values and keys: the options, together."""

from __future__ import annotations

import doctest

import pytest

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options.parse import parse
from sparkcohort.runtime.values import formats as module
from sparkcohort.runtime.values.columns import KAFKA_ROW, Field, UserColumn, chosen_columns
from sparkcohort.runtime.values.formats import RAW, Decoding, Format
from sparkcohort.runtime.values.types import BINARY, STRING, ColumnType

OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "group.id": "g"}


def test_the_default_is_the_bytes() -> None:
    """As Spark's own source has them."""
    assert parse(OPTIONS).columns == KAFKA_ROW
    assert parse({**OPTIONS, "value.format": "Binary", "key.schema": " "}).columns == KAFKA_ROW


def test_strings_are_columns_of_that_type() -> None:
    """Each of the two by its own option; a schema then names them as STRING."""
    columns = parse({**OPTIONS, "value.format": "STRING"}).columns
    assert [column.type for column in columns[:2]] == [BINARY, STRING]
    assert [column.decoding for column in columns[:2]] == [RAW, Decoding(Format.STRING, STRING)]
    assert columns[2:] == KAFKA_ROW[2:]
    (key,) = chosen_columns([UserColumn("key", STRING)], parse({**OPTIONS, "key.format": "string"}).columns)
    assert (key.field, key.type) == (Field.KEY, STRING)


@pytest.mark.parametrize(
    ("format_", "asked", "remedy"),
    [
        ("binary", STRING, "set the option value.format to string, or write it as value BINARY"),
        ("string", BINARY, "leave out the option value.format, or write it as value STRING"),
    ],
)
def test_a_schema_that_wants_another_type_is_told_which_option(format_: str, asked: ColumnType, remedy: str) -> None:
    """Both ways out."""
    with pytest.raises(OptionError, match=remedy):
        chosen_columns([UserColumn("value", asked)], parse({**OPTIONS, "value.format": format_}).columns)


@pytest.mark.parametrize("of", ["value", "key"])
@pytest.mark.parametrize(("format_", "instead"), module.NOT_YET.items())
def test_formats_without_a_decoder_are_refused(of: str, format_: str, instead: str) -> None:
    """In one sentence, with what to do until then."""
    with pytest.raises(OptionError, match=f"option {of}.format={format_} is not supported yet: .*{of} with {instead}"):
        parse({**OPTIONS, f"{of}.format": format_, f"{of}.schema": "a INT", f"{of}.mode": "FAILFAST"})


@pytest.mark.parametrize("format_", ["binary", "string"])
@pytest.mark.parametrize("name", module.OF_STRUCTS)
def test_options_of_other_formats_are_not_passed_over(name: str, format_: str) -> None:
    """Whoever gives a schema and forgets the format would get bytes."""
    words = (
        rf"option value.{name} has no effect with value.format={format_}: set value.format to json, avro or protobuf"
    )
    with pytest.raises(OptionError, match=words):
        parse({**OPTIONS, "value.format": format_, f"value.{name}": "failfast"})


def test_words_that_are_none() -> None:
    """Of formats and modes."""
    for name, text in (("value.format", "xml"), ("key.mode", "strict")):
        with pytest.raises(OptionError, match=f"option {name}='{text}' must be one of "):
            parse({**OPTIONS, name: text})


def test_the_examples_in_the_docs_are_true() -> None:
    """Doctests."""
    assert doctest.testmod(module).failed == 0


def test_a_registry_that_nobody_asks() -> None:
    """It is refused, not ignored: its schemas would be expected to be used."""
    given = {**OPTIONS, "schema.registry.url": "http://r", "value.format": "json", "value.schema": "a INT"}
    with pytest.raises(
        OptionError, match=r"schema.registry.url has no effect with key.format=binary and value.format=json"
    ):
        parse(given)
