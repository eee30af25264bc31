"""Records by confluent-kafka's consumer: for logins and record formats that only librdkafka has.

Per record the only work in Python is what C-level ``map`` does over the messages of a whole batch; each is a Message
object all the same, which is what it costs: one to two times what Kafka's consumer in Java does, and sixteen times our own client (docs/audit/benchmarks.md).
"""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, repeat
from operator import is_, itemgetter
from typing import Any

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as KafkaPartition

from sparkcohort.runtime.batches.offset_runs import OffsetRuns
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.client_log import CLIENT_LOG
from sparkcohort.runtime.shell.kafka.clients import with_credentials
from sparkcohort.runtime.shell.kafka.fetch import arrow_rows
from sparkcohort.runtime.shell.kafka.fetch.events import (
    BATCH_RECORDS,
    EndOfLog,
    Event,
    MalformedRecordError,
    PartitionError,
    Records,
    header_error,
    timestamp_error,
)
from sparkcohort.runtime.shell.kafka.fetch.settings import settings_of
from sparkcohort.runtime.shell.options.kafka_settings import value_of
from sparkcohort.runtime.values.columns import Column, Columns, Field
from sparkcohort.runtime.values.types import STRING

CHUNK, ROW_BYTES = 64, 40
# How long a client that has told of a broken partition is left alone before it is ended.  A fetch that is refused with
# OFFSET_OUT_OF_RANGE while the client ends has it wait for itself for ever (librdkafka 2.16: rd_kafka_offset_reset hands its
# work to a queue that is closed by then, so that it is done at once, under the lock that it asks for).  Behind corrupt data
# librdkafka fetches such offsets, and a broker refuses at once.
SETTLE_S = 0.1
CLOSE_S = 10.0  # a task mustn't hang for a client that is of no more use to it
_FIRST, _SECOND = itemgetter(0), itemgetter(1)
_GROUP_ERRORS = frozenset(
    (
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError._WAIT_COORD,
    )
)
_log = logging.getLogger("sparkcohort.record_source")
_OFFSET_OF: Callable[[Message], Any] = Message.offset  # typed as optional, though only an error has none


