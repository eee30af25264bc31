"""The same over confluent-kafka's producer, for logins that only librdkafka has: a call for each row, and a thread of librdkafka's."""

from __future__ import annotations

import time
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka import client_log
from sparkcohort.runtime.shell.kafka.clients import text_of, with_credentials
from sparkcohort.runtime.shell.kafka.produce.failures import missing_topic_error, refused_batch
from sparkcohort.runtime.shell.kafka.produce.produce_report import ProduceError, ProduceReport
from sparkcohort.runtime.shell.options.client_defaults import PACE
from sparkcohort.runtime.shell.options.kafka_settings import ROWS, UNKNOWN
from sparkcohort.runtime.shell.options.producer_settings import WORDS, ProducerSettings
from sparkcohort.runtime.shell.options.security_settings import redact_text

TURN_S: Final = 0.1
NO_PARTITION: Final = -1


class LibrdkafkaSender:
    """See the module and ``Producer``."""

    def __init__(self, settings: ProducerSettings) -> None:
        """Nothing is connected yet."""
        self._settings = settings
        self._client: Producer | None = None
        self._report = ProduceReport()
        self._failure: ProduceError | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        """See ``Producer``."""
        client = self._open_client()
        for row in rows.to_pylist():
            if row["topic"] is None:
                raise self._fail(missing_topic_error())
            self._produce(client, row)
        client.poll(0)
        self._check_failure()

    def flush(self) -> ProduceReport:
        """See ``Producer``."""
        client, began = self._open_client(), time.monotonic()
        while client.flush(TURN_S):  # librdkafka ends each row by delivery.timeout.ms
            self._check_failure()
        self._check_failure()
        self._report.waited_s += time.monotonic() - began
        report, self._report = self._report, ProduceReport()
        return report

    def close(self) -> None:
        """See ``Producer``."""
        self._failure = self._failure or ProduceError("the producer is closed")
        if self._client is not None:
            self._client.purge(blocking=False)
            self._client = None

    def _produce(self, client: Producer, row: dict[str, Any]) -> None:
        place = {} if row["partition"] is None else {"partition": row["partition"]}
        headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
        while True:
            try:
                client.produce(
                    row["topic"], row["value"], row["key"], on_delivery=self._take_delivery, timestamp=row["timestamp"] or 0,
                    headers=headers, **place,
                )  # fmt: skip
            except BufferError:  # buffer.memory is full
                began = time.monotonic()
                client.poll(TURN_S)
                self._report.waited_s += time.monotonic() - began
                self._check_failure()
            except KafkaException as error:
                tp = TopicPartition(row["topic"], NO_PARTITION if row["partition"] is None else row["partition"])
                raise self._fail(self._error_of(tp, error.args[0])) from None
            else:
                return

    def _take_delivery(self, error: KafkaError | None, message: Message) -> None:
        topic, partition = message.topic() or "", message.partition()
        if error is None:
            self._report.acknowledge(topic, 1, len(message))
        elif self._failure is None:
            self._failure = self._error_of(
                TopicPartition(topic, NO_PARTITION if partition is None else partition), error
            )

    def _error_of(self, tp: TopicPartition, error: KafkaError) -> ProduceError:
        words = redact_text(text_of(error), self._settings.connection)
        return refused_batch(tp, error.code(), words, self._settings.request_bytes)

    def _check_failure(self) -> None:
        if self._failure is not None:
            raise self._fail(self._failure)

    def _fail(self, error: ProduceError) -> ProduceError:
        self._failure = self._failure or error
        self.close()
        return self._failure

    def _open_client(self) -> Producer:
        self._check_failure()
        if self._client is None:
            try:
                self._client = Producer(with_credentials(self._config()), logger=client_log.log)
            except KafkaException as error:
                words = redact_text(text_of(error), self._settings.connection)
                raise self._fail(ProduceError(f"the Kafka client cannot be made: {words}")) from None
        return self._client

    def _config(self) -> dict[str, Any]:
        """librdkafka's names; its queue is bounded by bytes, as ours is."""
        settings = self._settings
        codecs = {number: name for name, number in WORDS["compression.type"].items()}
        return {
            **PACE,
            **{
                name: value for name, value in settings.connection.items() if not ROWS.get(name, UNKNOWN).consumers_only
            },
            "acks": settings.acks,
            "batch.size": max(settings.batch_bytes, 1),
            "compression.type": codecs[settings.codec],
            "delivery.timeout.ms": int(settings.delivery_s * 1000),
            "enable.idempotence": settings.idempotent,
            "linger.ms": settings.linger_s * 1000,
            "max.in.flight": min(settings.in_flight, 5),
            "message.max.bytes": max(settings.request_bytes, 1000),
            "partitioner": "murmur2_random",
            "queue.buffering.max.kbytes": max(settings.buffer_bytes >> 10, 1),
            "queue.buffering.max.messages": 0,
            "request.timeout.ms": int(settings.request_s * 1000),
            "retries": settings.retries,
        }
