"""The seam to Kafka's bytes: partitions and positions in, Arrow record batches out.

One ``Drain`` is one librdkafka consumer that is assigned, never joins a group and never stores an offset.  Everything
above it (``fetch``, ``prefetch``) knows batches and positions only, so another decoder can take this module's place.
Per record the only work in Python is what C-level ``map`` does over the messages of a whole batch.
"""

from __future__ import annotations

import logging
import uuid
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, repeat
from operator import is_, itemgetter
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol import TopicPartition
from sparkcohort.runtime.shell import arrow

BATCH_RECORDS = 10_000
BATCH_BYTES = 8 << 20

_FIRST, _SECOND = itemgetter(0), itemgetter(1)
_OFFSET_OF: Callable[[Message], Any] = Message.offset  # typed as optional, though only an error has none


class _Detail(logging.LoggerAdapter[logging.Logger]):
    """What the client logs while it tries again is detail to us: what becomes an error is raised, with its reason."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log at INFO at most."""
        self.logger.log(min(level, logging.INFO), msg, *args, **kwargs)


_log = _Detail(logging.getLogger("sparkcohort.kafka"))

# What the semantics of a range read rest upon: no option of the user's may change these.
_FORCED: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "check.crcs": True,
    "allow.auto.create.topics": False,
}
# librdkafka's defaults stall a fast drain for a second (fetch.queue.backoff.ms), and keep away for up to ten from a
# broker that is back (reconnect.backoff.max.ms).
_DEFAULTS: Mapping[str, Any] = {
    "isolation.level": "read_uncommitted",  # librdkafka's own default is read_committed, Spark's is Kafka's
    "fetch.queue.backoff.ms": 2,
    "fetch.error.backoff.ms": 100,
    "fetch.wait.max.ms": 20,
    "fetch.max.bytes": 16 << 20,
    "max.partition.fetch.bytes": 2 << 20,
    "queued.min.messages": 200_000,
    "queued.max.messages.kbytes": 32 << 10,
    "reconnect.backoff.max.ms": 1_000,
    "topic.metadata.propagation.max.ms": 5_000,
    "max.poll.interval.ms": 86_400_000,  # a slow sink is not a dead consumer: there is no group to be thrown out of
    "log.connection.close": False,
}
_GROUP_ERRORS = frozenset(
    (
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError._WAIT_COORD,
    )
)


class MalformedRecordError(CohortError):
    """A record that Spark's row can't hold; the message names topic, partition and offset."""


@dataclass(frozen=True, slots=True)
class Records:
    """Consecutive visible records of one partition; ``batch`` is None when all lie behind the end asked for."""

    tp: TopicPartition
    next_offset: int  # follows the last record seen, which may lie behind the end asked for
    batch: pa.RecordBatch | None
    nbytes: int  # what the batch holds of its own, shared constant columns left out


@dataclass(frozen=True, slots=True)
class EndOfLog:
    """The broker has nothing visible before ``offset``, which was the end of the partition just now."""

    tp: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class PartitionError:
    """An error of one partition; it delivers nothing more until it is assigned again."""

    tp: TopicPartition
    error: KafkaError | MalformedRecordError


Event: TypeAlias = Records | EndOfLog | PartitionError


