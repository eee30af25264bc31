"""The fetching source: our own ``FetchClient`` where it can read the partitions, librdkafka's consumer while it can't.

librdkafka makes an object of every record, and Python another: sixteen times the CPU.  But it has every login and every
format: brokers and records that the fetcher doesn't know are its business, and all partitions go on there, from
where they stand.  Brokers are made newer and old records age out, so after a while the fetcher is tried again.  Questions
about logs are put to librdkafka, too; nothing is while there is a broker that the fetcher doesn't trust: librdkafka would
take a login by SCRAM that is cheap to guess.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from sparkcohort.runtime.kafka.addresses import servers
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.connection import TransportError, unsupported
from sparkcohort.runtime.shell.kafka.fetch.consumer_source import ConsumerSource
from sparkcohort.runtime.shell.kafka.fetch.fetch_client import FetchClient
from sparkcohort.runtime.shell.kafka.fetch.metadata import bootstrap_of
from sparkcohort.runtime.shell.kafka.fetch.record_source import (
    BATCH_BYTES,
    BATCH_RECORDS,
    UNHURRIED,
    Event,
    Largest,
    PartitionError,
    Records,
    RecordSource,
    settings_of,
)
from sparkcohort.runtime.values.columns import Columns

RETURN_S, MOST_RETURN_S = 300.0, 3600.0  # after so long the fetcher is tried again; doubled each time that was in vain

T = TypeVar("T")

_log = logging.getLogger("sparkcohort.record_source")


def librdkafka_reason(conf: Mapping[str, Any]) -> str:
    """Why these settings need librdkafka; "" when they don't."""
    config = settings_of(conf)
    return unsupported(config) or ("" if servers(bootstrap_of(config)) else "there is no bootstrap.servers")


