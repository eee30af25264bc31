"""The embedded broker: librdkafka's mock cluster, in this process, reachable by every Kafka client on the host."""

from __future__ import annotations

import ctypes
from types import TracebackType
from typing import Self

import confluent_kafka.cimpl

_PRODUCER = 0  # rd_kafka_type_t
_SIGNATURES = {
    "rd_kafka_conf_new": (ctypes.c_void_p, []),
    "rd_kafka_conf_set": (
        ctypes.c_int,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t],
    ),
    "rd_kafka_new": (ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]),
    "rd_kafka_destroy": (None, [ctypes.c_void_p]),
    "rd_kafka_mock_cluster_new": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int]),
    "rd_kafka_mock_cluster_destroy": (None, [ctypes.c_void_p]),
    "rd_kafka_mock_cluster_bootstraps": (ctypes.c_char_p, [ctypes.c_void_p]),
    "rd_kafka_mock_topic_create": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]),
}


class EmbeddedBroker:
    """A cluster of mock brokers with one topic, as a context manager; ``bootstrap`` is its address.

    It keeps about 5 MB of each partition: as much as one year of flights takes when compressed, not more.
    """

    def __init__(self, topic: str, partitions: int, brokers: int = 3) -> None:
        self._library = ctypes.CDLL(confluent_kafka.cimpl.__file__)  # it exports the librdkafka that it bundles
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments
        message = ctypes.create_string_buffer(512)
        conf = self._library.rd_kafka_conf_new()
        self._library.rd_kafka_conf_set(conf, b"log_level", b"0", message, len(message))
        self._client = self._library.rd_kafka_new(_PRODUCER, conf, message, len(message))
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, brokers)
        if self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1):
            raise RuntimeError(f"the embedded broker could not create the topic {topic}")
        self.bootstrap: str = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)
