"""Records behind Confluent's frame: schemas registered or looked up, and read by Confluent's own deserializers."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, message_factory

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.values.arrow_types import arrow_type
from sparkcohort.runtime.shell.values.records_by_format import encoded
from sparkcohort.runtime.shell.values.schema_registry import RegistryError
from sparkcohort.runtime.values.encodings import Encoding, for_column
from sparkcohort.runtime.values.formats import Decoding, Format, with_schema
from sparkcohort.runtime.values.types import BIGINT, INT, STRING, ColumnType, struct
from sparkcohort.streaming.data_types import data_type
from tests.kit.protobuf_schemas import Proto, descriptor, field, message
from tests.kit.registry import Registry, serving

ORDER = struct({"id": BIGINT, "name": STRING})
NEWER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "id", "type": "long"},
        {"name": "by", "type": "string", "default": "us"},
    ],
}


@pytest.fixture
def registry() -> Iterator[Registry]:
    """A registry that takes everybody."""
    with serving() as running:
        yield running


def encoding(
    registry: Registry, *, lookup: bool = False, kind: ColumnType = ORDER, schema: str = "", **more: Any
) -> Encoding:
    """An encoding with the options of this registry."""
    records = Decoding(
        Format.AVRO, registry=(("schema.registry.timeout.ms", "2000"), ("schema.registry.url", registry.url))
    )
    records = with_schema("value", records._replace(**more), schema) if schema else records._replace(**more)
    return for_column(Encoding("value", records, lookup), kind, data_type(kind).jsonValue())


def rows(*values: Any, kind: ColumnType = ORDER) -> pa.Array:
    """A column."""
    return pa.array(values, arrow_type(kind))


def read(registry: Registry, topic: str, record: bytes) -> Any:
    """What Confluent's deserializer makes of it."""
    with SchemaRegistryClient({"url": registry.url}) as client:
        return AvroDeserializer(client)(record, SerializationContext(topic, MessageField.VALUE))


def test_each_topics_schema_is_registered_once(registry: Registry) -> None:
    """By TopicNameStrategy; rows of several topics stay in their order, and a null row a tombstone."""
    made, topics = encoding(registry), pa.array(["a", "b", "a", "a"])
    registry.register("b-value", NEWER)  # another schema of the subject is no hindrance
    for _ in range(2):
        records = encoded(made, rows({"id": 1}, {"id": 2, "name": "x"}, None, {"id": 3}), topics).to_pylist()
    assert [
        record and read(registry, topic, record) for topic, record in zip(topics.to_pylist(), records, strict=True)
    ] == [
        {"id": 1, "name": None},
        {"id": 2, "name": "x"},
        None,
        {"id": 3, "name": None},
    ]
    posts = [request for request in registry.requests if request.startswith("POST")]
    assert posts == ["POST /subjects/a-value/versions", "POST /subjects/b-value/versions"]


def test_the_subjects_version_is_looked_up(registry: Registry) -> None:
    """Without a schema of one's own the latest one, or a version; nothing is registered."""
    registry.register("mine", {**NEWER, "fields": NEWER["fields"][:2]})
    registry.register("mine", NEWER)
    made = encoding(registry, lookup=True, subject="mine")
    (record,) = encoded(made, rows({"id": 1, "name": "x"}), pa.array(["t"])).to_pylist()
    assert read(registry, "t", record) == {"name": "x", "id": 1, "by": "us"}
    first = encoding(registry, lookup=True, subject="mine", version="1")
    (record,) = encoded(first, rows({"id": 1, "name": "x"}), pa.array(["t"])).to_pylist()
    assert read(registry, "t", record) == {"name": "x", "id": 1}
    other = struct({"id": STRING, "name": STRING})
    with pytest.raises(OptionError, match=r"column value can't be written so: value\.id is STRING instead of BIGINT"):
        encoded(
            encoding(registry, lookup=True, subject="mine", kind=other), rows({"id": "1"}, kind=other), pa.array(["t"])
        )
    assert not [request for request in registry.requests if request.startswith("POST")]


def test_a_schema_that_has_to_be_there(registry: Registry) -> None:
    """lookup with a schema: its id, or an error that names option, subject and remedy; a registry that refuses is quoted."""
    made = encoding(registry, lookup=True, schema=json.dumps(NEWER))
    row, topics = rows({"id": 1, "name": "x"}), pa.array(["t"])
    with pytest.raises(
        RegistryError, match=r"option value\.schema\.registration=lookup: .* no schema for subject 't-value'"
    ):
        encoded(made, row, topics)
    number = registry.register("t-value", NEWER)
    assert encoded(made, row, topics)[0].as_py()[:5] == b"\0" + number.to_bytes(4, "big")
    registry.status = 409
    with pytest.raises(RegistryError, match=r"refused schema for subject 'other-value': as asked for \(HTTP 409\)"):
        encoded(made, row, pa.array(["other"]))


def test_protobuf_has_the_messages_index(registry: Registry) -> None:
    """The file is registered after the one that it imports; Confluent's deserializer reads the second message inside of the first."""
    inner = message("Inner", field("n", 1, Proto.TYPE_INT32))
    other = descriptor_pb2.FileDescriptorProto(name="other.proto", package="o", syntax="proto3", message_type=[inner])
    nested = [message("Left"), message("Order", field("id", 1, Proto.TYPE_INT64))]
    nested[1].field.append(field("at", 2, Proto.TYPE_MESSAGE, type_name=".o.Inner"))
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="p", syntax="proto3", dependency=["other.proto"])
    file.message_type.append(message("Outer", nested_type=nested))
    whole = descriptor_pb2.FileDescriptorSet(file=[other, file]).SerializeToString()
    kind = struct({"id": BIGINT, "at": struct({"n": INT})})
    records = Decoding(Format.PROTOBUF, message="p.Outer.Order", registry=(("schema.registry.url", registry.url),))
    made = Encoding("value", with_schema("value", records, b64encode(whole).decode()))
    (record,) = encoded(
        for_column(made, kind, {}), rows({"id": 7, "at": {"n": 1}}, kind=kind), pa.array(["t"])
    ).to_pylist()
    asked = [request for request in registry.requests if request.startswith("POST")]
    assert asked == [
        "POST /subjects/other.proto/versions",
        "POST /subjects/other.proto",
        "POST /subjects/t-value/versions",
    ]
    order = message_factory.GetMessageClass(descriptor(whole, "p.Outer.Order"))
    assert record[5:8] == b"\x04\x00\x02"
    with SchemaRegistryClient({"url": registry.url}) as client:
        reader = ProtobufDeserializer(order, {"use.deprecated.format": False}, client)
        assert reader(record, SerializationContext("t", MessageField.VALUE)) == order(id=7, at={"n": 1})
        registered = client.get_schema(int.from_bytes(record[1:5], "big"))
    assert [(each.name, each.version) for each in registered.references] == [("other.proto", 1)]
    assert b64decode(registered.schema_str) == file.SerializeToString()
