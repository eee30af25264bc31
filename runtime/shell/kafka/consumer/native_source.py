"""The native source: librdkafka's queue straight into Arrow's buffers, with no Python object per record.

The consumer is of our own making, through librdkafka's public C API: confluent-kafka keeps the handle of its own to
itself.  It is confluent-kafka's librdkafka all the same, found in the process, so that there is one Kafka client with one
set of security features; all settings that a source has are text, and no callback but those for errors and log lines
is needed.  Both are noted in C and told here, in the thread that polls.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, cimpl

from sparkcohort.native import _native
from sparkcohort.runtime.batches.offset_runs import OffsetRuns
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.client_log import CLIENT_LOG
from sparkcohort.runtime.shell.kafka.consumer import arrow_rows
from sparkcohort.runtime.shell.kafka.consumer.record_source import (
    BATCH_BYTES,
    BATCH_RECORDS,
    EndOfLog,
    Event,
    PartitionError,
    Records,
    RecordSource,
    header_error,
    librdkafkas,
    partition_error,
    timestamp_error,
)
from sparkcohort.runtime.shell.kafka.token_provider import LoginToken, NoToken
from sparkcohort.runtime.shell.kafka.tokens import as_refusal, source_of, without_provider
from sparkcohort.runtime.values.columns import Columns, fields_of

LIBRDKAFKA = _native.load(cimpl.__file__)  # its version; raises ImportError where there is none to be found
CLOSE_S = 10.0  # a task mustn't hang for a client that is of no more use to it
Found: TypeAlias = tuple[int, str, int, int, int, Any]  # see _native.pyi

_log = logging.getLogger("sparkcohort.record_source")
_LEVELS = (50, 50, 50, 40, 30, 20, 20, 10)  # of logging, by syslog's


class NativeSource(RecordSource):
    """See ``RecordSource``; ``conf`` are librdkafka settings (``record_source.settings_of``), all of them plain values."""

    def __init__(self, conf: Mapping[str, Any], *, columns: Columns, batch_bytes: int = BATCH_BYTES) -> None:
        """Create the client; no connection is awaited.  Raises KafkaException for settings librdkafka refuses."""
        super().__init__(conf)
        self._batch_bytes = batch_bytes
        self._assigned: set[TopicPartition] = set()
        take = partial(taken_rows, arrow_rows.schema(columns))
        self._tokens = source_of(conf)
        self._token: LoginToken | None = None  # the client's
        settings = {"log.queue": True, **without_provider(librdkafkas(conf))}
        pairs = [(name, _text(value)) for name, value in settings.items()]
        try:
            self._client = _native.Client(pairs, fields_of(columns), take)
        except _native.Error as error:
            raise _exception(error) from None
        self._follow_tokens()

    def assign(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Start fetching; see ``RecordSource``."""
        if spans:
            try:
                self._client.assign([(*tp, *span) for tp, span in spans.items()])
            except _native.Error as error:
                raise _exception(error) from None
            self._assigned.update(spans)

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching; see ``RecordSource``."""
        gone = self._assigned.intersection(partitions)
        if gone:
            self._assigned -= gone
            try:
                self._client.unassign(list(gone))
            except _native.Error as error:
                raise _exception(error) from None

    def poll(self, timeout_s: float, records: int = BATCH_RECORDS) -> list[Event]:
        """What is there; see ``RecordSource``."""
        self._follow_tokens()
        limit = max(1, min(records, BATCH_RECORDS))
        events, errors, lines = self._client.poll(int(timeout_s * 1000), limit, self._batch_bytes)
        for level, line in lines:
            CLIENT_LOG.log(_LEVELS[level & 7], "%s", line)
        for code, words in errors:
            self._on_error(KafkaError(code, words))
        return list(self._events(events))

    def log_range(self, tp: TopicPartition, timeout_s: float) -> tuple[int, int]:
        """The log's first offset and end; see ``RecordSource``."""
        self._await_token(timeout_s)
        try:
            return self._client.log_range(*tp, int(timeout_s * 1000))
        except _native.Error as error:
            raise _exception(error) from None

    def log_end(self, tp: TopicPartition) -> int | None:
        """The log's end as last heard; see ``RecordSource``."""
        end = self._client.log_end(*tp)
        return end if end >= 0 else None

    def exists(self, tp: TopicPartition, timeout_s: float) -> bool:
        """Whether there is such a partition; see ``RecordSource``."""
        self._await_token(timeout_s)
        try:
            return self._client.exists(*tp, int(timeout_s * 1000))
        except _native.Error as error:
            raise _exception(error) from None

    def close(self) -> None:
        """Close the connections, or leave them to themselves, with a warning, when librdkafka doesn't come to an end."""
        if not self._client.close(int(CLOSE_S * 1000)):
            _log.warning("librdkafka hasn't ended within %g s: a client of it stays in this process", CLOSE_S)

    def count(self, timeout_s: float, records: int = BATCH_RECORDS) -> int:
        """Take records and throw them away: what the client costs by itself, for benchmarks."""
        return self._client.count(int(timeout_s * 1000), records)

    def _follow_tokens(self) -> None:
        """Give the client the newest token, if there is another one; waits for nothing, as the client itself does."""
        if self._tokens is None:
            return
        token = self._tokens.current()
        if token is None:
            if failure := self._tokens.failure():
                self._on_error(KafkaError(KafkaError._AUTHENTICATION, str(failure)))
        elif token is not self._token:
            pairs = tuple(text for pair in token.extensions.items() for text in pair)
            with suppress(_native.Error):  # it has ended just now: there will be another one
                self._client.set_token(token.value, int(token.ends * 1000), token.principal, pairs)
                self._token = token

    def _await_token(self, timeout_s: float) -> None:
        """As ``_follow_tokens``, for a question that the client would only wait with.  Raises KafkaException."""
        if self._tokens is None:
            return
        try:
            self._tokens.token(timeout_s)
        except NoToken as error:
            raise as_refusal(error) from None
        self._follow_tokens()

    def _events(self, events: Iterable[Found]) -> Iterator[Event]:
        for found in events:
            if found[2] < 0:
                self._on_nowhere(KafkaError(found[4], found[5]))
                continue
            event = event_of(found)
            if isinstance(event, PartitionError) and isinstance(event.error, KafkaError):
                event = partition_error(event.tp, event.error, event.offset, self._conf)
            yield event


def event_of(found: Found) -> Event:
    """What the native code tells of a partition."""
    kind, topic, partition, offset, number, what = found
    tp = TopicPartition(topic, partition)
    if kind == _native.RECORDS:
        batch, runs = what or (None, None)
        return Records(tp, offset, batch, number, runs)
    if kind == _native.END_OF_LOG:
        return EndOfLog(tp, offset)
    if kind == _native.BAD_TIMESTAMP:
        return PartitionError(tp, timestamp_error(tp, offset, number))
    if kind == _native.BAD_HEADER:
        return PartitionError(tp, header_error(tp, offset))
    return PartitionError(tp, KafkaError(number, what), offset)


def taken_rows(schema: pa.Schema, address: int, runs: bytes) -> tuple[pa.RecordBatch, OffsetRuns]:
    """Take over the ArrowArray at this address, and where its rows stand."""
    return pa.RecordBatch._import_from_c(address, schema), OffsetRuns(runs)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _exception(error: _native.Error) -> KafkaException:
    return KafkaException(KafkaError(*error.args))
