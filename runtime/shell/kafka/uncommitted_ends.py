"""How far logs go, with the records of open transactions: what a reader of committed ones is not told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import IsolationLevel
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, OffsetSpec

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.kafka.renewed_client import RenewedClient


class UncommittedEnds:
    """Asks by a client of its own, which is kept: the question comes again and again while a transaction is open."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """Nothing is opened before the first question."""
        self._conf = conf
        self._admin: RenewedClient[AdminClient] = RenewedClient(conf)

    def ask(self, partitions: Iterable[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """The end of each partition's log.  Raises KafkaException, TimeoutError."""
        asked = {Position(*tp): OffsetSpec.latest() for tp in partitions}
        level = IsolationLevel.READ_UNCOMMITTED
        with self._admin.asking(lambda: clients.new_admin(self._conf)) as admin:
            answers = admin.list_offsets(asked, isolation_level=level, request_timeout=timeout_s)
            return {
                TopicPartition(at.topic, at.partition): each.result(timeout_s).offset for at, each in answers.items()
            }

    def release(self) -> None:
        """Let go of the client; for the thread that asks."""
        self._admin.release()
