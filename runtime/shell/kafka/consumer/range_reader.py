"""Direct reads: offset ranges straight from Kafka, in batches of Arrow.

This path is the semantics of the source; the prefetch is its cache.  A range ends when the position reaches its end: by
a record at or after the end, or because the broker says that nothing visible comes before its log end.  Rows are never
counted, since compaction, control records and aborted transactions leave gaps.  Loss follows Spark's
``KafkaDataConsumer``.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from sparkcohort.runtime.batches.suspected_loss import SuspectedLosses
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.kafka.consumer.new_source import new_record_source
from sparkcohort.runtime.shell.kafka.consumer.pieces import Elsewhere, Piece
from sparkcohort.runtime.shell.kafka.consumer.record_source import (
    EndOfLog,
    Event,
    MalformedRecordError,
    PartitionError,
    Records,
)
from sparkcohort.runtime.shell.kafka.topic_ids import TopicIds
from sparkcohort.runtime.shell.kafka.uncommitted_ends import UncommittedEnds
from sparkcohort.runtime.values.columns import KAFKA_ROW, Columns

T = TypeVar("T")

POLL_S = 0.1
ASK_S = 5.0  # how long one question about a log's range may take
RECHECK_S = 1.0  # as Spark's driver asks before it believes that a log got shorter
CHECKS = 3  # how often in a row data may be corrupt, or memory short
MOST_WORDS = 500  # about where all partitions of a task stand
REFUSED_MS = 5_000  # a wrong password doesn't get better with time

_log = logging.getLogger("sparkcohort.fetch")

_POSITION_LOST = frozenset((KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE))
_UNKNOWN_HERE = frozenset((KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION))
_NO_SUCH_PARTITION = _UNKNOWN_HERE | {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID}
_CORRUPT = frozenset(
    (KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._NOT_IMPLEMENTED, KafkaError.INVALID_MSG)
)


class FetchError(CohortError):
    """A range could not be read; the message names topic, partition, offsets and what to do."""


class DataLossError(FetchError):
    """Records of a range are gone and ``failOnDataLoss`` is true; ``error`` is Spark's condition name."""


@dataclass(slots=True)
class _RangeProgress:
    """One range on its way: where it stands, and what has been tried without progress."""

    wanted: Range
    position: int
    idle_mark: float  # the reader's idle clock at the last progress
    gone: bool = False  # the client says that there is no such partition
    stopped: bool = False  # the client fetches no more until it is assigned again
    asked: int = 0
    # That the log ends before the range does, or isn't there.
    doubts: SuspectedLosses[TopicPartition] = field(default_factory=SuspectedLosses)
    check_at: float = 0.0  # when to ask next; 0: no need
    failures: int = 0  # errors in a row without progress
    error: str = ""  # why no progress is made, as far as it is known
    corrupt: str = ""  # what is wrong with the data at the position, if that was among the errors


