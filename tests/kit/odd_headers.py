"""Header keys that Kafka takes and Python's producer doesn't write: any bytes.  Through librdkafka's C API."""

from __future__ import annotations

import ctypes

from tests.kit.mock import PRODUCER, library

_TOPIC, _PARTITION, _VALUE, _FLAGS, _HEADER, _END = 1, 3, 4, 7, 9, 0  # rd_kafka_vtype_t
_COPY = 2


def write_header_key(bootstrap: str, topic: str, key: bytes) -> None:
    """One record in partition 0 whose only header has this key, and no NUL in it."""
    kafka = library()
    new, produce = kafka.rd_kafka_new, kafka.rd_kafka_producev
    new.restype, produce.restype = ctypes.c_void_p, ctypes.c_int
    text, number, size = ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
    conf, why = kafka.rd_kafka_conf_new(), ctypes.create_string_buffer(512)
    assert kafka.rd_kafka_conf_set(conf, b"bootstrap.servers", bootstrap.encode(), why, len(why)) == 0, why.value
    client = new(PRODUCER, conf, why, len(why))
    assert client, why.value
    parts = [number(_TOPIC), text(topic.encode()), number(_PARTITION), ctypes.c_int32(0)]
    parts += [number(_VALUE), text(b"v"), size(1), number(_FLAGS), number(_COPY)]
    parts += [number(_HEADER), text(key), text(b"1"), ctypes.c_ssize_t(1), number(_END)]
    assert produce(ctypes.c_void_p(client), *parts) == 0
    assert kafka.rd_kafka_flush(ctypes.c_void_p(client), 10_000) == 0
    kafka.rd_kafka_destroy(client)
