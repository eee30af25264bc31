"""What is made of values and keys: the options, together."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options.parse import parse
from sparkcohort.runtime.values import formats as module
from sparkcohort.runtime.values.columns import KAFKA_ROW, Field, UserColumn, chosen_columns
from sparkcohort.runtime.values.formats import RAW, Decoding, Format
from sparkcohort.runtime.values.types import BINARY, STRING
from tests.kit.protobuf_schemas import Proto, field, file_set, message

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


ORDER = file_set(
    message("Order", field("id", 1, Proto.TYPE_INT64), field("by", 2, Proto.TYPE_STRING)), message("Empty")
)
TREE = message("Tree", field("kids", 1, Proto.TYPE_MESSAGE, Proto.LABEL_REPEATED, type_name=".p.Tree"))


@pytest.mark.parametrize("of", ["value", "key"])
def test_protobuf_by_the_file_of_a_descriptor_set_or_its_base64(
    of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The column is the message's struct; with a registry its records have a frame, and it is not asked for a schema."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "order.desc"
    file.write_bytes(ORDER)
    for schema in (str(file), file.name, b64encode(ORDER).decode()):
        given = {**OPTIONS, f"{of}.format": "protobuf", f"{of}.schema": schema, f"{of}.message": "p.Order"}
        (column,) = (each for each in parse(given).columns if each.name == of)
        assert (str(column.type), column.decoding.registry) == ("struct<id:bigint,by:string>", ())
        assert [each.name for each in column.decoding.reader_message().fields] == ["id", "by"]
        (column,) = (
            each for each in parse({**given, "schema.registry.url": "http://127.0.0.1:1"}).columns if each.name == of
        )
        assert column.decoding.registry == (("schema.registry.url", "http://127.0.0.1:1"),)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"message": "p.Order"}, r"needs value.schema and value.message: set value.schema to the file of a descriptor"),
        ({"schema": b64encode(ORDER).decode()}, r"set value.message to a message's name in it"),
        (
            {"schema": "/no/file", "message": "M"},
            r"option value.schema: the file '/no/file' can't be read on the driver",
        ),
        ({"schema": "Cafe", "message": "M"}, r"option value.schema: the file 'Cafe' can't be read on the driver"),
        ({"schema": b64encode(ORDER[:-3]).decode(), "message": "M"}, r"option value.schema: it is no descriptor set"),
        ({"schema": __file__, "message": "M"}, r"option value.schema: it is no descriptor set"),
        (
            {"schema": b64encode(ORDER).decode(), "message": "Nobody"},
            r"option value.message: there is no message 'Nobody' in the descriptor set: it has p.Empty, p.Order",
        ),
        (
            {"schema": b64encode(ORDER).decode(), "message": "Empty"},
            r"option value.schema: message p.Empty has no field",
        ),
        (
            {"schema": b64encode(file_set(TREE)).decode(), "message": "Tree"},
            r"is inside of itself, at kids, .*max.depth",
        ),
        ({"schema": b64encode(ORDER).decode(), "message": "Order", "subject": "s"}, r"value.subject has no effect"),
        (
            {"format": "json", "schema": "a INT", "message": "Order"},
            r"value.message has no effect with value.format=json",
        ),
    ],
)
def test_protobuf_that_cannot_be_is_told_at_once(given: dict[str, str], words: str) -> None:
    """By the option, and what to do."""
    with pytest.raises(OptionError, match=words):
        parse({**OPTIONS, "value.format": "protobuf", **{f"value.{name}": text for name, text in given.items()}})


@pytest.mark.parametrize("format_", ["binary", "string"])
@pytest.mark.parametrize("name", [name for name in module.OF_STRUCTS if name != "schema.registration"])  # of writes
def test_options_of_other_formats_are_not_passed_over(name: str, format_: str) -> None:
    """Whoever gives a schema and forgets the format would get bytes."""
    words = (
        rf"option value.{name} has no effect with value.format={format_}: set value.format to json, avro or protobuf"
    )
    with pytest.raises(OptionError, match=words):
        text = "any" if name == "message.index" else "failfast"
        parse({**OPTIONS, "value.format": format_, f"value.{name}": text})


@pytest.mark.parametrize("name", ["offset", "Value", "headers", "timestampType"])
def test_a_column_for_bad_bytes_has_a_name_of_its_own(name: str) -> None:
    """Else a query that selects it would find two."""
    for of in ("key", "value"):
        given = {f"{of}.format": "json", f"{of}.schema": "id INT", f"{of}.corrupt.column": name}
        with pytest.raises(OptionError, match=rf"option {of}.corrupt.column={name}: there is a column of this name"):
            parse({**OPTIONS, **given})
    both = {f"{of}.{name}": text for of in ("key", "value") for name, text in (("format", "json"), ("schema", "a INT"))}
    with pytest.raises(OptionError, match=r"option value.corrupt.column=BAD: there is a column of this name"):
        parse({**OPTIONS, **both, "key.corrupt.column": "bad", "value.corrupt.column": "BAD"})


def test_a_registry_that_nobody_asks() -> None:
    """It is told of: its schemas may be expected to be used, or the options stand where several queries read them."""
    given = {**OPTIONS, "schema.registry.url": "http://r", "value.format": "json", "value.schema": "a INT"}
    (warning,) = parse(given).warnings
    assert "option schema.registry.url has no effect with key.format=binary and value.format=json" in warning
    assert (
        parse(
            {
                **given,
                "value.format": "avro",
                "value.schema": '{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}',
            }
        ).warnings
        == ()
    )
