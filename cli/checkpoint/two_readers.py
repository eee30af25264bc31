"""Reads the same ranges twice: as a query of ``format("cohort")`` reads them, and by confluent-kafka's plain consumer.

The plain consumer shares no decoder, no fetching and no rule for the end of a range with Cohort's reader.  Neither joins a
group or commits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Position

from sparkcohort.cli.checkpoint.shadow_ranges import ReadTotals, empty_totals
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.kafka.fetch.range_reader import RangeReader
from sparkcohort.runtime.shell.options.security_settings import redact_text
from sparkcohort.runtime.values.columns import KAFKA_ROW_WITH_HEADERS

SILENT_S: Final = 60.0
"""The longest time without a record."""
ASK_S: Final = 15.0
AT_ONCE: Final = 5_000
GROUP: Final = "cohort-shadow"
_CREATED, _APPENDED = 1, 2  # confluent-kafka's; Spark's timestampType is 0 and 1, and -1 for none
_PASSING: Final = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE}
_READS: Final = {
    "auto.offset.reset": "error",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "fetch.queue.backoff.ms": "10",
    "queued.max.messages.kbytes": "16384",
    "queued.min.messages": "100000",
    "log_level": "0",
}


class TwoReaders:
    """Both readers of one cluster; ``conf`` is librdkafka's."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        """Make both readers.  Raises CohortError: a client can't be made."""
        # Spark's source reads uncommitted records by default; librdkafka doesn't.
        self._conf = {"isolation.level": "read_uncommitted", **conf}
        self._cohort_reader = RangeReader(
            {**self._conf, "group.id": GROUP}, columns=KAFKA_ROW_WITH_HEADERS, poll_timeout_ms=int(SILENT_S * 1000)
        )
        self._plain_consumer = clients.new_consumer(self._conf, None, **{"group.id": GROUP, **_READS})

    def close(self) -> None:
        """Close both clients."""
        self._plain_consumer.close()
        self._cohort_reader.close()

    def beginnings(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each log.  Raises CohortError: no answer, or no such partition."""
        beginnings: dict[TopicPartition, int] = {}
        for tp in partitions:
            try:
                beginnings[tp] = self._plain_consumer.get_watermark_offsets(Position(*tp), timeout=ASK_S)[0]
            except KafkaException as error:
                raise self._failed(error, f"the log of {tp.topic}-{tp.partition} can't be asked for") from None
        return beginnings

    def cohort_totals(self, ranges: Sequence[Range]) -> Mapping[TopicPartition, ReadTotals]:
        """The sums of what ``format("cohort")`` delivers, one range a partition.  Raises CohortError."""
        totals = empty_totals(ranges)
        for tp, _, batch in self._cohort_reader.read(ranges):
            for row in _rows(batch):
                totals[tp].add(*row)
        return totals

    def plain_totals(self, ranges: Sequence[Range]) -> Mapping[TopicPartition, ReadTotals]:
        """The sums of what the plain consumer delivers.  Raises CohortError: refused, or no record in time."""
        totals, remaining = empty_totals(ranges), {span.tp: span for span in ranges}
        self._plain_consumer.assign([Position(span.topic, span.partition, span.start) for span in ranges])
        try:
            deadline = time.monotonic() + SILENT_S
            while remaining and time.monotonic() < deadline:
                for message in self._plain_consumer.consume(AT_ONCE, 0.1):
                    tp, position = _position(message)
                    span = remaining.get(tp)
                    if span is None or position <= span.start:
                        continue
                    if message.error() is None:
                        deadline = time.monotonic() + SILENT_S
                        if position <= span.end:
                            totals[tp].add(*_fields(message))
                    # The end of the log ends a range only if it is not before the range's: a replica may be behind.
                    if position >= span.end:
                        del remaining[tp]
                        self._plain_consumer.pause([Position(*tp)])
        except KafkaException as error:
            raise self._failed(error, "the plain consumer can't read") from None
        finally:
            self._plain_consumer.resume([Position(*span.tp) for span in ranges])  # a pause outlives an assignment
            self._plain_consumer.unassign()
        if remaining:
            names = ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(remaining)[:5])
            raise CohortError(f"nothing came for {SILENT_S:g} s from {names}: see cohort doctor", "REQUEST_TIMED_OUT")
        return totals

    def _failed(self, error: KafkaException, message: str) -> CohortError:
        code = clients.error_of(error)
        name = code.name() if code is not None else "UNKNOWN"
        return CohortError(f"{message}: {redact_text(clients.text_of(error), self._conf)}", name)


def _position(message: Message) -> tuple[TopicPartition, int]:
    """A message's partition, and the offset after it; at the end of a log (an error) that offset itself.  Raises KafkaException."""
    tp, offset, error = (
        TopicPartition(str(message.topic()), int(message.partition() or 0)),
        message.offset(),
        message.error(),
    )
    if error is None:
        return tp, int(offset or 0) + 1
    if error.code() != KafkaError._PARTITION_EOF and error.code() not in _PASSING:
        raise KafkaException(error)
    return tp, int(offset or 0) if error.code() == KafkaError._PARTITION_EOF else -1


Row = tuple[int, int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def _fields(message: Message) -> Row:
    kind, at_ms = message.timestamp()
    spark = {_CREATED: 0, _APPENDED: 1}.get(kind, -1)
    headers: Any = message.headers() or []
    return int(message.offset() or 0), at_ms * 1000, spark, message.key(), message.value(), headers


def _rows(batch: pa.RecordBatch | None) -> Iterator[Row]:
    if batch is None:
        return
    columns = {name: batch.column(name) for name in batch.schema.names}
    times = columns["timestamp"].cast(pa.int64()).to_pylist()
    names = ("offset", "timestampType", "key", "value", "headers")
    for at_us, (offset, kind, key, value, headers) in zip(
        times, zip(*(columns[name].to_pylist() for name in names), strict=True), strict=True
    ):
        yield offset, at_us, kind, key, value, [(each["key"], each["value"]) for each in headers or ()]