class Drain:
    """Assigned partitions of one Kafka cluster as a stream of events; for one thread at a time.

    ``conf`` are librdkafka settings; a few are forced (``_FORCED``), others have better defaults (``_DEFAULTS``).
    """

    def __init__(self, conf: Mapping[str, Any], *, include_headers: bool, batch_bytes: int = BATCH_BYTES) -> None:
        """Create the client; no connection is awaited.  Raises KafkaException for settings librdkafka refuses."""
        self.last_error = ""  # what the client last complained about, for messages of time-outs
        self.complaints: set[int] = set()  # the codes of errors that came without a partition; the caller empties it
        self._schema = arrow.schema(include_headers)
        self._include_headers = include_headers
        self._topics: dict[str, pa.Array] = {}
        self._ends: dict[TopicPartition, int] = {}  # of each assigned partition
        self._batch_bytes = batch_bytes
        self._mean_size = batch_bytes / BATCH_RECORDS
        # A name that nobody else uses: the consumer never joins, so no permission on a group is needed either.
        group = {"group.id": f"cohort-fetch-{uuid.uuid4().hex}"}
        settings = {**_DEFAULTS, **_without_aliases(conf), **_FORCED, **group, "error_cb": self._on_error}
        self._consumer = Consumer(settings, logger=_log)

    def assign(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Start fetching partitions that are not assigned yet, each the records of its span [start, end).

        Fetching goes on behind the end until ``unassign``; what it finds there only moves ``next_offset``.
        """
        if spans:
            self._consumer.incremental_assign([KafkaPartition(tp[0], tp[1], span[0]) for tp, span in spans.items()])
            self._ends.update((tp, end) for tp, (_, end) in spans.items())

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching; what is queued of these partitions is thrown away."""
        gone = [tp for tp in partitions if tp in self._ends]
        if gone:
            self._consumer.incremental_unassign([KafkaPartition(*tp) for tp in gone])
            for tp in gone:
                del self._ends[tp]

    def poll(self, timeout_s: float, records: int = BATCH_RECORDS) -> list[Event]:
        """Return what is there, at most ``records`` or about ``batch_bytes``; wait only when nothing is."""
        limit = max(1, min(records, BATCH_RECORDS, int(self._batch_bytes / self._mean_size)))
        messages = self._consumer.consume(limit, 0)
        if not messages and timeout_s > 0:
            # A timed consume waits until it has all it was asked for: wait for one record, then take what came with it.
            messages = self._consumer.consume(1, timeout_s)
            if messages and limit > 1:
                messages += self._consumer.consume(limit - 1, 0)
        return list(self._events(messages)) if messages else []

    def log_range(self, tp: TopicPartition, timeout_s: float) -> tuple[int, int]:
        """Ask the broker for the first available offset and the end (of the isolation level); raises KafkaException."""
        answer = self._consumer.get_watermark_offsets(KafkaPartition(*tp), timeout=timeout_s)
        if answer is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer to ListOffsets"))
        return answer

    def log_end(self, tp: TopicPartition) -> int | None:
        """Where the log ended when the last fetch of this partition was answered, without asking; None: not known.

        Beside a poll of another thread it would never return: each waits for a lock that the other has.
        """
        answer = self._consumer.get_watermark_offsets(KafkaPartition(*tp), cached=True)
        return answer[1] if answer[1] >= 0 else None

    def exists(self, tp: TopicPartition, timeout_s: float) -> bool:
        """Ask the cluster whether the partition exists; raises KafkaException when nobody answers."""
        return tp.partition in self._consumer.list_topics(tp.topic, timeout=timeout_s).topics[tp.topic].partitions

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self.last_error:  # it hides why they are
            self.last_error = f"{error.name()}: {error.str()}"
        self.complaints.add(error.code())

    def _events(self, messages: Sequence[Message]) -> Iterator[Event]:
        """Cut the messages into runs of one partition each, errors and ends of logs apart."""
        errors = list(map(Message.error, messages))
        if all(map(is_, errors, repeat(None))):  # `==` on a KafkaError leaves an exception pending
            yield from self._runs(messages)
            return
        at = 0
        for i, error in enumerate(errors):
            if error is None:
                continue
            if at < i:
                yield from self._runs(messages[at:i])
            at = i + 1
            yield from self._error(messages[i], error)
        if at < len(messages):
            yield from self._runs(messages[at:])

    def _error(self, message: Message, error: KafkaError) -> Iterator[Event]:
        topic, partition, code = message.topic(), message.partition(), error.code()
        if topic is None or partition is None or partition < 0:
            if code not in _GROUP_ERRORS:
                self._on_error(error)
        elif code == KafkaError._PARTITION_EOF:
            yield EndOfLog(TopicPartition(topic, partition), message.offset() or 0)
        else:
            yield PartitionError(TopicPartition(topic, partition), error)

    def _runs(self, messages: Sequence[Message]) -> Iterator[Records | PartitionError]:
        partitions = list(map(Message.partition, messages))
        one_topic = all(tp.topic == messages[0].topic() for tp in self._ends)
        if one_topic and partitions.count(partitions[0]) == len(partitions):
            yield self._records(messages)
            return
        at = 0
        for _, run in groupby(zip(map(Message.topic, messages), partitions, strict=True)):
            n = sum(1 for _ in run)
            yield self._records(messages[at : at + n])
            at += n

    def _records(self, messages: Sequence[Message]) -> Records | PartitionError:
        tp = TopicPartition(messages[0].topic() or "", messages[0].partition() or 0)
        try:
            return self._decode(tp, messages)
        except MalformedRecordError as error:
            return PartitionError(tp, error)

    def _decode(self, tp: TopicPartition, messages: Sequence[Message]) -> Records:
        offsets: list[int] = list(map(_OFFSET_OF, messages))
        next_offset, end = offsets[-1] + 1, self._ends.get(tp, 0)
        if next_offset > end:
            n = bisect_left(offsets, end)
            messages, offsets = messages[:n], offsets[:n]
            if not messages:
                return Records(tp, next_offset, None, 0)
        n = len(messages)
        columns = [
            pa.array(map(Message.key, messages), pa.binary(), size=n),
            pa.array(map(Message.value, messages), pa.binary(), size=n),
            self._topic(tp.topic, n),
            pa.repeat(pa.scalar(tp.partition, pa.int32()), n),
            pa.array(offsets, pa.int64()),
            *self._timestamps(tp, messages, offsets),
        ]
        if self._include_headers:
            columns.append(self._headers(tp, messages))
        nbytes = sum(column.nbytes for i, column in enumerate(columns) if i != 2)
        self._mean_size += (nbytes / n - self._mean_size) * min(1.0, n / 1000)
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return Records(tp, next_offset, batch, nbytes)

    def _topic(self, topic: str, n: int) -> pa.Array:
        """The topic column: one array per topic, of which every batch shows a part."""
        column = self._topics.get(topic)
        if column is None or len(column) < n:
            column = self._topics[topic] = pa.repeat(pa.scalar(topic, pa.string()), max(n, BATCH_RECORDS))
        return column.slice(0, n)

    def _timestamps(
        self, tp: TopicPartition, messages: Sequence[Message], offsets: Sequence[int]
    ) -> tuple[pa.Array, pa.Array]:
        """Timestamp and timestampType; librdkafka counts its types from 0 where Java counts from -1."""
        # Two passes: tuples that are kept, ten thousand at a time, would set off the garbage collector.
        kinds = list(map(_FIRST, map(Message.timestamp, messages)))
        times = list(map(_SECOND, map(Message.timestamp, messages)))
        n = len(messages)
        if kinds.count(kinds[0]) == n:
            types = pa.repeat(pa.scalar(kinds[0] - 1, pa.int32()), n)
        else:
            types = pc.subtract(pa.array(kinds, pa.int32()), pa.scalar(1, pa.int32()))
        try:
            return pa.array(times, pa.timestamp("ms", tz="UTC")).cast(arrow.TIMESTAMP), types
        except pa.ArrowInvalid:
            bad = next(i for i, ms in enumerate(times) if not -(2**63) <= ms * 1000 < 2**63)
            raise MalformedRecordError(
                f"[KAFKA_MALFORMED_RECORD_TIMESTAMP] the timestamp {times[bad]} ms of topic {tp.topic} partition "
                f"{tp.partition} offset {offsets[bad]} does not fit into Spark's timestamp; "
                "the producer must write milliseconds",
                "KAFKA_MALFORMED_RECORD_TIMESTAMP",
            ) from None

    def _headers(self, tp: TopicPartition, messages: Sequence[Message]) -> pa.Array:
        try:
            rows: list[Any] = list(map(Message.headers, messages))
        except UnicodeDecodeError:
            raise MalformedRecordError(_undecodable(tp, messages)) from None
        if rows.count(None) == len(rows):
            return pa.nulls(len(rows), arrow.HEADERS)
        return _header_column([row or None for row in rows])


def _header_column(rows: Sequence[Sequence[tuple[str, bytes | None]] | None]) -> pa.Array:
    """Build list<struct<key, value>> from its flat parts: no dict per header."""
    offsets: list[int | None] = []
    flat: list[tuple[str, bytes | None]] = []
    for row in rows:
        offsets.append(None if row is None else len(flat))
        if row:
            flat.extend(row)
    offsets.append(len(flat))
    keys = pa.array([key for key, _ in flat], pa.string())
    values = pa.array([value for _, value in flat], pa.binary())
    structs = pa.StructArray.from_arrays([keys, values], fields=list(arrow.HEADER))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs, type=arrow.HEADERS)


def _undecodable(tp: TopicPartition, messages: Sequence[Message]) -> str:
    """Name the first record whose header keys are not UTF-8."""
    for message in messages:
        try:
            message.headers()
        except UnicodeDecodeError:
            at = message.offset()
            break
    return (
        f"a header key of topic {tp.topic} partition {tp.partition} offset {at} is not valid UTF-8; "
        "set includeHeaders to false to read the records without their headers"
    )


def _without_aliases(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Call settings by the names used above, so that a default never meets its alias."""
    names = {"fetch.message.max.bytes": "max.partition.fetch.bytes"}
    return {names.get(name, name): value for name, value in conf.items()}
