"""What a column's type and a format's schema say of each other before anything is written."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.values.encodings import Encoding, for_column
from sparkcohort.runtime.values.formats import Decoding, Format, with_schema
from sparkcohort.runtime.values.types import BIGINT, INT, INTERVAL, STRING, ColumnType, array, mapping, struct
from sparkcohort.streaming.data_types import data_type
from tests.kit.protobuf_schemas import Proto, field, file_set, message

SHORT = ColumnType("smallint")
SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "tags", "type": {"type": "array", "items": {"type": "record", "name": "T", "fields": [{"name": "n", "type": "long"}]}}},
        {"name": "by", "type": ["null", "string"]},
    ],
}  # fmt: skip
TAGS = array(struct({"n": BIGINT}))


def typed(form: Format, kind: ColumnType, schema: str = "", **more: Any) -> Encoding:
    """The encoding of a column."""
    records = Decoding(form, **more)
    records = with_schema("value", records, schema) if schema else records
    return for_column(Encoding("value", records), kind, data_type(kind).jsonValue())


def refused(form: Format, kind: ColumnType, schema: str = "", **more: Any) -> str:
    """What is said of it."""
    with pytest.raises(OptionError) as caught:
        typed(form, kind, schema, **more)
    return str(caught.value)


def test_the_error_names_the_field() -> None:
    """Each format: a type that it can't have, one of another schema, one that is missing."""
    assert "value.d: JSON has no values for interval" in refused(Format.JSON, struct({"d": INTERVAL}))
    assert "value.m: JSON's names are STRING" in refused(Format.JSON, struct({"m": mapping(INT, INT)}))
    avro = json.dumps(SCHEMA)
    assert typed(Format.AVRO, struct({"id": SHORT, "tags": TAGS}), avro).type.children[0] == INT
    text = refused(Format.AVRO, struct({"id": STRING, "tags": TAGS}), avro)
    assert text.startswith(
        "option value.format=avro: the column value can't be written so: value.id is STRING instead of INT"
    )
    assert "there is no value.x" in refused(Format.AVRO, struct({"id": INT, "x": INT, "tags": TAGS}), avro)
    protobuf = b64encode(file_set(message("M", field("id", 1, Proto.TYPE_INT64)))).decode()
    assert typed(Format.PROTOBUF, struct({"id": BIGINT}), protobuf, message="M").records.message == "M"
    assert "value.id is INT instead of BIGINT" in refused(Format.PROTOBUF, struct({"id": SHORT}), protobuf, message="M")


def test_avros_schema_is_that_of_the_column() -> None:
    """Names that Avro can't have, and types that it lacks, are named."""
    schema = json.loads(typed(Format.AVRO, struct({"id": SHORT, "in": struct({"s": STRING})})).records.schema)
    inner = {
        "type": "record",
        "name": "in",
        "namespace": "topLevelRecord",
        "fields": [{"name": "s", "type": ["string", "null"]}],
    }
    fields = [{"name": "id", "type": ["int", "null"]}, {"name": "in", "type": [inner, "null"]}]
    assert schema == {"type": "record", "name": "topLevelRecord", "namespace": "", "fields": fields}
    assert '"my id" is no name' in refused(Format.AVRO, struct({"my id": INT}))
    assert "topLevelRecord.d: Avro has no type for interval" in refused(Format.AVRO, struct({"d": INTERVAL}))
