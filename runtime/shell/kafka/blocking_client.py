"""Questions to the cluster with their answers, for callers that may block: readers, agents, the command line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from sparkcohort.runtime.kafka.cluster_messages import MetadataQuestion, OffsetsQuestion, topic_ids
from sparkcohort.runtime.protocol.offsets_json import LATEST
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient, result_of
from sparkcohort.runtime.shell.options.connection_settings import TransportError

ANSWER_S = 2.0


class BlockingClient:
    """Questions with their answers, by a client of its own; for any thread."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """Nothing is opened before the first question."""
        self._client = ClusterClient(conf)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def topic_ids(self, topics: Collection[str], timeout_s: float = ANSWER_S) -> dict[str, str]:
        """The ids of those topics that there are.  Raises KafkaException when no broker answers."""
        if not topics:
            return {}
        try:
            return topic_ids(self._client.metadata(MetadataQuestion(topics), timeout_s))
        except TransportError as error:
            raise _as_kafka_exception(error) from None

    def uncommitted_end(self, tp: TopicPartition, timeout_s: float) -> int:
        """The end of the partition's log, open transactions included.  Raises KafkaException where it has none."""
        try:
            topic = self._client.metadata(MetadataQuestion({tp.topic}), timeout_s).topics.get(tp.topic)
            leader = topic.leaders.get(tp.partition) if topic is not None else None
            if leader is None:
                raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
            question = OffsetsQuestion({tp: LATEST}, committed=False)
            listed = result_of(self._client.ask(question, leader.node, timeout_s), timeout_s)[tp]
        except TransportError as error:
            raise _as_kafka_exception(error) from None
        if listed.error:
            raise KafkaException(KafkaError(listed.error))
        return int(listed.offset)


def _as_kafka_exception(error: TransportError) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TRANSPORT, str(error)))
