"""What a producer does with a batch after an answer: laws over any answers, and a broker that keeps a partition's log."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.kafka.produce_messages import NO_PRODUCER_ID, ProducerId
from sparkcohort.runtime.kafka.produce_progress import (
    DUPLICATE_SEQUENCE,
    FORGOTTEN,
    MESSAGE_TOO_LARGE,
    MOST_EPOCH,
    NETWORK,
    NO_ERROR,
    NOT_LEADER,
    OUT_OF_ORDER,
    RETRIABLE,
    SEQUENCES,
    STALE_METADATA,
    UNKNOWN_PRODUCER,
    BatchProgress,
    BatchStep,
    PartitionSequence,
    RetryLimits,
    judge,
)

LIMITS = RetryLimits(retries=2**31 - 1, backoff_s=0.1, most_backoff_s=1.0)
ERRORS = st.integers(-1, 130)


@given(
    error=ERRORS,
    records=st.integers(1, 3),
    attempts=st.integers(0, 100),
    now=st.floats(0, 20),
    retries=st.integers(0, 5),
)
def test_every_answer_has_a_step(error: int, records: int, attempts: int, now: float, retries: int) -> None:
    """Total; a try is counted and paced, none is made behind the deadline or above ``retries``."""
    batch = BatchProgress(records, deadline=10.0, attempts=attempts)
    step, then, refresh = judge(batch, error, now, replace(LIMITS, retries=retries))
    assert (step is BatchStep.DONE) == (error in (NO_ERROR, DUPLICATE_SEQUENCE))
    assert refresh == (error in STALE_METADATA and step is not BatchStep.DONE)
    if step in (BatchStep.RETRY, BatchStep.NEXT_EPOCH):
        assert error in RETRIABLE | FORGOTTEN
        assert then.attempts == attempts + 1 <= retries
        assert now + 0.1 <= then.not_before < then.deadline == batch.deadline
        assert then.not_before <= now + 1.0
    if step is BatchStep.SPLIT:
        assert records > 1
    if step is BatchStep.FAIL:
        assert then.error == error


def test_errors_have_their_steps() -> None:
    """As KafkaProducer's."""
    batch = BatchProgress(2, deadline=10.0)
    steps = {
        error: judge(batch, error, 0.0, LIMITS).step
        for error in (NOT_LEADER, NETWORK, MESSAGE_TOO_LARGE, OUT_OF_ORDER, UNKNOWN_PRODUCER, 29, 31, 87)
    }
    assert list(steps.values()) == [
        BatchStep.RETRY, BatchStep.RETRY, BatchStep.SPLIT, BatchStep.NEXT_EPOCH, BatchStep.NEXT_EPOCH, BatchStep.FAIL,
        BatchStep.FAIL, BatchStep.FAIL,
    ]  # fmt: skip
    assert judge(replace(batch, records=1), MESSAGE_TOO_LARGE, 0.0, LIMITS).step is BatchStep.FAIL


def test_what_is_retriable_is_so_for_librdkafka() -> None:
    """Each number has a name there."""
    assert all(KafkaError(code).name().isupper() for code in RETRIABLE)
    assert RETRIABLE.isdisjoint(FORGOTTEN | {NO_ERROR, DUPLICATE_SEQUENCE, MESSAGE_TOO_LARGE})


def test_backoff_grows_to_its_greatest() -> None:
    """KIP-580."""
    batch, waits = BatchProgress(1, deadline=1e9), []
    for _ in range(6):
        batch = judge(batch, NETWORK, 0.0, LIMITS).batch
        waits.append(round(batch.not_before, 3))
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


@pytest.mark.parametrize(("number", "records", "after"), [(0, 3, 3), (SEQUENCES - 1, 1, 0), (SEQUENCES - 2, 5, 3)])
def test_sequences_begin_again(number: int, records: int, after: int) -> None:
    """``DefaultRecordBatch.incrementSequence``."""
    assert PartitionSequence(ProducerId(1, 0), number).advance(records) == PartitionSequence(ProducerId(1, 0), after)


def test_epochs_end() -> None:
    """Then another producer id is needed."""
    assert PartitionSequence(ProducerId(7, 3), 9).next_epoch() == PartitionSequence(ProducerId(7, 4), 0)
    assert PartitionSequence(ProducerId(7, MOST_EPOCH), 9).next_epoch().producer == NO_PRODUCER_ID
    assert PartitionSequence().advance(3) == PartitionSequence().next_epoch() == PartitionSequence()


class _Log:
    """A partition's log, as ``ProducerStateManager`` guards it."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.known: dict[int, tuple[int, int, int]] = {}  # epoch, first sequence, next sequence of the last batch

    def append(self, sequence: PartitionSequence, batch: list[int]) -> int:
        (producer, epoch), first = sequence
        last_epoch, last_first, following = self.known.get(producer, (-1, 0, 0))
        if producer in self.known and epoch == last_epoch and (first, following) == (last_first, first + len(batch)):
            return NO_ERROR  # a duplicate is answered as the first time
        if producer in self.known and epoch < last_epoch:
            return 47
        if producer in self.known and (first != following if epoch == last_epoch else first != 0):
            return OUT_OF_ORDER
        if producer not in self.known and first != 0:
            return UNKNOWN_PRODUCER
        self.values += batch
        self.known[producer] = epoch, first, first + len(batch)
        return NO_ERROR


FAULTS = st.sampled_from(("fine", "fine", "lost before", "lost after", "refused", "forgotten"))


@given(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=8), faults=st.lists(FAULTS, max_size=30))
def test_a_log_has_every_record_in_order(sizes: list[int], faults: list[str]) -> None:
    """Whatever is lost on the way: at least once, never out of order; exactly once unless the broker forgets the producer."""
    log, sequence, now, number = _Log(), PartitionSequence(ProducerId(5, 0)), 0.0, 0
    plan, forgot = iter(faults), False
    for size in sizes:
        values = list(range(number, number + size))
        number += size
        batch = BatchProgress(size, deadline=now + 1e6)
        while True:
            fault = next(plan, "fine")
            if fault == "forgotten":
                log.known.clear()
                forgot = True
            error = log.append(sequence, values) if fault in ("fine", "lost after", "forgotten") else NETWORK
            verdict = judge(
                batch, NETWORK if fault == "lost after" else NOT_LEADER if fault == "refused" else error, now, LIMITS
            )
            batch, now = verdict.batch, max(now, verdict.batch.not_before)
            if verdict.step is BatchStep.DONE:
                sequence = sequence.advance(size)
                break
            assert verdict.step in (BatchStep.RETRY, BatchStep.NEXT_EPOCH)
            if verdict.step is BatchStep.NEXT_EPOCH:
                sequence = sequence.next_epoch()
    first_times = [log.values.index(value) for value in range(number)]
    assert first_times == sorted(first_times)
    assert forgot or log.values == list(range(number))
