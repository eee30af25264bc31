"""Direct reads: offset ranges straight from Kafka, in batches of Arrow.

This path is the semantics of the source; the prefetch is its cache.  What an event means for a range is ``range_progress``: here the client
is polled, the cluster is asked, and time passes.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError

from sparkcohort.runtime.batches import range_progress
from sparkcohort.runtime.batches.range_progress import (
    AskCluster,
    DataLossError,
    DeliverRecords,
    ExistenceAnswer,
    FailRange,
    FailureKind,
    FetchError,
    FetchFrom,
    GiveUpRange,
    LogEndReached,
    LogQuestion,
    LogRangeAnswer,
    NothingFetched,
    OtherTopic,
    PartitionDoubted,
    PartitionFailed,
    PauseFetching,
    RangeProgress,
    RangeRules,
    RangeStep,
    RecordsFetched,
    ReportLoss,
    ReportRecreated,
    StopFetching,
    TransactionAnswer,
    UnansweredQuestion,
)
from sparkcohort.runtime.kafka.cluster_messages import shown_id
from sparkcohort.runtime.kafka.fetch_messages import NO_ID
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.kafka import blocking_client
from sparkcohort.runtime.shell.kafka.fetch.events import (
    EndOfLog,
    Event,
    MalformedRecordError,
    PartitionError,
    Piece,
    Records,
)
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.shell.options.connection_settings import TransportError
from sparkcohort.runtime.values.columns import KAFKA_ROW, Columns

if TYPE_CHECKING:
    from sparkcohort.runtime.shell.kafka.fetch.relay import RelayedReader

__all__ = ["DataLossError", "FetchError", "RangeReader", "is_of_another_log"]

POLL_S: Final = 0.1
ASK_S: Final = 5.0  # how long one question about a log's range may take
MOST_WORDS: Final = 500  # about where all partitions of a task stand
REFUSED_MS: Final = 5_000  # a wrong password doesn't get better with time

_log = logging.getLogger("sparkcohort.fetch")

_POSITION_LOST = frozenset((KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE))
_UNKNOWN_HERE = frozenset((KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION))
_NO_SUCH_PARTITION = _UNKNOWN_HERE | {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID}
_CORRUPT = frozenset(
    (KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._NOT_IMPLEMENTED, KafkaError.INVALID_MSG)
)
_FAILURES: Final = {
    **dict.fromkeys(_POSITION_LOST, FailureKind.POSITION_LOST),
    **dict.fromkeys(_NO_SUCH_PARTITION, FailureKind.NO_SUCH_PARTITION),
    **dict.fromkeys(_CORRUPT, FailureKind.CORRUPT),
    KafkaError._LOG_TRUNCATION: FailureKind.TRUNCATED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: FailureKind.NO_PERMISSION,
}


@dataclass(slots=True)
class _ReadProgress:
    """The ranges of one ``read``: those being fetched, those waiting for an earlier range of their partition."""

    queues: dict[TopicPartition, deque[Range]]
    active: dict[TopicPartition, RangeProgress] = field(default_factory=dict)
    missing: int = 0  # offsets between the positions and the ends of the active ones


class RangeReader:
    """Reads offset ranges with a consumer of its own; one read at a time, by one thread.

    ``conf`` are librdkafka settings, ``poll_timeout_ms`` bounds the time without progress (``kafkaConsumer.pollTimeoutMs``),
    ``on_data_loss`` gets a sentence for every loss that is let pass (``fail_on_data_loss=False``).
    """

    def __init__(
        self,
        conf: Mapping[str, Any],
        *,
        columns: Columns = KAFKA_ROW,
        fail_on_data_loss: bool = True,
        poll_timeout_ms: int = 120_000,
        on_data_loss: Callable[[str], None] = _log.warning,
        elsewhere: RelayedReader | None = None,
        on_idle: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the client; nothing is awaited.  ``elsewhere`` reads what doesn't come from a silent leader.

        ``on_idle`` is called after each poll that brought nothing, and may raise what ends the read.
        """
        self._committed = conf.get("isolation.level") == "read_committed"
        self._source = RecordSource(conf, columns=columns)
        self.malformed = self._source.malformed
        self._fail_on_data_loss = fail_on_data_loss
        self._poll_timeout_ms = self._patience_ms = poll_timeout_ms
        self._on_data_loss = on_data_loss
        self._ids: Mapping[str, str] = {}
        self._recreated: set[str] = set()  # topics that had another id when this read began
        self._unidentified: set[str] = set()  # topics of which the client doesn't tell whose records it gives
        self.replaced: set[str] = set()  # topics that were deleted and created again while they were read
        self._elsewhere, self._on_idle = elsewhere, on_idle
        self._reassigned: set[TopicPartition] = set()  # since the last poll, whose other events belong to the past
        self._idle_s = 0.0  # time spent waiting in vain; a slow caller's time is not in it

    def read(self, ranges: Sequence[Range], ids: Mapping[str, str] | None = None) -> Iterator[Piece]:
        """Yield (partition, next offset, batch or None), in order per partition, partitions interleaved.

        ``ids``: the topics that the ranges are of, as far as known: records of another one of that name are a loss.
        The last piece of each non-empty range has the range's end as its next offset; a batch of None only moves the
        position.  Raises DataLossError, FetchError (no progress, no such topic, no permission, corrupt data),
        MalformedRecordError.
        """
        progress = _ReadProgress(_queues(ranges))
        self._ids, self._unidentified = ids or {}, set()
        try:
            self._recreated = self._recreated_topics() if self._ids and not self._source.tells_ids else set()
            for tp in list(progress.queues):
                self._begin_next(progress, tp)
            while progress.active:
                yield from self._round(progress)
            unidentified = self._unidentified - self.replaced
            if unidentified and not self._recreated_topics().isdisjoint(unidentified):
                raise FetchError(
                    f"topic {', '.join(sorted(unidentified))}: deleted and created anew while it was read; what was read of it is void",
                    "UNKNOWN_TOPIC_ID",
                )
        finally:
            self._source.unassign(progress.active)

    def close(self) -> None:
        """Close the connections; the reader can't be used again."""
        self._source.close()

    # --- one range -----------------------------------------------------------------------------------

    def _rules(self, topic: str) -> RangeRules:
        patience_s = self._patience_ms / 1000
        return RangeRules(self._fail_on_data_loss, patience_s, self._ids.get(topic, ""), topic in self._recreated)

    def _begin_next(self, progress: _ReadProgress, tp: TopicPartition) -> None:
        """Start the next range of a partition, if there is one."""
        queue = progress.queues[tp]
        if queue:
            span = queue.popleft()
            progress.missing += span.end - span.start
            first_step = range_progress.begin(span, self._rules(tp.topic), time.monotonic(), self._idle_s)
            progress.active[tp] = first_step.progress
            for _ in self._carry_out(progress, first_step, None):  # a range that begins delivers nothing
                pass

    def _step(
        self,
        progress: _ReadProgress,
        tp: TopicPartition,
        event: range_progress.Event,
        batch: pa.RecordBatch | None = None,
    ) -> Iterator[Piece]:
        """Give one event to a range, and do what follows from it."""
        old = progress.active[tp]
        result = range_progress.step(old, event, self._rules(tp.topic), time.monotonic(), self._idle_s)
        progress.active[tp] = result.progress
        progress.missing -= result.progress.position - old.position
        yield from self._carry_out(progress, result, batch)

    def _carry_out(self, progress: _ReadProgress, result: RangeStep, batch: pa.RecordBatch | None) -> Iterator[Piece]:
        reading = result.progress
        tp = reading.range.tp
        for action in result.actions:
            match action:
                case FetchFrom(position):
                    self._source.unassign([tp])
                    self._source.assign({tp: (position, reading.range.end)})
                    self._reassigned.add(tp)
                case StopFetching():
                    self._source.unassign([tp])
                    self._reassigned.add(tp)
                case DeliverRecords():
                    if reading.is_done:
                        del progress.active[tp]
                        self._begin_next(progress, tp)
                    if batch is not None or reading.is_done:
                        yield tp, reading.position, batch
                case AskCluster(question):
                    yield from self._step(progress, tp, self._ask(tp, reading.range.end, question))
                case PauseFetching():
                    time.sleep(POLL_S)
                    self._idle_s += POLL_S
                case ReportLoss(message):
                    self._on_data_loss(message)
                case ReportRecreated():
                    self.replaced.add(tp.topic)
                case FailRange(error):
                    raise error
                case GiveUpRange():
                    raise self._timeout(reading)

    def _timeout(self, reading: RangeProgress) -> FetchError:
        reason = reading.error or self._source.last_error or self._silence_reason(reading.range.tp)
        if self._elsewhere is not None and self._elsewhere.reason:
            reason += f"; through the driver: {self._elsewhere.reason}"
        return FetchError(
            f"{range_progress.where(reading)}: no progress at offset {reading.position} for {self._patience_ms} ms "
            f"(kafkaConsumer.pollTimeoutMs is {self._poll_timeout_ms}): {reason}",
            "REQUEST_TIMED_OUT",
        )

    def _silence_reason(self, tp: TopicPartition) -> str:
        """What to say when no error came either."""
        match self._ask(tp, 0, LogQuestion.POSITION):
            case LogRangeAnswer(_, first, end):
                return (
                    f"the leader answers, its log has the offsets [{first}, {end}), and no record comes: it may be slow "
                    "or throttled, or the length of the batch there is damaged"
                )
        return "no broker answered"

    # --- all ranges ----------------------------------------------------------------------------------

    def _round(self, progress: _ReadProgress) -> Iterator[Piece]:
        """Take what one poll brings."""
        start_s = time.monotonic()
        self._reassigned.clear()
        events = self._poll(progress)
        if not events:
            self._idle_s += time.monotonic() - start_s
        for event in events:
            # What a range's own action has made out of date is passed over.
            if event.tp in progress.active and event.tp not in self._reassigned:
                yield from self._take(progress, event)
        if events:
            self._patience_ms = self._poll_timeout_ms
            return
        self._on_idle()
        yield from self._heed_complaints(progress)
        if self._elsewhere is not None:
            yield from self._read_elsewhere(progress, self._elsewhere)
        for tp in tuple(progress.active):
            yield from self._step(progress, tp, NothingFetched())

    def _take(self, progress: _ReadProgress, event: Event) -> Iterator[Piece]:
        tp = event.tp
        wanted_id = self._ids.get(tp.topic, "")
        if wanted_id and not isinstance(event, PartitionError):
            topic_id = self._source.topic_id(tp)
            if not topic_id:
                self._unidentified.add(tp.topic)
            elif topic_id != wanted_id:
                yield from self._step(progress, tp, OtherTopic())
                return
        match event:
            case Records(next_offset=next_offset, batch=batch):
                yield from self._step(progress, tp, RecordsFetched(next_offset), batch)
            case EndOfLog(offset=offset):
                yield from self._step(progress, tp, LogEndReached(offset))
            case PartitionError(error=KafkaError() as error):
                failure = _FAILURES.get(error.code(), FailureKind.OTHER)
                yield from self._step(progress, tp, PartitionFailed(failure, error.name(), error.str()))
            case PartitionError(error=MalformedRecordError() as malformed):
                raise malformed

    def _poll(self, progress: _ReadProgress) -> list[Event]:
        """What the source has.  Raises FetchError where memory runs out: another attempt of the task may have more."""
        try:
            # Not more than what is missing: a small range of a big log must not cost ten thousand records.
            return self._source.poll(POLL_S, progress.missing)
        except MemoryError as error:
            places = (f"{range_progress.where(each)} at offset {each.position}" for each in progress.active.values())
            raise FetchError(
                f"no memory for what is read of {'; '.join(places)[:MOST_WORDS]} ({str(error) or 'librdkafka'}): give the "
                "executors more (spark.executor.memoryOverhead; spark.executor.pyspark.memory, if it is set)"
            ) from error

    def _heed_complaints(self, progress: _ReadProgress) -> Iterator[Piece]:
        """Errors of the client that name no partition."""
        complaints = set(self._source.complaints)
        self._source.complaints.clear()
        if KafkaError._AUTHENTICATION in complaints:
            self._patience_ms = min(self._patience_ms, REFUSED_MS)
        if not complaints.isdisjoint(_NO_SUCH_PARTITION):
            for tp in tuple(progress.active):
                yield from self._step(progress, tp, PartitionDoubted())

    def _read_elsewhere(self, progress: _ReadProgress, elsewhere: RelayedReader) -> Iterator[Piece]:
        """Have the driver read what doesn't come."""
        silence, start_s = self._source.silence(), time.monotonic()
        stuck = [
            reading.range._replace(start=reading.position)
            for tp, reading in progress.active.items()
            if elsewhere.wants(
                tp, None if silence is None else silence.get(tp, 0.0), self._idle_s - reading.idle_since_s
            )
        ]
        pieces = elsewhere.read(stuck, self._ids) if stuck else []
        if not pieces:
            self._idle_s += time.monotonic() - start_s
        for tp, position, batch in pieces:
            yield from self._step(progress, tp, RecordsFetched(position), batch)
        for tp in {tp for tp, _, _ in pieces} & progress.active.keys() - self._reassigned:
            reading = progress.active[tp]
            if reading.question is not LogQuestion.EXISTENCE:
                yield from self._carry_out(progress, RangeStep(reading, (FetchFrom(reading.position),)), None)

    # --- questions -----------------------------------------------------------------------------------

    def _ask(self, tp: TopicPartition, end: int, question: LogQuestion) -> range_progress.Event:
        """The cluster's answer, or that there was none; the time of a question without an answer counts as idle."""
        start_s, timeout_s = time.monotonic(), min(ASK_S, self._poll_timeout_ms / 1000)
        try:
            match question:
                case LogQuestion.EXISTENCE:
                    topic = blocking_client.topic(self._source.cluster, tp.topic, timeout_s)
                    tells_id = self._ids.get(tp.topic) and topic.topic_id != NO_ID
                    topic_id = shown_id(topic.topic_id) if tells_id else ""
                    return ExistenceAnswer(tp.partition in topic.leaders, topic_id)
                case LogQuestion.OPEN_TRANSACTION:
                    if not self._committed:
                        return TransactionAnswer(is_open=False)
                    _, log_end = blocking_client.log_range(self._source.cluster, tp, timeout_s, committed=False)
                    return TransactionAnswer(is_open=log_end >= end)
                case _:
                    first, log_end = blocking_client.log_range(
                        self._source.cluster, tp, timeout_s, committed=self._committed
                    )
                    return LogRangeAnswer(question, first, log_end)
        except TransportError as error:
            self._idle_s += time.monotonic() - start_s
            return UnansweredQuestion(question, str(error))

    def _recreated_topics(self) -> set[str]:
        """Topics that seem to have another id now; raises FetchError when no broker answers."""
        try:
            ids = blocking_client.topic_ids(self._source.cluster, sorted(self._ids), ASK_S)
        except TransportError as error:
            raise FetchError(f"no broker tells the ids of the topics {', '.join(sorted(self._ids))}: {error}") from None
        return {topic for topic, expected in self._ids.items() if ids.get(topic, expected) != expected}


def is_of_another_log(error: KafkaError | MalformedRecordError) -> bool:
    """Whether the log may have other records now at the offsets it had: truncated, or deleted and recreated."""
    codes = _POSITION_LOST | _NO_SUCH_PARTITION | {KafkaError._LOG_TRUNCATION}
    return isinstance(error, KafkaError) and error.code() in codes


def _queues(ranges: Sequence[Range]) -> dict[TopicPartition, deque[Range]]:
    """The non-empty ranges per partition, in offset order."""
    queues: dict[TopicPartition, deque[Range]] = {}
    for span in sorted(ranges):
        if span.start < 0 or span.start > span.end:
            raise ValueError(f"not a range: {span}")
        if span.start < span.end:
            queues.setdefault(span.tp, deque()).append(span)
    return queues