class FetchSource(RecordSource):
    """See ``RecordSource``; ``conf`` are librdkafka settings for which ``librdkafka_reason`` is ""."""

    def __init__(
        self,
        conf: Mapping[str, Any],
        *,
        columns: Columns,
        batch_bytes: int = BATCH_BYTES,
        unhurried: bool = False,
        largest: Largest | None = None,
    ) -> None:
        """Read the settings; no connection is awaited.  Raises TransportError, ValueError for unusable values.

        ``unhurried``: what librdkafka may have to go on with is held back by settings; ``largest``: see ``FetchClient``.
        """
        super().__init__(conf)
        self._unhurried = UNHURRIED if unhurried else {}
        self._columns, self._batch_bytes, self._process = columns, batch_bytes, os.getpid()
        self._closed = False
        self._librdkafka: ConsumerSource | None = None
        self._largest = largest
        # The spans that librdkafka fetches, from where they stand.
        self._spans: dict[TopicPartition, tuple[int, int]] = {}
        self._return_at, self._return_s = float("inf"), RETURN_S
        self._warned = ""
        self._throttled_s = 0.0  # by the fetchers before this one
        self._fetcher: FetchClient | None = self._new_fetcher()

    def _new_fetcher(self) -> FetchClient:
        return FetchClient(
            settings_of(self._conf),
            columns=self._columns,
            batch_bytes=self._batch_bytes,
            on_error=self._on_error,
            largest=self._largest,
        )

    def share(self) -> float:
        """Nothing is queued here but one answer of each broker; see ``RecordSource``."""
        return 3 / 4 if self._fetcher is not None else super().share()

    def pace(self, seconds: float) -> None:
        """Hold back; see ``RecordSource``."""
        if self._fetcher is not None:
            self._fetcher.pace_s = seconds

    def wake(self) -> None:
        """End a wait; see ``RecordSource``."""
        fetcher = self._fetcher  # which the polling thread may give up
        if fetcher is not None:
            fetcher.wake()

    def assign(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Start fetching; see ``RecordSource``."""
        if self._fetcher is None:
            self._spans.update(spans)
        (self._fetcher or self._client()).assign(spans)

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching; see ``RecordSource``."""
        partitions = tuple(partitions)
        for tp in partitions:
            self._spans.pop(tp, None)
        (self._fetcher or self._client()).unassign(partitions)

    def poll(self, timeout_s: float, records: int = BATCH_RECORDS) -> list[Event]:
        """What is there; see ``RecordSource``."""
        if self._closed:
            raise RuntimeError("the source is closed")
        if os.getpid() != self._process:  # two would read from one connection
            raise RuntimeError("the source is that of the process which forked this one")
        if self._fetcher is None and time.monotonic() >= self._return_at:
            self._return()
        if self._fetcher is not None:
            events = self._fetcher.poll(timeout_s, records)
            self._warn(self._fetcher.distrusted())
            if self._fetcher.given_up and not events:  # else it may fail, with records in hand
                self._hand_over(self._fetcher)
            return events
        client = self._client()
        events = client.poll(timeout_s, records)
        self.last_error = client.last_error or self.last_error
        self._follow(events)
        return events

    def log_range(self, tp: TopicPartition, timeout_s: float) -> tuple[int, int]:
        """The log's first offset and end; see ``RecordSource``."""
        return self._ask(lambda client: client.log_range(tp, timeout_s))

    def log_end(self, tp: TopicPartition) -> int | None:
        """The log's end as last heard; see ``RecordSource``."""
        if self._fetcher is None:
            return self._client().log_end(tp)
        partition = self._fetcher.partition(tp)
        return partition.log_end if partition is not None else None

    @property
    def tells_ids(self) -> bool:  # type: ignore[override]
        """As long as nothing had to be handed over, and the cluster has ids; see ``RecordSource``."""
        return self._fetcher is not None and self._fetcher.tells_ids

    def topic_id(self, tp: TopicPartition) -> str:
        """The topic's id; see ``RecordSource``."""
        partition = self._fetcher.partition(tp) if self._fetcher is not None else None
        return partition.topic_name if partition is not None else ""

    def silence(self) -> Mapping[TopicPartition, float] | None:
        """For how long leaders have owed an answer; see ``RecordSource``."""
        return self._fetcher.silence() if self._fetcher is not None else None

    def throttled_s(self) -> float | None:
        """What quotas have cost; see ``RecordSource``."""
        fetcher = self._fetcher  # as in ``wake``
        return self._throttled_s + fetcher.throttled_s if fetcher is not None else None

    def exists(self, tp: TopicPartition, timeout_s: float) -> bool:
        """Whether there is such a partition; see ``RecordSource``."""
        return self._ask(lambda client: client.exists(tp, timeout_s))

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        if self._fetcher is not None:
            self._fetcher.close()
        if self._librdkafka is not None:
            self._librdkafka.close()

    def _ask(self, question: Callable[[ConsumerSource], T]) -> T:
        distrusted = self._fetcher.distrusted() if self._fetcher is not None else ""
        if distrusted:
            raise KafkaException(KafkaError(KafkaError._AUTHENTICATION, distrusted))
        client = self._client()
        try:
            return question(client)
        finally:
            if self._fetcher is not None:
                client.poll(0)  # nothing is assigned there: what it has to complain about would pile up

    def _client(self) -> ConsumerSource:
        """librdkafka's client, made when it is first needed."""
        if self._librdkafka is None:
            held_back = {**self._unhurried, **self._conf}
            source = ConsumerSource(held_back, columns=self._columns, batch_bytes=self._batch_bytes)
            source.complaints = self.complaints
            self._librdkafka = source
        return self._librdkafka

    def _warn(self, distrusted: str) -> None:
        if distrusted and distrusted != self._warned:
            self._warned = distrusted
            _log.warning("nothing is fetched from a broker that is not trusted: %s", distrusted)

    def _hand_over(self, fetcher: FetchClient) -> None:
        _log.info("records are fetched by librdkafka for %g minutes: %s", self._return_s / 60, fetcher.given_up)
        self._spans = fetcher.remaining_spans()
        self._client().assign(self._spans)
        fetcher.close()
        self._throttled_s += fetcher.throttled_s
        self._fetcher = None
        self._return_at = time.monotonic() + self._return_s
        self._return_s = min(2 * self._return_s, MOST_RETURN_S)

    def _return(self) -> None:
        """Try the fetcher again; all partitions go on there, from where they stand."""
        try:
            self._fetcher = self._new_fetcher()
        except (TransportError, ValueError) as error:  # a certificate's file that isn't there any more
            _log.info("records are fetched by librdkafka: %s", error)
            self._return_at = time.monotonic() + self._return_s
            return
        _log.info("fetching records without librdkafka is tried again")
        client, self._librdkafka = self._client(), None
        client.close()
        self._fetcher.assign(self._spans)
        self._spans = {}

    def _follow(self, events: Iterable[Event]) -> None:
        """Know where each partition stands, to go on from there."""
        for event in events:
            if isinstance(event, PartitionError):
                self._spans.pop(event.tp, None)
            elif event.tp in self._spans:
                start, end = self._spans[event.tp]
                offset = event.next_offset if isinstance(event, Records) else event.offset
                self._spans[event.tp] = max(start, offset), end
