"""librdkafka's mock cluster: a broker inside this process, quick to start, with injected faults.

Usage::

    with MockCluster() as mock:                       # or the fixture `mock_broker`
        mock.create_topic("orders", 12)
        mock.broker_down(); mock.broker_up(); mock.round_trip_ms(50)
        mock.fail("Fetch", KafkaError._TIMED_OUT, times=3)
    mock.bootstrap                                    # any Kafka client connects there

It keeps about 5 MB per partition and drops what is older; it has no SASL and no DescribeGroups; its group coordinator
is no yardstick.  Its address stays valid in child processes as long as this process lives.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import TracebackType
from typing import Self

import confluent_kafka

PRODUCER = 0  # rd_kafka_type_t
API_KEYS = {  # Kafka's protocol guide
    "Produce": 0,
    "Fetch": 1,
    "ListOffsets": 2,
    "Metadata": 3,
    "OffsetCommit": 8,
    "OffsetFetch": 9,
    "FindCoordinator": 10,
    "JoinGroup": 11,
    "Heartbeat": 12,
    "LeaveGroup": 13,
    "SyncGroup": 14,
    "ApiVersion": 18,
}


def library() -> ctypes.CDLL:
    """confluent-kafka's librdkafka, with the types of what is used of it here."""
    beside = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    found = sorted(beside.glob("librdkafka-*.so*"))
    library = ctypes.CDLL(str(found[0]))
    pointer, number, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
    for name, result, arguments in (
        ("rd_kafka_conf_new", pointer, []),
        ("rd_kafka_conf_set", number, [pointer, text, text, text, ctypes.c_size_t]),
        ("rd_kafka_new", pointer, [number, pointer, text, ctypes.c_size_t]),
        ("rd_kafka_destroy", None, [pointer]),
        ("rd_kafka_mock_cluster_new", pointer, [pointer, number]),
        ("rd_kafka_mock_cluster_destroy", None, [pointer]),
        ("rd_kafka_mock_cluster_bootstraps", text, [pointer]),
        ("rd_kafka_mock_topic_create", number, [pointer, text, number, number]),
        ("rd_kafka_mock_topic_delete", number, [pointer, text]),
        ("rd_kafka_mock_partition_set_leader", number, [pointer, text, ctypes.c_int32, ctypes.c_int32]),
        ("rd_kafka_mock_partition_delete_records", number, [pointer, text, ctypes.c_int32, ctypes.c_int64]),
        ("rd_kafka_mock_broker_set_down", number, [pointer, ctypes.c_int32]),
        ("rd_kafka_mock_broker_set_up", number, [pointer, ctypes.c_int32]),
        ("rd_kafka_mock_broker_set_rtt", number, [pointer, ctypes.c_int32, number]),
        ("rd_kafka_mock_push_request_errors_array", None, [pointer, ctypes.c_int16, ctypes.c_size_t, pointer]),
        ("rd_kafka_mock_clear_request_errors", None, [pointer, ctypes.c_int16]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class MockCluster:
    """A mock cluster of its own; broker ids count from 1, -1 means all."""

    def __init__(self, brokers: int = 1) -> None:
        """Start it; close it with ``close`` or as a context manager."""
        self._library = library()
        message = ctypes.create_string_buffer(512)
        conf = self._library.rd_kafka_conf_new()
        self._library.rd_kafka_conf_set(conf, b"log_level", b"0", message, len(message))
        self._client = self._library.rd_kafka_new(PRODUCER, conf, message, len(message))
        if not self._client:
            raise RuntimeError(f"no mock cluster: {message.value.decode()}")
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, brokers)
        self.bootstrap: str = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Create a topic of one replica."""
        self._check(self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1))

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        self._check(self._library.rd_kafka_mock_topic_delete(self._cluster, topic.encode()))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Move the beginning of a partition up to ``before``."""
        name = topic.encode()
        self._check(self._library.rd_kafka_mock_partition_delete_records(self._cluster, name, partition, before))

    def set_leader(self, topic: str, partition: int, broker: int) -> None:
        """Make ``broker`` the leader of a partition."""
        self._check(self._library.rd_kafka_mock_partition_set_leader(self._cluster, topic.encode(), partition, broker))

    def broker_down(self, broker: int = -1) -> None:
        """Close a broker's connections and refuse new ones."""
        self._check(self._library.rd_kafka_mock_broker_set_down(self._cluster, broker))

    def broker_up(self, broker: int = -1) -> None:
        """Accept connections again."""
        self._check(self._library.rd_kafka_mock_broker_set_up(self._cluster, broker))

    def round_trip_ms(self, milliseconds: int, broker: int = -1) -> None:
        """Delay every answer by ``milliseconds``."""
        self._check(self._library.rd_kafka_mock_broker_set_rtt(self._cluster, broker, milliseconds))

    def fail(self, request: str, error: int, times: int = 1) -> None:
        """Answer the next ``times`` requests of this kind (a key of API_KEYS) with ``error`` (a KafkaError code)."""
        errors = (ctypes.c_int * times)(*[error] * times)
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, API_KEYS[request], times, errors)

    def clear_failures(self, request: str) -> None:
        """Forget what ``fail`` has not yet answered."""
        self._library.rd_kafka_mock_clear_request_errors(self._cluster, API_KEYS[request])

    def _check(self, error: int) -> None:
        if error:
            raise RuntimeError(f"mock cluster: error {error}")

    def close(self) -> None:
        """End the cluster."""
        if self._cluster:
            self._library.rd_kafka_mock_cluster_destroy(self._cluster)
            self._library.rd_kafka_destroy(self._client)
            self._cluster = self._client = None

    def __enter__(self) -> Self:
        """The running cluster."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close."""
        self.close()