@dataclass(slots=True)
class _ReadProgress:
    """The ranges of one ``read``: those being fetched, those waiting for an earlier range of their partition."""

    waiting: dict[TopicPartition, deque[Range]]
    active: dict[TopicPartition, _RangeProgress] = field(default_factory=dict)
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
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """Create the client; nothing is awaited.  ``elsewhere`` reads what doesn't come from here."""
        self._conf = dict(conf)
        self._source = new_record_source(conf, columns=columns)
        self.malformed = self._source.malformed
        self._fail_on_data_loss = fail_on_data_loss
        self._poll_timeout_ms = self._patience_ms = poll_timeout_ms
        self._on_data_loss = on_data_loss
        self._topics = TopicIds(conf)
        self._uncommitted = UncommittedEnds(conf)
        self._ids: Mapping[str, str] = {}
        self._anew: set[str] = set()  # topics that had another id when this read began
        self._untold: set[str] = set()  # topics of which the client doesn't tell whose records it gives
        self.replaced: set[str] = set()  # topics that were deleted and made anew, for whoever wants to tell of it
        self._elsewhere = elsewhere
        self._past: set[TopicPartition] = set()  # assigned anew since the last poll
        self._short = 0  # of memory, times in a row
        self._idle_s = 0.0  # time spent waiting in vain; a slow caller's time is not in it

    def read(self, ranges: Sequence[Range], ids: Mapping[str, str] | None = None) -> Iterator[Piece]:
        """Yield (partition, next offset, batch or None), in order per partition, partitions interleaved.

        ``ids``: the topics that the ranges are of, as far as known: records of another one of that name are a loss.
        The last piece of each non-empty range has the range's end as its next offset; a batch of None only moves the
        position.  Raises DataLossError, FetchError (no progress, no such topic, no permission, corrupt data),
        MalformedRecordError.
        """
        progress = _ReadProgress(_queues(ranges))
        self._ids, self._untold = ids or {}, set()
        try:
            self._anew = self._made_anew() if self._ids and not self._source.tells_ids else set()
            for tp in list(progress.waiting):
                self._next_range(progress, tp)
            while progress.active:
                yield from self._round(progress)
            if self._untold and not self._made_anew().isdisjoint(self._untold - self.replaced):
                raise FetchError(
                    f"topic {', '.join(sorted(self._untold))}: deleted and created anew while it was read; what was read of it is void",
                    "UNKNOWN_TOPIC_ID",
                )
        finally:
            self._source.unassign(progress.active)

    def close(self) -> None:
        """Close the connections; the reader can't be used again."""
        self._source.close()
        self._topics.release()
        self._uncommitted.release()

    def _next_range(self, progress: _ReadProgress, tp: TopicPartition) -> None:
        """Start the next range of a partition, if there is one."""
        queue = progress.waiting[tp]
        if queue:
            wanted = queue.popleft()
            progress.active[tp] = _RangeProgress(wanted, wanted.start, self._idle_s)
            progress.missing += wanted.end - wanted.start
            if tp.topic in self._anew:
                self._doubt(progress.active[tp])
            else:
                self._assign(wanted, wanted.start)

    def _assign(self, wanted: Range, position: int) -> None:
        """Fetch from ``position``; what this round's poll brought of the partition belongs to its past."""
        self._source.unassign([wanted.tp])
        self._source.assign({wanted.tp: (position, wanted.end)})
        self._past.add(wanted.tp)

    def _round(self, progress: _ReadProgress) -> Iterator[Piece]:
        """Take what one poll brings."""
        before = time.monotonic()
        self._past.clear()
        # Not more than what is missing: a small range of a big log must not cost ten thousand records.
        events = self._poll(progress)
        if not events:
            self._idle_s += time.monotonic() - before
        for event in events:
            reading = progress.active.get(event.tp)
            if reading is not None and event.tp not in self._past:
                yield from self._take(progress, reading, event)
        if events:
            self._patience_ms = self._poll_timeout_ms
        else:
            self._suspect(progress)
            if self._elsewhere is not None:
                yield from self._read_elsewhere(progress, self._elsewhere)
        for reading in () if events else tuple(progress.active.values()):
            if reading.check_at == 0.0:
                self._check_time(reading)
            elif reading.check_at <= time.monotonic():
                yield from self._check_gone(progress, reading) if reading.gone else self._check_end(progress, reading)

    def _poll(self, progress: _ReadProgress) -> list[Event]:
        """What is there; where memory runs out, all that is on its way is thrown away, to begin with anew."""
        try:
            vain = self._elsewhere is not None and self._elsewhere.is_all(progress.active)
            return self._source.poll(0.0 if vain else POLL_S, progress.missing)
        except MemoryError as error:
            self._short += 1
            if self._short >= CHECKS:
                where = "; ".join(f"{_where(each)} at offset {each.position}" for each in progress.active.values())
                raise FetchError(
                    f"no memory for what is read of {where[:MOST_WORDS]} ({str(error) or 'librdkafka'}): give the executors "
                    "more (spark.executor.memoryOverhead; spark.executor.pyspark.memory, if it is set)"
                ) from error
            for reading in progress.active.values():
                if not reading.gone:
                    self._assign(reading.wanted, reading.position)
            time.sleep(POLL_S)
            return []

    def _read_elsewhere(self, progress: _ReadProgress, elsewhere: Elsewhere) -> Iterator[Piece]:
        """Ask somebody else for what doesn't come."""
        silence, before = self._source.silence(), time.monotonic()
        stuck = [
            reading.wanted._replace(start=reading.position)
            for tp, reading in progress.active.items()
            if elsewhere.wants(tp, None if silence is None else silence.get(tp, 0.0), self._idle_s - reading.idle_mark)
        ]
        pieces = elsewhere.read(stuck, self._ids) if stuck else []
        self.replaced |= elsewhere.replaced
        if not pieces:
            self._idle_s += time.monotonic() - before
        for tp, position, batch in pieces:
            yield from self._advance(progress, progress.active[tp], position, batch)
        for tp in {tp for tp, _, _ in pieces}:
            if tp in progress.active and tp not in self._past and not progress.active[tp].gone:
                self._assign(progress.active[tp].wanted, progress.active[tp].position)

    def _suspect(self, progress: _ReadProgress) -> None:
        """The client tells of partitions that don't exist without saying which: ask about those that haven't begun."""
        if not self._source.complaints.isdisjoint(_NO_SUCH_PARTITION):
            for reading in progress.active.values():
                if reading.position == reading.wanted.start and not reading.check_at:
                    reading.gone, reading.check_at = True, time.monotonic()
        if KafkaError._AUTHENTICATION in self._source.complaints:
            self._patience_ms = min(self._patience_ms, REFUSED_MS)
        self._source.complaints.clear()

    def _take(self, progress: _ReadProgress, reading: _RangeProgress, event: Event) -> Iterator[Piece]:
        wanted_id = self._ids.get(event.tp.topic, "")
        if wanted_id and not isinstance(event, PartitionError):
            topic_id = self._source.topic_id(event.tp)
            if not topic_id:
                self._untold.add(event.tp.topic)
            elif topic_id != wanted_id:
                self._source.unassign([event.tp])
                self._past.add(event.tp)
                self._doubt(reading)
                return
        match event:
            case Records(next_offset=next_offset, batch=batch):
                yield from self._advance(progress, reading, next_offset, batch)
            case EndOfLog(offset=offset):
                if offset > reading.position:
                    yield from self._advance(progress, reading, offset, None)
                if offset < reading.wanted.end:
                    reading.check_at = reading.check_at or time.monotonic()
            case PartitionError(error=KafkaError() as error):
                yield from self._recover(progress, reading, error)
            case PartitionError(error=MalformedRecordError() as malformed):
                raise malformed

    def _advance(
        self, progress: _ReadProgress, reading: _RangeProgress, next_offset: int, batch: pa.RecordBatch | None
    ) -> Iterator[Piece]:
        """Move a range forward; at its end, stop fetching before the piece is handed out."""
        tp = reading.wanted.tp
        position = min(max(next_offset, reading.position), reading.wanted.end)
        progress.missing -= position - reading.position
        reading.position = position
        reading.idle_mark, reading.failures, self._short = self._idle_s, 0, 0
        reading.corrupt = reading.error = ""
        self._calm(reading)
        if reading.position == reading.wanted.end:
            self._source.unassign([tp])
            del progress.active[tp]
            self._next_range(progress, tp)
        if batch is not None or reading.position == reading.wanted.end:
            yield tp, reading.position, batch

    def _recover(self, progress: _ReadProgress, reading: _RangeProgress, error: KafkaError) -> Iterator[Piece]:
        """Answer a partition's error: go on where records are, or raise what is for the user to solve."""
        reading.error, code = f"{error.name()}: {error.str()}", error.code()
        reading.failures, reading.stopped = reading.failures + 1, True
        if code in _CORRUPT:
            reading.corrupt = error.str()
        if code in _POSITION_LOST:
            yield from self._relocate(progress, reading)
        elif code == KafkaError._LOG_TRUNCATION:  # KIP-320; whoever reads the range again reads one log only
            raise FetchError(
                f"{_where(reading)}: the log was cut before offset {reading.position} while it was read, as after an unclean "
                "leader election; what was read of it is void, and is to be read again",
                error.name(),
            )
        elif code in _NO_SUCH_PARTITION:
            self._doubt(reading)
        elif code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise FetchError(
                f"no permission to read topic {reading.wanted.topic}: grant READ on it to this user", error.name()
            )
        elif code == KafkaError._AUTHENTICATION:  # it is us who refuse, and nothing that the broker says will help
            raise FetchError(f"{_where(reading)} can't be read: {error.str()}", "SASL_AUTHENTICATION_FAILED")
        else:
            self._restart(reading)

    def _restart(self, reading: _RangeProgress) -> None:
        """Fetch from the position again; errors in a row come at most ten times a second.

        Behind a wrong checksum librdkafka takes whatever bytes come next for a batch, fetches where that leads, and
        reports that the offset isn't in the log, once more after the next assignment: all of it is the same damage.
        """
        if reading.corrupt and reading.failures >= CHECKS:
            raise FetchError(
                f"corrupt data in {_where(reading)}, at offset {reading.position}: {reading.corrupt}. The leader's copy "
                "is damaged: another replica may be whole (make it the leader); to go on without these records start "
                "a new query behind them",
                "CORRUPT_MESSAGE",
            )
        if reading.failures > 1:
            time.sleep(POLL_S)
            self._idle_s += POLL_S
        self._check_time(reading)
        reading.stopped = False
        self._assign(reading.wanted, reading.position)

    def _check_end(self, progress: _ReadProgress, reading: _RangeProgress) -> Iterator[Piece]:
        """The broker said that its log ends before the range does: ask again a few times, then believe it."""
        found = self._ask(reading, self._source.log_range)
        reading.check_at = time.monotonic() + RECHECK_S
        if found is None:
            self._check_time(reading)
        elif found[1] > reading.position:  # read as far as it goes: the leader has caught up, or the log has grown
            self._calm(reading)
            if reading.stopped:
                self._restart(reading)
        elif (waits := self._ask(reading, partial(self._open_transaction, reading.wanted.end))) is not False:
            if waits:
                reading.error = f"a transaction is open at offset {found[1]}, and isolation.level is read_committed"
            self._check_time(reading)
        elif self._is_believed(reading):
            yield from self._lose(progress, reading, reading.wanted.end, f"the log ends at {found[1]}")

    def _relocate(self, progress: _ReadProgress, reading: _RangeProgress) -> Iterator[Piece]:
        """The position is not in the log: go to the first record of the range that is still there."""
        found = self._ask(reading, self._source.log_range)
        if found is not None and reading.position < found[0]:
            to = min(found[0], reading.wanted.end)
            yield from self._lose(progress, reading, to, f"the log starts at {found[0]}")
        elif found is not None and reading.position > found[1]:
            reading.check_at = reading.check_at or time.monotonic()  # fetching would only repeat the error
        else:
            self._restart(reading)  # a replica that lags, or nobody to ask: nothing is known to be gone

    def _check_gone(self, progress: _ReadProgress, reading: _RangeProgress) -> Iterator[Piece]:
        """The client knows no such partition: metadata can be stale for a moment, so ask the cluster."""
        reading.check_at = time.monotonic() + RECHECK_S
        exists, wanted_id = self._ask(reading, self._source.exists), self._ids.get(reading.wanted.topic, "")
        topic_id = self._ask(reading, self._topic_id) if exists and wanted_id else ""
        if exists is None or topic_id is None:
            self._check_time(reading)
            return
        exists = exists and bool(topic_id or not wanted_id)
        if exists and topic_id == wanted_id:
            reading.gone = False
            self._calm(reading)
            self._restart(reading)
        elif not self._is_believed(reading):
            return
        elif exists:
            self.replaced.add(reading.wanted.topic)
            why = f"the topic was deleted and created anew: its id was {wanted_id} and is {topic_id} now"
            yield from self._lose(progress, reading, reading.wanted.end, why)
        elif self._fail_on_data_loss:
            raise FetchError(
                f"{_where(reading)} can't be read: the cluster has no such partition (any more); create the topic, "
                "or set failOnDataLoss to false to go on without it",
                "UNKNOWN_TOPIC_OR_PARTITION",
            )
        else:
            yield from self._lose(progress, reading, reading.wanted.end, "the partition is gone")

    def _lose(self, progress: _ReadProgress, reading: _RangeProgress, to: int, reason: str) -> Iterator[Piece]:
        """Records in [position, to) are lost: fail, or report and go on behind them."""
        message = f"Could not read records in offset [{reading.position}, {to}) of {_where(reading)}: {reason}"
        if self._fail_on_data_loss:
            condition = "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"
            hint = "Records aged out or the topic was recreated; set failOnDataLoss to false to go on without them."
            raise DataLossError(f"[{condition}] {message}. {hint}", condition)
        self._on_data_loss(message)
        if to < reading.wanted.end:
            self._assign(reading.wanted, to)
        yield from self._advance(progress, reading, to, None)

    def _ask(self, reading: _RangeProgress, question: Callable[[TopicPartition, float], T]) -> T | None:
        """Ask the cluster about the partition; None when it doesn't answer."""
        before = time.monotonic()
        try:
            return question(reading.wanted.tp, min(ASK_S, self._poll_timeout_ms / 1000))
        except (KafkaException, TimeoutError) as failed:
            reading.error = reading.error or clients.text_of(failed)  # a late answer hides no reason
            self._idle_s += time.monotonic() - before
            return None

    def _topic_id(self, tp: TopicPartition, timeout_s: float) -> str:
        """The id of the topic that has the partition now; "" if nobody knows it.  Raises KafkaException, TimeoutError."""
        return self._topics.ask([tp.topic], timeout_s).get(tp.topic, "")

    def _made_anew(self) -> set[str]:
        """Topics that seem to have another id now; raises FetchError when nobody answers."""
        try:
            now = self._topics.ask(sorted(self._ids), ASK_S)
        except (KafkaException, TimeoutError) as failed:
            raise FetchError(
                f"no broker tells the ids of the topics {', '.join(sorted(self._ids))}: {clients.text_of(failed)}"
            ) from None
        return {topic for topic, known in self._ids.items() if now.get(topic, known) != known}

    @staticmethod
    def _is_believed(reading: _RangeProgress) -> bool:
        """Whether one more answer that speaks of a loss makes it one."""
        reading.asked, now = reading.asked + 1, time.monotonic()
        reading.doubts = reading.doubts.after({reading.wanted.tp}, reading.asked, now)
        return bool(reading.doubts.believed(now))

    @staticmethod
    def _calm(reading: _RangeProgress) -> None:
        """There is no need to ask."""
        reading.doubts, reading.check_at = SuspectedLosses(), 0.0

    @staticmethod
    def _doubt(reading: _RangeProgress) -> None:
        """Its topic may be gone, or another one by now: ask."""
        reading.gone, reading.check_at = True, reading.check_at or time.monotonic()

    def _open_transaction(self, end: int, tp: TopicPartition, timeout_s: float) -> bool:
        """Whether the records up to ``end`` exist but wait for a transaction.  Raises KafkaException, TimeoutError."""
        if self._conf.get("isolation.level") != "read_committed":
            return False
        return self._uncommitted.ask([tp], timeout_s)[tp] >= end

    def _check_time(self, reading: _RangeProgress) -> None:
        """Raise FetchError when the partition has made no progress within the poll timeout."""
        if (self._idle_s - reading.idle_mark) * 1000 >= self._patience_ms:
            why = reading.error or self._source.last_error or self._silence(reading)
            if self._elsewhere is not None and self._elsewhere.why:
                why += f"; through the driver: {self._elsewhere.why}"
            raise FetchError(
                f"{_where(reading)}: no progress at offset {reading.position} for {self._patience_ms} ms "
                f"(kafkaConsumer.pollTimeoutMs is {self._poll_timeout_ms}): {why}",
                "REQUEST_TIMED_OUT",
            )

    def _silence(self, reading: _RangeProgress) -> str:
        """What to say when no error came either."""
        found = self._ask(reading, self._source.log_range)
        if found is None:
            return "no broker answered"
        return (
            f"the leader answers, its log has the offsets [{found[0]}, {found[1]}), and no record comes: it may be slow "
            "or throttled, or the length of the batch there is damaged"
        )


def of_another_log(error: KafkaError | MalformedRecordError) -> bool:
    """Whether the log may have other records now at the offsets it had: truncated, or deleted and made anew."""
    codes = _POSITION_LOST | _NO_SUCH_PARTITION | {KafkaError._LOG_TRUNCATION}
    return isinstance(error, KafkaError) and error.code() in codes


def _queues(ranges: Sequence[Range]) -> dict[TopicPartition, deque[Range]]:
    """The non-empty ranges per partition, in offset order."""
    queues: dict[TopicPartition, deque[Range]] = {}
    for wanted in sorted(ranges):
        if wanted.start < 0 or wanted.start > wanted.end:
            raise ValueError(f"not a range: {wanted}")
        if wanted.start < wanted.end:
            queues.setdefault(wanted.tp, deque()).append(wanted)
    return queues


def _where(reading: _RangeProgress) -> str:
    wanted = reading.wanted
    return f"topic {wanted.topic} partition {wanted.partition} offsets [{wanted.start}, {wanted.end})"
