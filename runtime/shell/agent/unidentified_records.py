"""The topic of records that come without its id: librdkafka's, of a topic that may have been recreated.

No two topics have the same id.  The driver has seen the plan's id before anything was fetched for that plan (see
``Prefetcher._follow_plan``), so records are of that topic if it still has this id after they have come.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.agent.buffers import Chunk, Reader
from sparkcohort.runtime.shell.kafka import blocking_client
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient

UNKNOWN = "the topic's id is not known"
OTHER_TOPIC = "of another topic of that name"


class UnidentifiedRecords:
    """Asks for the ids of topics; may be called from any thread."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """Nothing is opened before the first question."""
        self._cluster = ClusterClient(conf)
        self._lock = threading.Lock()

    def ids(self, partitions: Collection[TopicPartition]) -> dict[str, str]:
        """The id that each topic has now; none without partitions, or without an answer."""
        if not partitions:
            return {}
        with self._lock:
            try:
                return blocking_client.topic_ids(self._cluster, sorted({tp.topic for tp in partitions}))
            except KafkaException:
                return {}

    def close(self) -> None:
        """Close the client."""
        with self._lock:
            self._cluster.close()


def in_doubt(readers: Sequence[Reader]) -> dict[TopicPartition, Chunk]:
    """The partitions whose readers need records of unconfirmed topic ids, each with the last chunk that has come."""
    return {
        reader.buffer.tp: reader.buffer.chunks[-1]
        for reader in readers
        if reader.buffer.chunks and reader.limit <= reader.position < reader.buffer.position
    }


def check_topic_ids(
    readers: Sequence[Reader], doubted: Mapping[TopicPartition, Chunk], ids: Mapping[str, str]
) -> list[tuple[int, str]]:
    """Check chunks by the ids that topics had after they came; returns the missed ranges with their reasons."""
    missed: list[tuple[int, str]] = []
    for reader in readers:
        buffer, last = reader.buffer, doubted.get(reader.buffer.tp)
        if last is None or not any(chunk is last for chunk in buffer.chunks):
            continue  # the buffer was moved meanwhile
        topic_id = ids.get(buffer.tp.topic, "")
        if topic_id and topic_id == buffer.topic_id:
            buffer.sure = max(buffer.sure, last.next_offset)
        elif topic_id:  # fetched again, to be of the topic with this id
            buffer.move(buffer.planned_start)
            buffer.topic_id = topic_id
        if topic_id != reader.topic_id:
            missed.append((reader.index, OTHER_TOPIC if topic_id else UNKNOWN))
    return missed
