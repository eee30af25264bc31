"""The compacted topic of ``sink.state.topic``: one record for each sink, its last decision."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from sparkcohort.runtime.kafka.cluster_messages import MetadataQuestion
from sparkcohort.runtime.kafka.decision import (
    Committable,
    MalformedDecision,
    SinkDecision,
    WrittenRange,
    decode_decision,
)
from sparkcohort.runtime.kafka.fetch_messages import Topic
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.kafka import blocking_client
from sparkcohort.runtime.shell.kafka.clients import code_of, new_admin, text_of
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.kafka.fetch.range_reader import RangeReader
from sparkcohort.runtime.shell.kafka.produce.produce_report import ProduceError
from sparkcohort.runtime.shell.options.connection_settings import TransportError
from sparkcohort.runtime.values.columns import KAFKA_ROW, Field

log = logging.getLogger("sparkcohort.writer")

ANSWER_S, STABLE_S, PAUSE_S = 5.0, 30.0, 0.02
POLL_MS: Final = 30_000
MOST_REPLICAS: Final = 3
_COLUMNS: Final = tuple(each for each in KAFKA_ROW if each.field in (Field.KEY, Field.VALUE, Field.OFFSET))
_TOPIC_CONFIG: Final = {
    "cleanup.policy": "compact",
    "message.timestamp.type": "LogAppendTime",  # a driver's clock that is an hour ahead makes no decision invalid
    "min.cleanable.dirty.ratio": "0.1",
    "segment.bytes": str(4 << 20),  # the newest segment is not compacted, and is what a start has to read
}


class DecisionLog:
    """Reads what sinks have decided; the writes are a producer's (``sink_committer``)."""

    def __init__(self, connection: Mapping[str, Any], client: ClusterClient, topic: str) -> None:
        """Asks nothing; ``client`` stays the caller's to close."""
        self._conf = {**connection, "isolation.level": "read_committed"}
        self._client = client
        self.tp = TopicPartition(topic, 0)

    def ensure_topic(self) -> None:
        """Make the topic, if there is none.  Raises CohortError where this user may not, or nobody answers."""
        if self._topic().leaders:
            return
        try:
            brokers = len(self._client.metadata(MetadataQuestion(()), ANSWER_S).nodes)
            # As many as Kafka's log of transactions has by default: the brokers' own default for topics is one, and with that broker
            # goes what is decided.
            replicas = min(MOST_REPLICAS, brokers)
            config = {**_TOPIC_CONFIG, "min.insync.replicas": str(max(1, replicas - 1))}
            admin = new_admin(self._conf)
            new_topic = NewTopic(self.tp.topic, 1, replicas, config=config)
            admin.create_topics([new_topic])[self.tp.topic].result(ANSWER_S)
            log.info(
                "topic %s was made, with %d replicas: it has what each sink has decided (sink.state.topic)",
                self.tp.topic,
                replicas,
            )
        except TransportError as error:
            raise self._unreachable(str(error)) from None
        except (KafkaException, TimeoutError) as error:
            if isinstance(error, KafkaException) and code_of(error) == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            raise ProduceError(
                f"topic {self.tp.topic} (sink.state.topic) is missing and can't be made: {text_of(error)}; make it with one partition "
                "and cleanup.policy=compact, or allow this user CREATE on it"
            ) from None

    def is_missing(self) -> bool:
        """Whether the cluster has no such topic.  Raises CohortError."""
        return bool(self._topic().error == KafkaError.UNKNOWN_TOPIC_OR_PART)

    def _topic(self) -> Topic:
        """The topic as the cluster knows it; a broker that has just started may know of no broker yet."""
        deadline = time.monotonic() + STABLE_S
        while True:
            try:
                return blocking_client.topic(self._client, self.tp.topic, ANSWER_S)
            except TransportError as error:
                if time.monotonic() >= deadline:
                    raise self._unreachable(str(error)) from None
            time.sleep(PAUSE_S)

    def read(self, sink_id: str) -> SinkDecision | None:
        """The sink's last decision.  Raises CohortError."""
        key, last = sink_id.encode(), None
        for rows in self._rows([Range(*self.tp, *self._stable_range())]):
            own = rows.filter(pc.equal(rows.column("key"), key))
            if own.num_rows:
                last = own.column("value")[-1].as_py()
        if last is None:
            return None
        try:
            return decode_decision(last)
        except MalformedDecision as error:
            raise ProduceError(
                f"the record of sink {sink_id} in topic {self.tp.topic} can't be read: {error}; update Cohort, or see cohort sink reset"
            ) from None

    def is_visible(self, committable: Committable) -> bool:
        """Whether ``read_committed`` readers get the last record of each of its partitions, or none does any more.  Raises CohortError."""
        return all(self._has_record(each) for each in committable.ranges)

    def _has_record(self, written: WrittenRange) -> bool:
        tp = TopicPartition(written.topic, written.partition)
        try:
            start, _ = blocking_client.log_range(self._client, tp, ANSWER_S, committed=True)
        except TransportError as error:
            raise self._unreachable(str(error)) from None
        if start > written.last >= 0:  # the topic's retention has taken it
            return True
        return written.last >= 0 and any(
            rows.num_rows for rows in self._rows([Range(*tp, written.last, written.last + 1)])
        )

    def _stable_range(self) -> tuple[int, int]:
        """All of the partition: an open transaction of another sink hides what is behind it, and has to end first."""
        deadline = time.monotonic() + STABLE_S
        words = "it is not led by a broker"
        end = None
        while time.monotonic() < deadline:
            try:
                end = (
                    end
                    if end is not None
                    else blocking_client.log_range(self._client, self.tp, ANSWER_S, committed=False)[1]
                )
                start, stable = blocking_client.log_range(self._client, self.tp, ANSWER_S, committed=True)
                if stable >= end:
                    return start, end
                words = "a transaction of another sink stays open in it"
            except TransportError as error:
                words = str(error)
            time.sleep(PAUSE_S)
        raise self._unreachable(words)

    def _unreachable(self, words: str) -> ProduceError:
        return ProduceError(f"topic {self.tp.topic} (sink.state.topic) can't be read: {words}; is its leader up?")

    def _rows(self, ranges: Iterable[Range]) -> Iterable[pa.RecordBatch]:
        filled_ranges = [each for each in ranges if each.size]
        ids = blocking_client.topic_ids(self._client, {each.topic for each in filled_ranges}, ANSWER_S)
        reader = RangeReader(
            self._conf, columns=_COLUMNS, fail_on_data_loss=False, poll_timeout_ms=POLL_MS, on_data_loss=log.debug
        )
        with closing(reader):
            for _, _, rows in reader.read(filled_ranges, ids) if filled_ranges else ():
                if rows is not None:
                    yield rows
