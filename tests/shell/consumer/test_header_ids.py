"""Records whose schema id stands in a header, as the serializers of Confluent's client write them, read by a source."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

import pytest
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    header_schema_id_serializer,
    prefix_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.events import EndOfLog, Records
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.values.columns import Field, kafka_row
from sparkcohort.runtime.values.formats import decoding
from tests.kit.mock import MockCluster
from tests.kit.produce import FLUSH_TIMEOUT_S, producer
from tests.kit.registry import serving
from tests.kit.waiting import wait_until

ORDER: Final = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
OTHER: Final = {
    "type": "record",
    "name": "Other",
    "fields": [{"name": "id", "type": "int"}, {"name": "no", "type": "long"}],
}
Serialize = Callable[[dict[str, int], SerializationContext], bytes]


@pytest.mark.parametrize("asked", [False, True])
def test_ids_in_headers(mock_broker: MockCluster, topic: str, asked: bool) -> None:
    """GUIDs, ids and prefixes in one topic; headers are delivered only where they are asked for."""
    mock_broker.create_topic(topic)
    client = producer(mock_broker.bootstrap)
    with serving(schemas={"other-value": OTHER}) as registry, SchemaRegistryClient({"url": registry.url}) as schemas:

        def serializer(where: Any) -> Serialize:
            made: Serialize = AvroSerializer(schemas, json.dumps(ORDER), conf={"schema.id.serializer": where})
            return made

        by_header, by_prefix = serializer(header_schema_id_serializer), serializer(prefix_schema_id_serializer)
        order = registry.register(f"{topic}-value", ORDER)
        for number in range(30):
            headers: list[tuple[str, str | bytes | None]] = [("trace", b"1")]
            context = SerializationContext(topic, MessageField.VALUE, headers)
            serialize = by_prefix if number % 3 == 0 else by_header
            data = serialize({"id": number}, context)
            if number % 3 == 2:  # as serializers of ids do
                headers[-1] = ("__value_schema_id", b"\0" + order.to_bytes(4, "big"))
            client.produce(topic, data, headers=headers)
        # By its own bytes this is a record of the other schema: the header says that it is none.
        client.produce(topic, b"\0\0\0\0\1\2\4", headers=[("__value_schema_id", b"nonsense")])
        client.produce(topic, b"\0\0\0\0\1\2\4", headers=[("__key_schema_id", b"nonsense")])
        assert client.flush(FLUSH_TIMEOUT_S) == 0

        made = decoding("value", {"format": "avro", "schema": json.dumps(ORDER)})
        made = made._replace(registry=(("schema.registry.url", registry.url),))
        row = kafka_row(value=made, headers=True)
        columns = tuple(each for each in row if each.field is Field.VALUE or (asked and each.field is Field.HEADERS))
        with closing(RecordSource({"bootstrap.servers": mock_broker.bootstrap}, columns=columns)) as source:
            source.assign({TopicPartition(topic, 0): (0, 2**63 - 1)})
            rows: list[dict[str, Any]] = []

            def all_read() -> bool:
                for event in source.poll(0.1):
                    if isinstance(event, EndOfLog):
                        continue
                    assert isinstance(event, Records) and event.batch is not None
                    assert abs(event.batch.nbytes - event.nbytes) <= 1000 + event.batch.nbytes // 2
                    rows.extend(event.batch.to_pylist())
                return len(rows) == 32

            wait_until(all_read, 30, "all records")
    assert [each["value"] for each in rows] == [*({"id": number} for number in range(30)), None, {"id": 1}]
    assert {tuple(each) for each in rows} == {("value", "headers") if asked else ("value",)}
    assert not asked or rows[1]["headers"][0] == {"key": "trace", "value": b"1"}
