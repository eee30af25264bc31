"""What a group has committed, asked as a consumer that never joins.

AdminClient.list_consumer_group_offsets ends the process, by a segmentation fault or an assertion, where the group coordinator is
loading, as after any restart of a broker (librdkafka issue 5040).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import closing, suppress

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka import clients, errors
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.options.connection_settings import TransportError

TRY_S = 1.0
_FINAL = errors.AUTHENTICATION | {errors.GROUP_DENIED, errors.TOPIC_DENIED}


class GroupOffsets:
    """The offsets of one group; for one thread at a time."""

    def __init__(self, conf: Mapping[str, str], group_id: str) -> None:
        """``conf`` is librdkafka's.  Nothing is asked yet.  Raises CohortError: no client can be made."""
        self._conf, self._group_id = conf, group_id
        self._errors: list[KafkaError] = []
        self._consumer = clients.new_consumer(conf, self._errors.append, **{"group.id": group_id})

    def close(self) -> None:
        """Let go of the client."""
        self._consumer.close()

    def committed(
        self, partitions: Collection[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, tuple[int, str]]:
        """Offset and metadata text of each partition that has one.

        Raises KafkaException: refused, at once; what else went wrong, when the time is over.
        """
        if not partitions:
            return {}
        deadline = time.monotonic() + timeout_s
        positions = [Position(*tp) for tp in sorted(partitions)]
        while True:
            left_s = deadline - time.monotonic()
            try:
                answers = self._consumer.committed(positions, timeout=max(0.001, min(TRY_S, left_s)))
            except KafkaException as error:
                self._raise_refusal()
                if clients.code_of(error) != KafkaError._TIMED_OUT or left_s <= TRY_S:
                    raise
                continue
            for answer in answers:
                if answer.error is not None:
                    raise KafkaException(answer.error)
            pairs = {TopicPartition(each.topic, each.partition): (each.offset, each.metadata or "") for each in answers}
            return {tp: pair for tp, pair in pairs.items() if pair[0] >= 0}

    def partitions(self, timeout_s: float) -> list[TopicPartition]:
        """Those of all topics that may be described.  Raises KafkaException."""
        topics = self._consumer.list_topics(timeout=timeout_s).topics
        readable = {name: topic.partitions for name, topic in topics.items() if topic.error is None}
        return [TopicPartition(name, number) for name, numbers in readable.items() for number in numbers]

    def _raise_refusal(self) -> None:
        """Raises KafkaException where it is no use to go on.

        librdkafka's consumer tries again whatever happens and doesn't say why; the group's coordinator does, asked for the group.
        """
        self._consumer.poll(0)
        refused = [each for each in self._errors if each.code() in _FINAL]
        self._errors.clear()
        if refused:
            raise KafkaException(refused[0])
        with closing(ClusterClient(self._conf)) as cluster, suppress(TransportError):
            described = cluster.describe_group(self._group_id, TRY_S)
            if described.error in _FINAL:
                raise KafkaException(KafkaError(described.error))