class ConsumerClient:
    """Assigned partitions as a stream of events, as ``RecordSource`` has them; ``on_error`` takes errors of no partition."""

    def __init__(
        self, conf: Mapping[str, Any], *, columns: Columns, batch_bytes: int, on_error: Callable[[KafkaError], None]
    ) -> None:
        """Create the client; no connection is awaited.  Raises KafkaException for settings librdkafka refuses."""
        self._conf, self._on_error = conf, on_error
        self._schema, self._columns = arrow_rows.schema(columns), columns
        self._ends: dict[TopicPartition, int] = {}  # of each assigned partition
        self._batch_bytes = batch_bytes
        self._mean_size = batch_bytes / CHUNK  # until some are known
        self._broken = False  # a partition was
        settings = with_credentials(settings_of(conf))
        self._consumer = Consumer({**settings, "error_cb": on_error}, logger=CLIENT_LOG)

    def assign(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Start fetching; see ``RecordSource``."""
        if spans:
            self._consumer.incremental_assign([KafkaPartition(tp[0], tp[1], span[0]) for tp, span in spans.items()])
            self._ends.update((tp, end) for tp, (_, end) in spans.items())

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching; see ``RecordSource``."""
        removed = [tp for tp in partitions if tp in self._ends]
        if removed:
            self._consumer.incremental_unassign([KafkaPartition(*tp) for tp in removed])
            for tp in removed:
                del self._ends[tp]

    def poll(self, timeout_s: float, records: int = BATCH_RECORDS) -> list[Event]:
        """What is there; see ``RecordSource``."""
        limit = max(1, min(records, BATCH_RECORDS))
        messages = self._take(limit)
        if not messages and timeout_s > 0:
            # A timed consume waits until it has all it was asked for: wait for one record, then take what came with it.
            messages = self._consumer.consume(1, timeout_s)
            if messages and limit > 1:
                messages += self._take(limit - 1)
        return list(self._events(messages)) if messages else []

    def _take(self, limit: int) -> list[Message]:
        """What is there, some at a time: as long as it isn't known how large the next ones are, few."""
        messages: list[Message] = []
        room = float(self._batch_bytes)
        while len(messages) < limit and room > 0:
            count = max(1, min(CHUNK, limit - len(messages), int(room / self._mean_size)))
            more = self._consumer.consume(count, 0)
            messages += more
            if len(more) < count:
                break
            size = sum(map(len, more)) + ROW_BYTES * count
            room, self._mean_size = room - size, max(self._mean_size, size / count)
        return messages

    def log_end(self, tp: TopicPartition) -> int | None:
        """The log's end as last heard; see ``RecordSource``."""
        answer = self._consumer.get_watermark_offsets(KafkaPartition(*tp), cached=True)
        return answer[1] if answer[1] >= 0 else None

    def close(self) -> None:
        """Close the connections, or leave them to themselves, with a warning, when librdkafka doesn't come to an end."""
        if self._broken:
            self.unassign(tuple(self._ends))
            time.sleep(SETTLE_S)
        closing = threading.Thread(target=self._consumer.close, name="cohort-consumer-close", daemon=True)
        closing.start()
        closing.join(CLOSE_S)
        if closing.is_alive():
            _log.warning("librdkafka hasn't ended within %g s: a client of it stays in this process", CLOSE_S)

    def _events(self, messages: Sequence[Message]) -> Iterator[Event]:
        """Cut the messages into runs of one partition each, errors and ends of logs apart."""
        errors = list(map(Message.error, messages))
        if all(map(is_, errors, repeat(None))):  # `==` on a KafkaError leaves an exception pending
            yield from self._runs(messages)
            return
        start = 0
        for i, error in enumerate(errors):
            if error is None:
                continue
            if start < i:
                yield from self._runs(messages[start:i])
            start = i + 1
            yield from self._error(messages[i], error)
        if start < len(messages):
            yield from self._runs(messages[start:])

    def _error(self, message: Message, error: KafkaError) -> Iterator[Event]:
        topic, partition, code = message.topic(), message.partition(), error.code()
        if topic is None or partition is None or partition < 0:
            if code not in _GROUP_ERRORS:
                self._on_error(error)
        elif code == KafkaError._PARTITION_EOF:
            yield EndOfLog(TopicPartition(topic, partition), message.offset() or 0)
        else:
            offset = message.offset()
            self._broken = True
            offset = -1 if offset is None else max(offset, -1)
            yield PartitionError(TopicPartition(topic, partition), self._with_hint(error), offset)

    def _with_hint(self, error: KafkaError) -> KafkaError:
        """Of what it takes for damaged librdkafka says less than it knows."""
        if error.code() != KafkaError._BAD_COMPRESSION:
            return error
        most = value_of(settings_of(self._conf), "receive.message.max.bytes")
        return KafkaError(
            error.code(),
            f"{error.str()} (maybe: librdkafka unpacks no batch of zstd to more than kafka.receive.message.max.bytes, {most}: "
            "set it to more)",
        )

    def _runs(self, messages: Sequence[Message]) -> Iterator[Records | PartitionError]:
        start = 0
        for _, run in groupby(zip(map(Message.topic, messages), map(Message.partition, messages), strict=True)):
            n = sum(1 for _ in run)
            yield self._records(messages[start : start + n])
            start += n

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
        n, runs = len(messages), OffsetRuns.from_offsets(offsets)
        arrays = [self._array(column, tp, messages, offsets) for column in self._columns]
        own = (array.nbytes for array, column in zip(arrays, self._columns, strict=True) if column.field != Field.TOPIC)
        nbytes = sum(own) + runs.nbytes
        mean = sum(map(len, messages)) / n + ROW_BYTES
        self._mean_size += (mean - self._mean_size) * min(1.0, n / 1000)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return Records(tp, next_offset, batch, nbytes, runs)

    def _array(
        self, column: Column, tp: TopicPartition, messages: Sequence[Message], offsets: Sequence[int]
    ) -> pa.Array:
        """One column of a run of records."""
        n = len(messages)
        match column.field:
            case Field.KEY:
                return _bytes(column, map(Message.key, messages), n)
            case Field.VALUE:
                return _bytes(column, map(Message.value, messages), n)
            case Field.TOPIC:
                return pa.repeat(pa.scalar(tp.topic, pa.string()), n)
            case Field.PARTITION:
                return pa.repeat(pa.scalar(tp.partition, pa.int32()), n)
            case Field.OFFSET:
                return pa.array(offsets, pa.int64())
            case Field.TIMESTAMP:
                return _timestamps(tp, messages, offsets)
            case Field.TIMESTAMP_TYPE:
                # Counted from 0 where Java counts from -1.  Not with the times: tuples that are kept, ten thousand at a time, would
                # set off the garbage collector.
                return pa.array([kind - 1 for kind in map(_FIRST, map(Message.timestamp, messages))], pa.int32())
            case Field.HEADERS:
                return self._headers(tp, messages)

    def _headers(self, tp: TopicPartition, messages: Sequence[Message]) -> pa.Array:
        rows: list[Any] = []
        try:
            rows.extend(map(Message.headers, messages))
        except (UnicodeDecodeError, SystemError):  # the latter where confluent-kafka returns its list all the same
            raise header_error(tp, _OFFSET_OF(messages[len(rows)])) from None
        return pa.array([row or None for row in rows], arrow_rows.HEADERS_LIST)


def _bytes(column: Column, values: Iterable[bytes | None], n: int) -> pa.Array:
    """Keys or values; as strings they are the same bytes, text or not, as in Spark's cast."""
    array = pa.array(values, pa.binary(), size=n)
    return array.view(pa.string()) if column.type == STRING else array


def _timestamps(tp: TopicPartition, messages: Sequence[Message], offsets: Sequence[int]) -> pa.Array:
    times = list(map(_SECOND, map(Message.timestamp, messages)))
    if 0 in times:  # message format v0 knows no time: Java's NO_TIMESTAMP, where librdkafka has 0
        times = [-1 if kind == TIMESTAMP_NOT_AVAILABLE else ms for kind, ms in map(Message.timestamp, messages)]
    try:
        return pa.array(times, pa.timestamp("ms", tz="UTC")).cast(arrow_rows.TIMESTAMP)
    except pa.ArrowInvalid:
        bad = next(i for i, ms in enumerate(times) if not -(2**63) <= ms * 1000 < 2**63)
        raise timestamp_error(tp, offsets[bad], times[bad]) from None
