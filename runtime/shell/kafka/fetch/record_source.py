"""The seam to Kafka's bytes: partitions and positions in, Arrow record batches out.

One ``RecordSource`` is one Kafka client that is assigned, never joins a group and never stores an offset.  Everything
above it (``range_reader``, ``prefetch``) knows batches and positions only, so another decoder can take a source's place; which
one it is, ``new_source`` decides.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from sparkcohort.runtime.batches.offset_runs import OffsetRuns
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.calls import MAX_MALFORMED_COUNTS, MalformedCount
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka import tokens
from sparkcohort.runtime.shell.kafka.reconnect_backoff import paced
from sparkcohort.runtime.shell.options.certificate_files import with_trusted_certificates
from sparkcohort.runtime.shell.options.kafka_settings import ROWS, UNKNOWN, column, value_of
from sparkcohort.runtime.shell.options.security_settings import redact_text
from sparkcohort.runtime.text import printable

BATCH_RECORDS = 10_000
BATCH_BYTES = 4 << 20

_DEFAULTS = column(lambda row: row.reading)
_FORCED = column(lambda row: row.reading_forced)
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


class Largest(NamedTuple):
    """Bytes that a record may have, and what to do about a larger one."""

    nbytes: int
    remedy: str


@dataclass(frozen=True, slots=True)
class Records:
    """Consecutive visible records of one partition; ``batch`` is None when all lie behind the end asked for."""

    tp: TopicPartition
    next_offset: int  # follows the last record seen, which may lie behind the end asked for
    batch: pa.RecordBatch | None
    nbytes: int  # what the batch holds of its own, shared constant columns left out
    runs: OffsetRuns | None = None  # the offsets of the batch's rows


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
    offset: int = -1  # where fetching stood, if the client tells

    @property
    def code(self) -> int:
        """Kafka's or librdkafka's number of the error; 0 for what is wrong with a record."""
        return self.error.code() if isinstance(self.error, KafkaError) else 0


Event: TypeAlias = Records | EndOfLog | PartitionError


# A broker answers a fetch with the first record of any partition, and every fetch lists all partitions: a trickle over
# 300 of them was 300 fetches a second.  Data that is there in bulk is never waited for.
UNHURRIED = column(lambda row: row.reading_unhurried)


class RecordSource(ABC):
    """Assigned partitions of one Kafka cluster as a stream of events; for one thread at a time.

    ``last_error`` is what the client last complained about, for messages of time-outs; ``complaints`` are the codes of
    errors that came without a partition, until the caller empties it; ``malformed`` counts what could not be decoded, by
    topic and reason, as long.
    """

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """No complaints yet; ``conf`` are the client's settings, whose secrets no complaint is to quote."""
        self._conf = conf
        self.last_error = ""
        self.complaints: set[int] = set()
        self.malformed: Counter[tuple[str, str]] = Counter()

    def prepare(self) -> None:  # noqa: B027  most have nothing to do
        """Do what the first record would else have to wait for."""

    def share(self) -> float:
        """Of a buffer, what may be kept of what is handed out.

        The client's queue, the fetch on its way, what messages cost beside their bytes, and the hand-over to the tasks take
        the rest.
        """
        return 9 / 16

    def pace(self, seconds: float) -> None:  # noqa: B027  librdkafka is held back by settings (``UNHURRIED``)
        """Ask a broker that has told all no sooner than so long after its answer; 0, as at first: at once."""

    def wake(self) -> None:  # noqa: B027  as above
        """From any thread: a ``poll`` under way, or else the next, returns."""

    @abstractmethod
    def assign(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Start fetching partitions that are not assigned yet, each the records of its span [start, end).

        Fetching may go on behind the end until ``unassign``; what it finds there only moves ``next_offset``.
        """

    @abstractmethod
    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching; what is queued of these partitions is thrown away."""

    @abstractmethod
    def poll(self, timeout_s: float, records: int = BATCH_RECORDS) -> list[Event]:
        """Return what is there, at most ``records`` or about the source's bytes a batch; wait only when nothing is."""

    @abstractmethod
    def log_range(self, tp: TopicPartition, timeout_s: float) -> tuple[int, int]:
        """Ask the broker for the first available offset and the end (of the isolation level); raises KafkaException."""

    @abstractmethod
    def log_end(self, tp: TopicPartition) -> int | None:
        """Where the log ended when the last fetch of this partition was answered, without asking; None: not known.

        Beside a poll of another thread it would never return: each waits for a lock that the other has.
        """

    tells_ids = False
    """Whether ``topic_id`` tells, now."""

    def topic_id(self, tp: TopicPartition) -> str:  # noqa: ARG002  librdkafka shows none
        """The id of the topic whose records an assigned partition gives; "" if the client doesn't tell."""
        return ""

    def silence(self) -> Mapping[TopicPartition, float] | None:
        """For how many seconds the leaders of assigned partitions have owed an answer; None where that isn't known."""
        return None

    def throttled_s(self) -> float | None:
        """For how many seconds brokers have asked to be left alone (KIP-219), in all; None where the client doesn't tell."""
        return None

    @abstractmethod
    def exists(self, tp: TopicPartition, timeout_s: float) -> bool:
        """Ask the cluster whether the partition exists; raises KafkaException when no broker answers."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""

    def _on_error(self, error: KafkaError) -> None:
        """Take an error of the client as a whole."""
        failure = tokens.failure_of(self._conf) if error.code() == KafkaError._AUTHENTICATION else None
        if failure is not None:
            self.last_error = str(failure)
        elif error.code() != KafkaError._ALL_BROKERS_DOWN or not self.last_error:  # it hides why they are
            self.last_error = printable(redact_text(f"{error.name()}: {error.str()}", self._conf))
        self.complaints.add(error.code())

    def _on_nowhere(self, error: KafkaError) -> None:
        """Take an error that came as a record without a partition."""
        if error.code() not in _GROUP_ERRORS:
            self._on_error(error)


def malformed_counts(counts: Mapping[tuple[str, str], int]) -> list[MalformedCount]:
    """The counts of ``malformed`` for a report, highest first; those beyond ``MAX_MALFORMED_COUNTS`` are left out."""
    most = sorted(counts.items(), key=lambda entry: -entry[1])[:MAX_MALFORMED_COUNTS]
    return [MalformedCount(topic, reason, count) for (topic, reason), count in most]


def partition_error(tp: TopicPartition, error: KafkaError, offset: int, conf: Mapping[str, Any]) -> PartitionError:
    """librdkafka's error of a partition; of what it takes for damaged it says less than it knows."""
    if error.code() == KafkaError._BAD_COMPRESSION:
        most = value_of(settings_of(conf), "receive.message.max.bytes")
        hint = (
            f"librdkafka unpacks no batch of zstd to more than kafka.receive.message.max.bytes, {most}: set it to more"
        )
        error = KafkaError(error.code(), f"{error.str()} (maybe: {hint})")
    return PartitionError(tp, error, offset)


def settings_of(conf: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a source's client: the user's, between our defaults and what is forced."""
    # A name of its own: the consumer never joins, so no permission on a group is needed either.
    group = {"group.id": f"cohort-fetch-{uuid.uuid4().hex}"}
    return {**paced({**_DEFAULTS, **_without_aliases(conf)}), **_FORCED, **group}


def librdkafkas(conf: Mapping[str, Any]) -> dict[str, Any]:
    """The same for a client of librdkafka, with its trust store read.  Raises KafkaException where they can't be read."""
    try:
        return with_trusted_certificates(settings_of(conf))
    except ValueError as error:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, str(error))) from None


def timestamp_error(tp: TopicPartition, offset: int, milliseconds: int) -> MalformedRecordError:
    """A timestamp that microseconds in 64 bits can't hold: Spark's own error."""
    return MalformedRecordError(
        f"[KAFKA_MALFORMED_RECORD_TIMESTAMP] the timestamp {milliseconds} ms of topic {tp.topic} partition "
        f"{tp.partition} offset {offset} does not fit into Spark's timestamp; the producer must write milliseconds",
        "KAFKA_MALFORMED_RECORD_TIMESTAMP",
    )


def header_error(tp: TopicPartition, offset: int) -> MalformedRecordError:
    """A header key that is not text."""
    return MalformedRecordError(
        f"a header key of topic {tp.topic} partition {tp.partition} offset {offset} is not valid UTF-8; "
        "set includeHeaders to false, or leave headers out of .schema(...), to read the records without their headers"
    )


def _without_aliases(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Call settings by the names that our defaults have, so that a default never meets its alias."""
    return {ROWS.get(name, UNKNOWN).alias_of or name: value for name, value in conf.items()}
