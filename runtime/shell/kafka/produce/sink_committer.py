"""The driver's side of an exactly-once sink: what ``batch_commit`` says, done at Kafka."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.batch_commit import BatchCommit, CommitPhase, EndResult
from sparkcohort.runtime.kafka.decision import (
    MOST_BYTES,
    TASK_SEPARATOR,
    Committable,
    SinkDecision,
    SinkTransaction,
    encode_decision,
)
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.kafka.produce.commit_failures import commit_error, too_many_ranges
from sparkcohort.runtime.shell.kafka.produce.decision_log import DecisionLog
from sparkcohort.runtime.shell.kafka.produce.produce_report import ProduceError
from sparkcohort.runtime.shell.kafka.produce.row_producer import Producer
from sparkcohort.runtime.shell.kafka.produce.transaction_client import TransactionClient, open_states
from sparkcohort.runtime.shell.options.producer_settings import ProducerSettings

log = logging.getLogger("sparkcohort.writer")

CONTROL_MS: Final = 60_000
"""The longest time-out of the control id's transaction: while it is open, other sinks can't read the topic of decisions."""
MOST_LEAST_LEFT_S: Final = 10.0
_FENCED: Final = frozenset(
    {"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING"}
)


class SinkCommitter:
    """For one thread; connected with the first call.  All calls raise CohortError."""

    def __init__(self, settings: ProducerSettings, sink_id: str, state_topic: str) -> None:
        """Nothing is asked yet."""
        self._settings, self._sink_id, self._state_topic = settings, sink_id, state_topic
        self._client = ClusterClient(settings.connection)
        self._transactions = TransactionClient(self._client, settings.block_s)
        self._log = DecisionLog(settings.connection, self._client, state_topic)
        self._producer: Producer | None = None
        self._control: SinkTransaction | None = None  # the epoch in which ``_last`` was read or written
        self._last: SinkDecision | None = None

    def close(self) -> None:
        """Close the connections."""
        if self._producer is not None:
            self._producer.close()
        self._client.close()

    # --- reading --------------------------------------------------------------------------------

    def begin_run(self) -> BatchCommit:
        """As a driver begins: commit what is decided, which changes nothing where that was done, and abort what else is open."""
        return self._run(BatchCommit("", -1, (), uuid.uuid4().hex, settles=True))

    # --- a batch --------------------------------------------------------------------------------

    def commit(self, own: SinkDecision) -> BatchCommit:
        """Make a batch visible, whole and once."""
        return self._run(self.begin_commit(own))

    def _run(self, state: BatchCommit) -> BatchCommit:
        while state.phase not in (CommitPhase.DONE, CommitPhase.FAILED):
            state = self.step(state)
        if state.phase is CommitPhase.FAILED:
            raise commit_error(self._sink_id, state)
        return state

    def reset(self, batch: int | None) -> SinkDecision | None:
        """Have the sink begin behind this batch, or with none; the decision before.  What it had decided is not committed any more."""
        self._claim()
        last = self._last
        target = None if batch is None or last is None else SinkDecision(last.query, batch, run=uuid.uuid4().hex)
        if last is not None and not self._decide(target):
            raise ProduceError(
                f"sink {self._sink_id} was claimed by a driver meanwhile: stop the query, and try again",
                "SINK_OVERTAKEN",
            )
        return last

    def last_decision(self) -> SinkDecision | None:
        """What the topic says; None where there is nothing, or no topic."""
        return None if self._log.is_missing() else self._log.read(self._sink_id)

    def begin_commit(self, own: SinkDecision) -> BatchCommit:
        """A batch's commit, before its first step."""
        least_left_s = min(self._settings.transaction_ms / 4000, MOST_LEAST_LEFT_S)
        return BatchCommit(own.query, own.batch, own.committables, own.run, least_left_s)

    def step(self, state: BatchCommit) -> BatchCommit:
        """Do what the phase says."""
        if state.phase is CommitPhase.CLAIM:
            self._claim()
            return state.claimed()
        if state.phase is CommitPhase.READ:
            return state.read(self._last)
        if state.phase is CommitPhase.CHECK:
            return state.checked(self.open_transactions(each.transaction.name for each in state.committables))
        if state.phase is CommitPhase.DECIDE:
            return state.decided(is_written=self._decide(state.proposal))
        if state.phase is CommitPhase.COMMIT:
            committables = state.decision.committables if state.decision is not None else ()
            return state.committed(self._commit_all(committables))
        try:
            self._transactions.end(state.leftovers, commit=False)
        except CohortError as error:  # the batch is committed all the same
            log.warning("what attempts have left open stays so until its time-out: %s", error)
        return state.aborted()

    def open_transactions(self, names: Iterable[str] = ()) -> dict[SinkTransaction, float]:
        """The open transactions of the sink's tasks, and of these ids; for how many seconds each may stay so."""
        listed = self._transactions.list_open(self._sink_id + TASK_SEPARATOR)
        described = self._transactions.describe({*listed, *names})
        return open_states(described.values(), time.time() * 1000)

    def _claim(self) -> None:
        """Have the control id's next epoch, and know the last decision: nobody else can have written one since."""
        self._producer = self._producer or Producer(self._settings)
        previous = self._control
        timeout_ms = min(self._settings.transaction_ms, CONTROL_MS)
        self._control = self._producer.begin(self._sink_id, timeout_ms)
        epoch = self._control.producer
        if previous is None or epoch != previous.producer._replace(epoch=previous.producer.epoch + 1):
            self._log.ensure_topic()
            self._last = self._log.read(self._sink_id)

    def _decide(self, decision: SinkDecision | None) -> bool:
        """Write a decision and commit its transaction; False where this driver was fenced."""
        producer, control = self._producer, self._control
        assert producer is not None  # noqa: S101  see _claim
        assert control is not None  # noqa: S101  likewise
        value = encode_decision(decision) if decision is not None else None
        if value is not None and len(value) > MOST_BYTES:
            raise too_many_ranges(self._sink_id, len(value), MOST_BYTES)
        row = {"topic": [self._state_topic], "partition": pa.array([0], pa.int32())}
        row |= {"key": [self._sink_id.encode()], "value": pa.array([value], pa.binary())}
        try:
            producer.write(pa.RecordBatch.from_pydict(row))
            producer.flush()
        except ProduceError as error:
            if error.error not in _FENCED:
                raise
            self._forget()
            return False
        if self._transactions.end([control], commit=True)[control] is EndResult.REFUSED:
            self._forget()
            return False
        self._last = decision
        return True

    def _forget(self) -> None:
        """Another driver has claimed the sink: what is known is of the past."""
        if self._producer is not None:
            self._producer.close()
        self._producer = self._control = self._last = None

    def _commit_all(self, committables: Sequence[Committable]) -> dict[SinkTransaction, EndResult]:
        """End each with a commit; one whose rows are there is ended, even if Kafka has forgotten it.

        An id that isn't used for a week is forgotten (``transactional.id.expiration.ms``).
        """
        results = self._transactions.end((each.transaction for each in committables), commit=True)
        missing = [each for each in committables if results[each.transaction] is EndResult.REFUSED]
        return results | {each.transaction: EndResult.ENDED for each in missing if self._log.is_visible(each)}
