"""Asks brokers for the partitions of a checkpoint: log starts and ends, topic ids, a group's commits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position

from sparkcohort.cli.checkpoint.positions import KafkaPositions
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.offsets_json import EARLIEST, LATEST
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka import blocking_client, clients
from sparkcohort.runtime.shell.kafka import errors as kafka_errors
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.options.security_settings import redact_text

TIMEOUT_S: Final = 15.0
_MISSING: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)


def ask_brokers(
    conf: Mapping[str, str], topics: Collection[str], group: str | None, after_commits: Callable[[], None]
) -> KafkaPositions:
    """The answers; partitions whose leader doesn't answer are ``silent``.  Raises CohortError: no answer, or refused.

    ``after_commits`` is called between the question for the group's commits and that for the logs' ends.
    """
    errors: list[KafkaError] = []
    settings = {**conf, "log_level": "0", "allow.auto.create.topics": "false"}
    consumer = clients.new_consumer(settings, errors.append, **{"group.id": group or "cohort-checkpoint"})
    with _as_cohort_errors(conf, group, topics, errors):
        try:
            partitions = _partitions(consumer, topics)
            committed = None if group is None else _committed(consumer, partitions)
            after_commits()
            starts, silent = _offsets(consumer, partitions, EARLIEST)
            ends, silent_ends = _offsets(consumer, partitions, LATEST)
        finally:
            consumer.close()
        with closing(ClusterClient(settings)) as cluster:
            ids = blocking_client.topic_ids(cluster, {tp.topic for tp in partitions}, TIMEOUT_S)
    return KafkaPositions(starts, ends, ids, committed, {**silent, **silent_ends})


def _partitions(consumer: Consumer, topics: Collection[str]) -> list[TopicPartition]:
    partitions: list[TopicPartition] = []
    for topic in sorted(topics):
        metadata = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        if metadata.error is None:
            partitions += [TopicPartition(topic, number) for number in metadata.partitions]
        elif metadata.error.code() not in _MISSING:
            raise KafkaException(metadata.error)
    return partitions


def _offsets(
    consumer: Consumer, partitions: Collection[TopicPartition], spec: int
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, str]]:
    if not partitions:
        return {}, {}
    positions = [Position(tp.topic, tp.partition, spec) for tp in partitions]
    offsets: dict[TopicPartition, int] = {}
    silent: dict[TopicPartition, str] = {}
    for answer in consumer.offsets_for_times(positions, timeout=TIMEOUT_S):
        tp = TopicPartition(answer.topic, answer.partition)
        if answer.error is None and answer.offset >= 0:
            offsets[tp] = answer.offset
        else:
            silent[tp] = answer.error.name() if answer.error else "no offset"
    return offsets, silent


def _committed(consumer: Consumer, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    answers = consumer.committed([Position(tp.topic, tp.partition) for tp in partitions], timeout=TIMEOUT_S)
    for answer in answers:
        if answer.error is not None:
            raise KafkaException(answer.error)
    return {TopicPartition(answer.topic, answer.partition): answer.offset for answer in answers if answer.offset >= 0}


@contextmanager
def _as_cohort_errors(
    conf: Mapping[str, str], group: str | None, topics: Collection[str], client_errors: list[KafkaError]
) -> Iterator[None]:
    """Kafka's errors as a CohortError of one line."""
    try:
        yield
    except (KafkaException, TimeoutError) as error:
        inner = clients.error_of(error) if isinstance(error, KafkaException) else None
        every = [*([inner] if inner else []), *client_errors]
        codes = {each.code() for each in every}
        if refused := [each for each in every if each.code() in kafka_errors.AUTHENTICATION]:
            raise kafka_errors.unauthenticated(conf, clients.text_of(refused[-1])) from None
        if kafka_errors.GROUP_DENIED in codes:
            raise kafka_errors.group_denied(group or "") from None
        if kafka_errors.TOPIC_DENIED in codes:
            raise kafka_errors.topic_denied(topics) from None
        text = redact_text(clients.text_of(every[-1]) if every else "no answer in time", conf)
        raise CohortError(
            f"--bootstrap-server {conf['bootstrap.servers']}: {text}; check the address, the network and --command-config (security.protocol)"
        ) from None
