"""What a source of records tells: Arrow record batches, ends of logs, errors of partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import pyarrow as pa
from confluent_kafka import KafkaError

from sparkcohort.runtime.batches.offset_runs import OffsetRuns
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.calls import MAX_MALFORMED_COUNTS, MalformedCount
from sparkcohort.runtime.protocol.partitions import TopicPartition

BATCH_RECORDS = 10_000
BATCH_BYTES = 4 << 20


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
Piece: TypeAlias = tuple[TopicPartition, int, pa.RecordBatch | None]
"""The partition, the next offset, and the rows that came before it, if any."""


def malformed_counts(counts: Mapping[tuple[str, str], int]) -> list[MalformedCount]:
    """The counts of ``malformed`` for a report, highest first; those beyond ``MAX_MALFORMED_COUNTS`` are left out."""
    most = sorted(counts.items(), key=lambda entry: -entry[1])[:MAX_MALFORMED_COUNTS]
    return [MalformedCount(topic, reason, count) for (topic, reason), count in most]


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
        "set includeHeaders to false, or leave headers out of .schema(...), to read the records without their headers, which "
        "dead.letter.topic reads, too"
    )


def trim(batch: pa.RecordBatch, runs: OffsetRuns, start: int, end: int) -> pa.RecordBatch | None:
    """Return the rows with offsets in [start, end) without copying; None when there are none."""
    n = batch.num_rows
    first, last = runs.rows_below(start, n), runs.rows_below(end, n)
    if (first, last) == (0, n):
        return batch
    return batch.slice(first, last - first) if first < last else None
