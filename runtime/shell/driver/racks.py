"""In which racks replicas are.  Asked for only where an option gives members racks: it takes a client of its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.kafka.renewed_client import RenewedClient

log = logging.getLogger("sparkcohort.racks")

ANSWER_S = 2.0  # patience with brokers that have just answered another question


class NodeRacks:
    """The brokers' racks, asked for at every look (metadata that librdkafka shows has replicas but no racks)."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        """Nothing is opened before the first look."""
        self._conf = conf
        self._admin: RenewedClient[AdminClient] = RenewedClient(conf)
        self._racks: dict[int, str] = {}
        self._told = False

    def of(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> dict[TopicPartition, frozenset[str]]:
        """The racks of each partition's replicas, of brokers that have one; those known before if nobody answers.

        A broker that is down is not told of any more, and still is where it was.
        """
        self._look()
        if not self._racks:
            return {}
        alike: dict[tuple[int, ...], frozenset[str]] = {}  # replicas lie alike for many partitions
        for nodes in map(tuple, replicas.values()):
            if nodes not in alike:
                alike[nodes] = frozenset(self._racks[node] for node in nodes if node in self._racks)
        return {tp: alike[tuple(nodes)] for tp, nodes in replicas.items()}

    def release(self) -> None:
        """Let go of the client; for the thread that looks."""
        self._admin.release()

    def _look(self) -> None:
        try:
            with self._admin.asking(lambda: clients.new_admin(self._conf)) as admin:
                nodes = admin.describe_cluster(request_timeout=ANSWER_S).result(ANSWER_S).nodes
            self._racks |= {node.id: node.rack for node in nodes if node.rack}
        except (KafkaException, TimeoutError) as error:
            if not self._racks and not self._told:
                self._told = True
                log.warning(
                    "the brokers' racks are not known: %s; racks count for nothing until they are",
                    clients.text_of(error),
                )
