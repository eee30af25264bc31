"""Questions to the cluster with their answers, for callers that may block: readers, agents, the command line."""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka import KafkaError, KafkaException

from sparkcohort.runtime.kafka import cluster_messages
from sparkcohort.runtime.kafka.cluster_messages import MetadataQuestion, OffsetsQuestion
from sparkcohort.runtime.kafka.fetch_messages import NO_ID, Metadata, Topic
from sparkcohort.runtime.protocol.offsets_json import EARLIEST, LATEST
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient, result_of
from sparkcohort.runtime.shell.options.connection_settings import TransportError

ANSWER_S = 2.0


def topic_ids(client: ClusterClient, topics: Collection[str], timeout_s: float = ANSWER_S) -> dict[str, str]:
    """The ids of those topics that there are.  Raises KafkaException when no broker answers."""
    return cluster_messages.topic_ids(_metadata(client, topics, timeout_s)) if topics else {}


def topic(client: ClusterClient, name: str, timeout_s: float) -> Topic:
    """The topic as the cluster knows it, without partitions where there is none.  Raises KafkaException when no broker answers."""
    topics = _metadata(client, {name}, timeout_s).topics
    return topics.get(name, Topic(KafkaError.UNKNOWN_TOPIC_OR_PART, NO_ID, {}))


def log_range(client: ClusterClient, tp: TopicPartition, timeout_s: float, *, committed: bool) -> tuple[int, int]:
    """The first available offset and the end; ``committed``: open transactions left out.  Raises KafkaException."""
    leader = topic(client, tp.topic, timeout_s).leaders.get(tp.partition)
    if leader is None:
        raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    questions = [OffsetsQuestion({tp: spec}, committed) for spec in (EARLIEST, LATEST)]
    futures = [client.ask(question, leader.node, timeout_s) for question in questions]
    try:
        first, end = (result_of(future, timeout_s)[tp] for future in futures)
    except TransportError as error:
        raise _as_kafka_exception(error) from None
    if first.error or end.error:
        raise KafkaException(KafkaError(first.error or end.error))
    return first.offset, end.offset


def _metadata(client: ClusterClient, topics: Collection[str], timeout_s: float) -> Metadata:
    try:
        return client.metadata(MetadataQuestion(topics), timeout_s)
    except TransportError as error:
        raise _as_kafka_exception(error) from None


def _as_kafka_exception(error: TransportError) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TRANSPORT, str(error)))
