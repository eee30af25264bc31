"""Questions to the cluster with their answers, for callers that may block: readers and agents.  All raise TransportError."""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka import KafkaError

from sparkcohort.runtime.kafka import cluster_messages
from sparkcohort.runtime.kafka.cluster_messages import MetadataQuestion, OffsetsQuestion
from sparkcohort.runtime.kafka.fetch_messages import NO_ID, Topic
from sparkcohort.runtime.protocol.offsets_json import EARLIEST, LATEST
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.clients import text_of
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient, result_of
from sparkcohort.runtime.shell.options.connection_settings import TransportError

ANSWER_S = 2.0


def topic_ids(client: ClusterClient, topics: Collection[str], timeout_s: float = ANSWER_S) -> dict[str, str]:
    """The ids of those topics that there are."""
    return cluster_messages.topic_ids(client.metadata(MetadataQuestion(topics), timeout_s)) if topics else {}


def topic(client: ClusterClient, name: str, timeout_s: float) -> Topic:
    """The topic as the cluster knows it, without partitions where there is none."""
    topics = client.metadata(MetadataQuestion({name}), timeout_s).topics
    return topics.get(name, Topic(KafkaError.UNKNOWN_TOPIC_OR_PART, NO_ID, {}))


def log_range(client: ClusterClient, tp: TopicPartition, timeout_s: float, *, committed: bool) -> tuple[int, int]:
    """The first available offset and the end; ``committed``: open transactions left out."""
    leader = topic(client, tp.topic, timeout_s).leaders.get(tp.partition)
    if leader is None:
        raise TransportError(text_of(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
    questions = [OffsetsQuestion({tp: spec}, committed) for spec in (EARLIEST, LATEST)]
    futures = [client.ask(question, leader.node, timeout_s) for question in questions]
    first, end = (result_of(future, timeout_s)[tp] for future in futures)
    if first.error or end.error:
        raise TransportError(text_of(KafkaError(first.error or end.error)))
    return first.offset, end.offset
