"""The source of record batches: partitions and positions in, Arrow record batches out.

Everything above it (``range_reader``, ``prefetch``) knows batches and positions only.  Our own ``FetchClient`` reads where it can;
confluent-kafka's consumer reads where it can't: settings, brokers and record formats that only librdkafka has.  librdkafka makes an
object of every record, and Python another: sixteen times the CPU.  A source that has come to it stays with it; the next one, of a
task or of a restarted agent, begins with our own client again.

``COHORT_NATIVE=librdkafka`` in the environment of the executors (and their agents, which inherit it) chooses the consumer, for
diagnosis and for the tests that both have to pass.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka import tokens
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.kafka.fetch.consumer_client import ConsumerClient
from sparkcohort.runtime.shell.kafka.fetch.events import (
    BATCH_BYTES,
    BATCH_RECORDS,
    Event,
    Largest,
    PartitionError,
    Records,
)
from sparkcohort.runtime.shell.kafka.fetch.fetch_client import FetchClient
from sparkcohort.runtime.shell.kafka.fetch.settings import librdkafka_reason, settings_of
from sparkcohort.runtime.shell.options.client_defaults import UNHURRIED
from sparkcohort.runtime.shell.options.connection_settings import TransportError
from sparkcohort.runtime.shell.options.security_settings import redact_text
from sparkcohort.runtime.text import printable
from sparkcohort.runtime.values.columns import Columns, dead_letter_topic, raw_columns

if TYPE_CHECKING:
    from sparkcohort.runtime.shell.kafka.fetch.value_decoding import ValueDecoding
    from sparkcohort.runtime.shell.kafka.produce.dead_letter_writer import DeadLetterWriter

SWITCH = "COHORT_NATIVE"
BY_LIBRDKAFKA = "librdkafka"
HOLD_S, MOST_HOLD_S = 0.1, 2.0  # between attempts at records whose schema, or whose dead letter topic, is not there

_log = logging.getLogger("sparkcohort.record_source")


class RecordSource:
    """Assigned partitions of one Kafka cluster as a stream of events; for one thread at a time.

    It never joins a group and never stores an offset.  ``last_error`` is what the client last complained about, for messages of
    time-outs; ``complaints`` are the codes of errors that came without a partition, until the caller empties it; ``malformed``
    counts what could not be decoded, by topic and reason, as long.
    """

    def __init__(
        self,
        conf: Mapping[str, Any],
        *,
        columns: Columns,
        batch_bytes: int = BATCH_BYTES,
        unhurried: bool = False,
        largest: Largest | None = None,
        threads: int = 1,
    ) -> None:
        """``conf`` is librdkafka's; no connection is awaited.  Raises KafkaException for settings that librdkafka refuses.

        ``threads`` decode what is inside of keys and values, if that is asked for.  ``unhurried``: no reader waits for the next
        record, as a rule; readers that can be paced call for ``pace``.  ``largest``: larger records are an error; librdkafka has
        them unpacked before it can be asked.
        """
        self._conf = conf
        self._columns, self._batch_bytes, self._largest = raw_columns(columns), batch_bytes, largest
        self._unhurried = UNHURRIED if unhurried else {}
        self.last_error = ""
        self.complaints: set[int] = set()
        self.malformed: Counter[tuple[str, str]] = Counter()
        self.cluster = ClusterClient(conf)
        """For other questions to the same cluster."""
        self._spans: dict[TopicPartition, tuple[int, int]] = {}  # what has not been delivered of what is assigned
        # Until when a partition waits for a schema, the dead letter topic or the next poll; nothing of it is fetched.
        self._resume_at: dict[TopicPartition, float] = {}
        self._pauses: dict[TopicPartition, float] = {}  # the last one, of those that have waited for their next record
        self._closed = False
        self._fetcher: FetchClient | None = None
        self._librdkafka: ConsumerClient | None = None
        self._decoding = self._new_decoding(columns, threads) if self._columns != columns else None
        topic = dead_letter_topic(columns)
        self._dead_letters = self._new_writer(topic) if topic else None
        reason = f"{SWITCH}={BY_LIBRDKAFKA}" if os.environ.get(SWITCH) == BY_LIBRDKAFKA else self._open_fetcher()
        if reason:
            _log.info("records are fetched by librdkafka: %s", reason)
            self._librdkafka = self._new_consumer()

    def _open_fetcher(self) -> str:
        """Make our own client; returns why it can't be made, "" where it is."""
        try:
            reason = librdkafka_reason(self._conf)
            if not reason:
                self._fetcher = FetchClient(
                    settings_of(self._conf),
                    self.cluster,
                    columns=self._columns,
                    batch_bytes=self._batch_bytes,
                    on_error=self._on_error,
                    largest=self._largest,
                )
        except (TransportError, ValueError) as error:  # a certificate's file that isn't there, say
            return str(error)
        return reason

    def _new_consumer(self) -> ConsumerClient:
        held_back = {**self._unhurried, **self._conf}
        return ConsumerClient(held_back, columns=self._columns, batch_bytes=self._batch_bytes, on_error=self._on_error)

    def _new_decoding(self, columns: Columns, threads: int) -> ValueDecoding:
        from sparkcohort.runtime.shell.kafka.fetch.value_decoding import ValueDecoding  # noqa: PLC0415  most queries have none

        return ValueDecoding(columns, threads, self.malformed)

    def _new_writer(self, topic: str) -> DeadLetterWriter:
        from sparkcohort.runtime.shell.kafka.produce.dead_letter_writer import DeadLetterWriter  # noqa: PLC0415  as above

        return DeadLetterWriter(self._conf, topic)

    @property
    def _client(self) -> FetchClient | ConsumerClient:
        client = self._fetcher or self._librdkafka
        assert client is not None  # noqa: S101  one of them from the constructor on
        return client

    # --- reading --------------------------------------------------------------------------------------------

    def assign(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Start fetching partitions that are not assigned yet, each the records of its span [start, end).

        Fetching may go on behind the end until ``unassign``; what it finds there only moves ``next_offset``.
        """
        self._forget(spans)
        self._spans.update(spans)
        self._client.assign(spans)

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching; what is queued of these partitions is thrown away."""
        partitions = list(partitions)
        self._forget(partitions)
        self._client.unassign(partitions)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            for entries in (self._spans, self._resume_at, self._pauses):
                entries.pop(tp, None)

    def poll(self, timeout_s: float, records: int = BATCH_RECORDS) -> list[Event]:
        """Return what is there, at most ``records`` or about the source's bytes a batch; wait only when nothing is.

        Nothing comes of a partition as long as the schema of its next record can't be had, or a bad one can't be written to the
        dead letter topic.
        """
        if self._closed:
            raise RuntimeError("the source is closed")
        self._resume()
        events = self._client.poll(timeout_s, records)
        if (
            self._fetcher is not None and self._fetcher.given_up and not events
        ):  # else it may fail, with records in hand
            self._hand_over(self._fetcher)
        if self._decoding is None:
            for event in events:
                self._follow(event.tp, event)
            return events
        return self._decoded(events, self._decoding)

    def _decoded(self, events: list[Event], decoding: ValueDecoding) -> list[Event]:
        results: list[Event] = []
        failure: Exception | None = None
        for event, decoded, bad, letters in decoding.attempts(events):
            if event.tp in self._resume_at or event.tp not in self._spans:
                continue  # it was given up for another batch of this poll: positions move in order
            if letters and self._dead_letters and not failure:  # one failure a poll: each may take seconds
                failure = self._dead_letters.write(letters)
            outcome = failure if letters and failure else decoded
            if outcome is None or isinstance(outcome, Exception):
                self._hold(event.tp, outcome)
                continue
            results.append(outcome)
            self._follow(event.tp, event)
            self._pauses.pop(event.tp, None)
            decoding.note(event, bad)
            if isinstance(outcome, PartitionError):
                self.unassign([event.tp])
        return results

    def _follow(self, tp: TopicPartition, event: Event) -> None:
        """Know where the partition stands, to go on from there."""
        if isinstance(event, PartitionError):
            self._spans.pop(tp, None)
        elif tp in self._spans:
            start, end = self._spans[tp]
            self._spans[tp] = max(start, event.next_offset if isinstance(event, Records) else event.offset), end

    def _hold(self, tp: TopicPartition, error: Exception | None) -> None:
        """Throw away records that wait for their schema, the dead letter topic or the next poll, and fetch them again.

        Kept, they would count for no limit.
        """
        self._client.unassign([tp])
        self._resume_at[tp] = 0.0
        if error is not None:
            self.last_error = str(error)
            self._pauses[tp] = min(2 * self._pauses.get(tp, HOLD_S / 2), MOST_HOLD_S)
            self._resume_at[tp] = time.monotonic() + self._pauses[tp]

    def _resume(self) -> None:
        now = time.monotonic()
        due = [tp for tp, time_s in self._resume_at.items() if time_s <= now] if self._resume_at else []
        for tp in due:
            del self._resume_at[tp]
        if due:
            self._client.assign({tp: self._spans[tp] for tp in due})

    def _hand_over(self, fetcher: FetchClient) -> None:
        """All partitions go on with librdkafka, from where they stand."""
        _log.info("records are fetched by librdkafka: %s", fetcher.given_up)
        self._librdkafka = self._new_consumer()
        self._fetcher = None
        fetcher.close()
        self._client.assign({tp: span for tp, span in self._spans.items() if tp not in self._resume_at})

    # --- what the client knows --------------------------------------------------------------------------------

    def share(self) -> float:
        """Of a buffer, what may be kept of what is handed out.

        Our own client queues nothing but one answer of each broker.  librdkafka's queue, the fetch on its way, what messages cost
        beside their bytes, and the hand-over to the tasks take the rest.
        """
        return 3 / 4 if self._fetcher is not None else 9 / 16

    def pace(self, seconds: float) -> None:
        """Ask a broker that has told all no sooner than so long after its answer; 0, as at first: at once.

        librdkafka is held back by settings (``UNHURRIED``).
        """
        if self._fetcher is not None:
            self._fetcher.pace_s = seconds

    def wake(self) -> None:
        """From any thread: a ``poll`` of our own client under way, or else the next, returns."""
        fetcher = self._fetcher  # which the polling thread may give up
        if fetcher is not None:
            fetcher.wake()

    def log_end(self, tp: TopicPartition) -> int | None:
        """Where the log ended when the last fetch of this partition was answered, without asking; None: not known.

        Beside a poll of another thread it would never return: each waits for a lock that the other has.
        """
        return self._client.log_end(tp)

    @property
    def tells_ids(self) -> bool:
        """Whether ``topic_id`` tells, now: librdkafka shows none, nor do old brokers."""
        return self._fetcher is not None and self._fetcher.tells_ids

    def topic_id(self, tp: TopicPartition) -> str:
        """The id of the topic whose records an assigned partition gives; "" if the client doesn't tell."""
        partition = self._fetcher.partition(tp) if self._fetcher is not None else None
        return partition.topic_name if partition is not None else ""

    def silence(self) -> Mapping[TopicPartition, float] | None:
        """For how many seconds the leaders of assigned partitions have owed an answer; None where that isn't known."""
        return self._fetcher.silence() if self._fetcher is not None else None

    def throttled_s(self) -> float | None:
        """For how many seconds brokers have asked to be left alone (KIP-219), in all; None where the client doesn't tell."""
        fetcher = self._fetcher  # as in ``wake``
        return fetcher.throttled_s if fetcher is not None else None

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        for client in (self._decoding, self._dead_letters, self._fetcher, self._librdkafka, self.cluster):
            if client is not None:
                client.close()

    def _on_error(self, error: KafkaError) -> None:
        """Take an error of the client as a whole; no secret of its settings is quoted."""
        failure = tokens.failure_of(self._conf) if error.code() == KafkaError._AUTHENTICATION else None
        if failure is not None:
            self.last_error = str(failure)
        elif error.code() != KafkaError._ALL_BROKERS_DOWN or not self.last_error:  # it hides why they are
            self.last_error = printable(redact_text(f"{error.name()}: {error.str()}", self._conf))
        self.complaints.add(error.code())
