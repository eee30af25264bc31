"""What confluent-kafka's administration can't ask a cluster for: quotas of a client, replicas of a partition.

Usage::

    set_byte_rate("127.0.0.1:9092", "slow-client", 500_000)        # bytes a second that the client may fetch
    set_replicas("127.0.0.1:9092", "orders", {0: [2, 1]})          # whose first one is the preferred leader
"""

from __future__ import annotations

import select
import struct
from collections.abc import Mapping, Sequence

from sparkcohort.runtime.kafka.fetch_messages import framed, varint
from sparkcohort.runtime.shell.kafka.fetch.connection import connect
from sparkcohort.runtime.shell.kafka.fetch.settings import settings_of
from sparkcohort.runtime.shell.options.connection_settings import Settings

ALTER_PARTITION_REASSIGNMENTS, ALTER_CLIENT_QUOTAS = 45, 49


def set_byte_rate(bootstrap: str, client_id: str, rate: float) -> None:
    """AlterClientQuotas v1; raises RuntimeError when it is refused."""
    entity = _array(_string("client-id") + _string(client_id) + b"\0")
    change = _array(_string("consumer_byte_rate") + struct.pack(">d?", rate, False) + b"\0")
    answer = _ask(bootstrap, ALTER_CLIENT_QUOTAS, 1, _array(entity + change + b"\0") + b"\0\0")
    _check(answer, 10)  # header, throttle, the array's length


def set_replicas(bootstrap: str, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
    """AlterPartitionReassignments v0; raises RuntimeError when it is refused as a whole."""
    partitions = [
        struct.pack(">i", number) + _array(*(struct.pack(">i", node) for node in nodes)) + b"\0"
        for number, nodes in replicas.items()
    ]
    body = struct.pack(">i", 20_000) + _array(_string(topic) + _array(*partitions) + b"\0") + b"\0"
    _check(_ask(bootstrap, ALTER_PARTITION_REASSIGNMENTS, 0, body), 9)


def _check(answer: bytes, at: int) -> None:
    (error,) = struct.unpack_from(">h", answer, at)
    if error:
        raise RuntimeError(f"the cluster answers with error {error}: {answer!r}")


def _ask(bootstrap: str, api: int, version: int, body: bytes) -> bytes:
    host, _, port = bootstrap.split(",", maxsplit=1)[0].rpartition(":")
    transport = connect(host, int(port), Settings.parse(settings_of({})), 10)
    try:
        transport.send(framed(api, version, 1, "tests", body))
        answer, waiting = bytearray(4096), select.poll()
        waiting.register(transport, select.POLLIN)
        filled = 0
        while filled < 4 or filled < 4 + int.from_bytes(answer[:4]):
            if not waiting.poll(20_000):
                raise RuntimeError("the cluster doesn't answer")
            filled += transport.recv_into(memoryview(answer)[filled:])
        return bytes(answer[4:filled])
    finally:
        transport.close()


def _array(*items: bytes) -> bytes:
    return varint(len(items) + 1) + b"".join(items)


def _string(text: str) -> bytes:
    return varint(len(text) + 1) + text.encode()
