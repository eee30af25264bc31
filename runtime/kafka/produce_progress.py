"""What a producer does with a batch after an answer: arithmetic, the clock being an argument.

A partition has one batch under way, so that nothing is reordered and a batch that is sent again has the sequence of its first
time: the broker knows it then.  Where the broker has forgotten the producer (its records have expired, or its epoch is another's), the
partition goes on with the next epoch and sequence 0, as ``TransactionManager.bumpIdempotentProducerEpoch`` does; a batch that was
written without our knowing comes twice then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

from sparkcohort.runtime.kafka.produce_messages import NO_PRODUCER_ID, ProducerId

SEQUENCES: Final = 1 << 31  # sequences begin again at 0
MOST_EPOCH: Final = 2**15 - 2  # ``ProducerIdAndEpoch``: the one after it is never used

NO_ERROR, MESSAGE_TOO_LARGE, TOPIC_DENIED, CLUSTER_DENIED = 0, 10, 29, 31
UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, NOT_LEADER, NETWORK = 3, 5, 6, 13
RECORD_LIST_TOO_LARGE, OUT_OF_ORDER, DUPLICATE_SEQUENCE, PRODUCER_EPOCH = 18, 45, 46, 47
UNKNOWN_PRODUCER, PRODUCER_FENCED = 59, 90
STALE_METADATA: Final = frozenset({UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, NOT_LEADER, 9, NETWORK, 56, 74, 100, 103})
"""Of Kafka's ``InvalidMetadataException``: the leader has to be asked for again."""
RETRIABLE: Final = STALE_METADATA | {2, 7, 14, 15, 16, 19, 20, 41, 51, 75, 89}
"""Of Kafka's ``RetriableException``: corrupt on the way, timed out, too few replicas in sync, …"""
FORGOTTEN: Final = frozenset({OUT_OF_ORDER, UNKNOWN_PRODUCER, PRODUCER_EPOCH, PRODUCER_FENCED})
"""The broker has another idea of this producer's epoch or sequence."""


class BatchStep(Enum):
    """What to do with a batch."""

    DONE = "it is acknowledged"
    RETRY = "send it again"
    NEXT_EPOCH = "send it again, with the next epoch and sequence 0"
    SPLIT = "send it as smaller ones"
    FAIL = "it can't be written"


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """``retries``, and ``retry.backoff.ms`` with its greatest value, in seconds."""

    retries: int
    backoff_s: float
    most_backoff_s: float


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """A batch that is not acknowledged; times are the caller's clock's."""

    records: int
    deadline: float  # ``delivery.timeout.ms`` after it was made
    attempts: int = 0  # answers that were an error, and connections that were lost
    not_before: float = 0.0
    error: int = NO_ERROR  # the last one

    def is_expired(self, now: float) -> bool:
        """Whether its time is over."""
        return now >= self.deadline


class BatchVerdict(NamedTuple):
    """The next step, the batch as it is then, and whether the leader has to be asked for."""

    step: BatchStep
    batch: BatchProgress
    refresh: bool = False


def judge(batch: BatchProgress, error: int, now: float, limits: RetryLimits, spread: float = 1.0) -> BatchVerdict:
    """What to do after this answer; ``spread`` is by how much the wait is longer or shorter, so that not all come at once."""
    # The broker has it already, more than five batches ago (``Sender.completeBatch``).
    if error in (NO_ERROR, DUPLICATE_SEQUENCE):
        return BatchVerdict(BatchStep.DONE, batch)
    if error in (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE) and batch.records > 1:
        return BatchVerdict(BatchStep.SPLIT, batch)
    wait_s = min(limits.backoff_s * float(1 << min(batch.attempts, 20)), limits.most_backoff_s) * spread
    failed_try = replace(batch, attempts=batch.attempts + 1, not_before=now + wait_s, error=error)
    refresh = error in STALE_METADATA
    if error not in RETRIABLE and error not in FORGOTTEN:
        return BatchVerdict(BatchStep.FAIL, failed_try)
    if failed_try.attempts > limits.retries or failed_try.not_before >= batch.deadline:
        return BatchVerdict(BatchStep.FAIL, failed_try, refresh)
    return BatchVerdict(BatchStep.NEXT_EPOCH if error in FORGOTTEN else BatchStep.RETRY, failed_try, refresh)


class PartitionSequence(NamedTuple):
    """A partition's place in what its producer writes: the next batch's producer and first sequence."""

    producer: ProducerId = NO_PRODUCER_ID
    next: int = 0

    def advance(self, records: int) -> PartitionSequence:
        """Behind a batch that was acknowledged."""
        return self._replace(next=(self.next + records) % SEQUENCES) if self.producer.producer_id >= 0 else self

    def next_epoch(self) -> PartitionSequence:
        """The next epoch's beginning; without a producer where there is no epoch left, and a new id has to be asked for."""
        producer_id, epoch = self.producer
        if producer_id < 0 or epoch >= MOST_EPOCH:
            return PartitionSequence()
        return PartitionSequence(ProducerId(producer_id, epoch + 1))
