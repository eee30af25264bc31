"""One offset range on its way: the semantics of the source, as a machine without clock or connection.

A range ends when its position reaches its end: by a record at or after the end, or because the leader says that nothing visible comes
before its log end.  Rows are never counted: compaction, control records and aborted transactions leave gaps.

::

    event                            what is known then             what the reader does
    RecordsFetched                   the position moves             deliver; at the end of the range: stop
    LogEndReached before the end     the log may have got shorter   ask for the log's range, again and again
    PartitionFailed: not in the log  records may be gone            ask for the log's range at once
    PartitionFailed: no partition    the topic may be gone          ask whether it exists, again and again
    OtherTopic                       the topic was recreated        stop, ask whether it exists
    PartitionFailed: truncated       what was read is void          fail (KIP-320)
    PartitionFailed: no permission   -                              fail
    PartitionFailed: other           -                              fetch again; corrupt data three times in a row: fail
    NothingFetched                   no progress for so long        ask what is due; past the poll timeout: give up

A loss is an answer that is the same for as long as a broker may lag (``suspected_loss``, KAFKA-7703).  With ``failOnDataLoss`` it ends the
query, else it is reported and the range goes on behind it.  Loss follows Spark's ``KafkaDataConsumer``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from sparkcohort.runtime.batches.suspected_loss import SuspectedLosses
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition

RECHECK_S: Final = 1.0
"""Between two questions about one partition; Spark's driver asks as often before it believes that a log got shorter."""
MOST_CORRUPT: Final = 3
"""How often in a row data may be corrupt.

Behind a wrong checksum librdkafka takes the next bytes for a batch, fetches where that leads, and reports that the offset isn't in the
log, once more after the next assignment: all of it is the same damage.
"""
DATA_LOSS: Final = "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"


class FetchError(CohortError):
    """A range could not be read; the message names topic, partition, offsets and what to do."""


class DataLossError(FetchError):
    """Records of a range are gone and ``failOnDataLoss`` is true; ``error`` is Spark's condition name."""


class LogQuestion(Enum):
    """What the cluster is asked about a partition."""

    POSITION = "the range of its log, which doesn't have the position"
    LOG_END = "the range of its log, which ended before the range does"
    OPEN_TRANSACTION = "whether the records up to the range's end wait for a transaction"
    EXISTENCE = "whether it exists, and the id of its topic"


class FailureKind(Enum):
    """Kinds of a partition's errors."""

    POSITION_LOST = "the position is not in the log"
    TRUNCATED = "the log was cut before the position (KIP-320)"
    NO_SUCH_PARTITION = "the client or the broker knows no such partition"
    NO_PERMISSION = "READ on the topic is not granted"
    CORRUPT = "the data can't be unpacked"
    OTHER = "anything else: fetching again may help"


class RecordsFetched(NamedTuple):
    """Records came; ``next_offset`` follows the last one, which may lie behind the range's end."""

    next_offset: int


class LogEndReached(NamedTuple):
    """The leader has nothing visible before ``offset``, the end of its log just now."""

    offset: int


class OtherTopic(NamedTuple):
    """The records are of a topic with another id: it was recreated (KIP-516)."""


class PartitionFailed(NamedTuple):
    """The client gave an error for the partition, and fetches it no more until it is assigned again."""

    failure: FailureKind
    name: str  # Kafka's name of the error
    text: str


class NothingFetched(NamedTuple):
    """A poll brought nothing for any range."""


class PartitionDoubted(NamedTuple):
    """The client complained of a partition that doesn't exist, without saying which."""


class LogRangeAnswer(NamedTuple):
    """The answer to POSITION and LOG_END."""

    question: LogQuestion
    first: int
    end: int


class TransactionAnswer(NamedTuple):
    """The answer to OPEN_TRANSACTION."""

    is_open: bool


class ExistenceAnswer(NamedTuple):
    """The answer to EXISTENCE; ``topic_id`` is empty where no broker knows the topic."""

    exists: bool
    topic_id: str


class UnansweredQuestion(NamedTuple):
    """No broker answered the question."""

    question: LogQuestion
    reason: str


Event: TypeAlias = (
    RecordsFetched
    | LogEndReached
    | OtherTopic
    | PartitionFailed
    | PartitionDoubted
    | NothingFetched
    | LogRangeAnswer
    | TransactionAnswer
    | ExistenceAnswer
    | UnansweredQuestion
)


class FetchFrom(NamedTuple):
    """Fetch from ``position`` on; what the last poll brought of the partition belongs to its past."""

    position: int


class StopFetching(NamedTuple):
    """Fetch the partition no more."""


class AskCluster(NamedTuple):
    """Ask the cluster, and give the answer as the next event."""

    question: LogQuestion


class PauseFetching(NamedTuple):
    """Wait for a moment: errors in a row come at most ten times a second."""


class DeliverRecords(NamedTuple):
    """Hand out what the event brought; the new position goes with it."""


class ReportLoss(NamedTuple):
    """Records are gone and ``failOnDataLoss`` is false: ``message`` is for the user."""

    message: str


class ReportRecreated(NamedTuple):
    """The topic was deleted and created again while the query read it."""


class FailRange(NamedTuple):
    """The range can't be read."""

    error: FetchError


class GiveUpRange(NamedTuple):
    """There was no progress for longer than the poll timeout: the reader knows what else was wrong."""


Action: TypeAlias = (
    FetchFrom
    | StopFetching
    | AskCluster
    | PauseFetching
    | DeliverRecords
    | ReportLoss
    | ReportRecreated
    | FailRange
    | GiveUpRange
)


class RangeRules(NamedTuple):
    """What a step may depend on beside the range: options, and the id that the range's topic has to have."""

    fail_on_data_loss: bool
    patience_s: float  # kafkaConsumer.pollTimeoutMs, or less where a login was refused
    topic_id: str = ""  # empty: not known
    topic_was_recreated: bool = False


@dataclass(frozen=True, slots=True)
class RangeProgress:
    """Where one range stands."""

    range: Range
    position: int  # range.start <= position <= range.end; never moves back
    idle_since_s: float  # the reader's idle clock at the last progress
    question: LogQuestion | None = None  # what is open: LOG_END, EXISTENCE, or nothing
    ask_at: float = 0.0  # when it is asked next; only where a question is open
    log_end: int = 0  # as the leader said last; only where LOG_END is open
    answers: int = 0  # to questions about this range, so that none is counted twice
    stopped: bool = False  # the client fetches nothing until it is assigned again
    failures: int = 0  # errors in a row without progress
    error: str = ""  # why no progress is made, as far as it is known
    corrupt: str = ""  # what is wrong with the data at the position, if that was among the errors
    doubts: SuspectedLosses[TopicPartition] = field(default_factory=SuspectedLosses)

    @property
    def is_done(self) -> bool:
        """Whether the range has been read to its end."""
        return self.position == self.range.end


class RangeStep(NamedTuple):
    """The range after an event, and what the reader does, in this order."""

    progress: RangeProgress
    actions: tuple[Action, ...] = ()


def begin(unread: Range, rules: RangeRules, now: float, idle_s: float) -> RangeStep:
    """Start a range that is not empty."""
    progress = RangeProgress(unread, unread.start, idle_s)
    if rules.topic_was_recreated:  # its offsets are those of the topic before: nothing is fetched until that is certain
        return RangeStep(_open(progress, LogQuestion.EXISTENCE, now))
    return RangeStep(progress, (FetchFrom(unread.start),))


def step(progress: RangeProgress, event: Event, rules: RangeRules, now: float, idle_s: float) -> RangeStep:
    """The range after an event.

    ``now`` and ``idle_s`` are the reader's clock, and its clock of the time spent waiting in vain, in seconds.
    """
    match event:
        case RecordsFetched(next_offset):
            return _advance(progress, next_offset, idle_s)
        case LogEndReached(offset):
            return _meet_end(progress, offset, now, idle_s)
        case OtherTopic():
            return RangeStep(_open(progress, LogQuestion.EXISTENCE, now), (StopFetching(),))
        case PartitionDoubted():
            # A range that has begun has a partition.
            is_meant = progress.position == progress.range.start and progress.question is None
            return RangeStep(_open(progress, LogQuestion.EXISTENCE, now) if is_meant else progress)
        case PartitionFailed():
            return _recover(progress, event, rules, now, idle_s)
        case NothingFetched():
            if progress.question is None:
                return _wait(progress, rules, idle_s)
            return RangeStep(progress, (AskCluster(progress.question),) if progress.ask_at <= now else ())
        case LogRangeAnswer(LogQuestion.POSITION, first, end):
            return _relocate(progress, first, end, rules, now, idle_s)
        case LogRangeAnswer(_, _, end):
            return _check_end(progress, end, rules, now, idle_s)
        case TransactionAnswer(is_open):
            return _check_transaction(progress, rules, now, idle_s, is_open=is_open)
        case ExistenceAnswer(exists, topic_id):
            return _check_existence(progress, topic_id if exists else None, rules, now, idle_s)
        case UnansweredQuestion(question, reason):
            progress = replace(progress, error=progress.error or reason)  # a late answer hides no reason
            if question is LogQuestion.POSITION:  # nothing is known to be gone
                return _restart(progress, rules, idle_s)
            return _wait(replace(progress, ask_at=now + RECHECK_S), rules, idle_s)


def where(progress: RangeProgress) -> str:
    """The range, for messages."""
    unread = progress.range
    return f"topic {unread.topic} partition {unread.partition} offsets [{unread.start}, {unread.end})"


def _advance(progress: RangeProgress, next_offset: int, idle_s: float) -> RangeStep:
    """Move forward: every error and doubt was about the position before."""
    position = min(max(next_offset, progress.position), progress.range.end)
    progress = replace(_calm(progress), position=position, idle_since_s=idle_s, failures=0, error="", corrupt="")
    # Fetching stops before the last piece is handed out: the caller may take its time.
    return RangeStep(progress, (StopFetching(), DeliverRecords()) if progress.is_done else (DeliverRecords(),))


def _calm(progress: RangeProgress) -> RangeProgress:
    """There is nothing to ask."""
    return replace(progress, question=None, doubts=SuspectedLosses())


def _open(progress: RangeProgress, question: LogQuestion, now: float) -> RangeProgress:
    """Ask from now on; a question that is open already says when."""
    return replace(progress, question=question, ask_at=now if progress.question is None else progress.ask_at)


def _meet_end(progress: RangeProgress, offset: int, now: float, idle_s: float) -> RangeStep:
    advance = _advance(progress, offset, idle_s) if offset > progress.position else RangeStep(progress)
    if offset >= progress.range.end or advance.progress.question is not None:
        return advance
    return RangeStep(_open(advance.progress, LogQuestion.LOG_END, now), advance.actions)


def _recover(
    progress: RangeProgress, error: PartitionFailed, rules: RangeRules, now: float, idle_s: float
) -> RangeStep:
    """Go on where records are, or fail with what is for the user to solve."""
    corrupt = error.text if error.failure is FailureKind.CORRUPT else progress.corrupt
    failures = progress.failures + 1
    progress = replace(progress, error=f"{error.name}: {error.text}", corrupt=corrupt, failures=failures, stopped=True)
    match error.failure:
        case FailureKind.POSITION_LOST:
            return RangeStep(progress, (AskCluster(LogQuestion.POSITION),))
        case FailureKind.NO_SUCH_PARTITION:
            return RangeStep(_open(progress, LogQuestion.EXISTENCE, now))
        case FailureKind.TRUNCATED:  # KIP-320; a replay reads one log only
            message = (
                f"{where(progress)}: the log was cut before offset {progress.position} while it was read, as after an unclean "
                "leader election; what was read of it is void, and is to be read again"
            )
            return RangeStep(progress, (FailRange(FetchError(message, error.name)),))
        case FailureKind.NO_PERMISSION:
            message = f"no permission to read topic {progress.range.topic}: grant READ on it to this user"
            return RangeStep(progress, (FailRange(FetchError(message, error.name)),))
        case _:
            return _restart(progress, rules, idle_s)


def _restart(progress: RangeProgress, rules: RangeRules, idle_s: float) -> RangeStep:
    """Fetch from the position again."""
    if progress.corrupt and progress.failures >= MOST_CORRUPT:
        message = (
            f"corrupt data in {where(progress)}, at offset {progress.position}: {progress.corrupt}. The leader's copy is "
            "damaged: another replica may be whole (make it the leader); to go on without these records start a new query "
            "behind them"
        )
        return RangeStep(progress, (FailRange(FetchError(message, "CORRUPT_MESSAGE")),))
    pause: tuple[Action, ...] = (PauseFetching(),) if progress.failures > 1 else ()
    if _is_overdue(progress, rules, idle_s):
        return RangeStep(progress, (*pause, GiveUpRange()))
    return RangeStep(replace(progress, stopped=False), (*pause, FetchFrom(progress.position)))


def _wait(progress: RangeProgress, rules: RangeRules, idle_s: float) -> RangeStep:
    return RangeStep(progress, (GiveUpRange(),) if _is_overdue(progress, rules, idle_s) else ())


def _is_overdue(progress: RangeProgress, rules: RangeRules, idle_s: float) -> bool:
    return idle_s - progress.idle_since_s >= rules.patience_s


def _relocate(progress: RangeProgress, first: int, end: int, rules: RangeRules, now: float, idle_s: float) -> RangeStep:
    """The position is not in the log: go to the first record of the range that is still there."""
    if progress.position < first:
        return _lose(progress, min(first, progress.range.end), f"the log starts at {first}", rules, idle_s)
    if progress.position > end:  # fetching would only repeat the error
        return RangeStep(_open(progress, LogQuestion.LOG_END, now))
    return _restart(progress, rules, idle_s)  # a replica that lagged: nothing is known to be gone


def _check_end(progress: RangeProgress, end: int, rules: RangeRules, now: float, idle_s: float) -> RangeStep:
    """The leader said that its log ends before the range does."""
    progress = replace(progress, ask_at=now + RECHECK_S, log_end=end)
    if end <= progress.position:
        return RangeStep(progress, (AskCluster(LogQuestion.OPEN_TRANSACTION),))
    # The leader has caught up, or the log has grown: read as far as it goes.
    progress = _calm(progress)
    return _restart(progress, rules, idle_s) if progress.stopped else RangeStep(progress)


def _check_transaction(
    progress: RangeProgress, rules: RangeRules, now: float, idle_s: float, *, is_open: bool
) -> RangeStep:
    """Records behind the last stable offset exist: nothing is lost."""
    if is_open:
        reason = f"a transaction is open at offset {progress.log_end}, and isolation.level is read_committed"
        return _wait(replace(progress, error=reason), rules, idle_s)
    progress, is_certain = _count_answer(progress, now)
    if is_certain:
        return _lose(progress, progress.range.end, f"the log ends at {progress.log_end}", rules, idle_s)
    return RangeStep(progress)


def _check_existence(
    progress: RangeProgress, topic_id: str | None, rules: RangeRules, now: float, idle_s: float
) -> RangeStep:
    """``topic_id``: None where there is no such partition, "" where the id isn't known.  A broker's metadata can be stale for a moment."""
    progress = replace(progress, ask_at=now + RECHECK_S)
    is_there = topic_id is not None and bool(topic_id or not rules.topic_id)
    if is_there and topic_id == rules.topic_id:
        return _restart(_calm(progress), rules, idle_s)
    progress, is_certain = _count_answer(progress, now)
    if not is_certain:
        return RangeStep(progress)
    if is_there:
        reason = f"the topic was deleted and created anew: its id was {rules.topic_id} and is {topic_id} now"
        loss = _lose(progress, progress.range.end, reason, rules, idle_s)
        return RangeStep(loss.progress, (ReportRecreated(), *loss.actions))
    if rules.fail_on_data_loss:
        message = (
            f"{where(progress)} can't be read: the cluster has no such partition (any more); create the topic, or set "
            "failOnDataLoss to false to go on without it"
        )
        return RangeStep(progress, (FailRange(FetchError(message, "UNKNOWN_TOPIC_OR_PARTITION")),))
    return _lose(progress, progress.range.end, "the partition is gone", rules, idle_s)


def _count_answer(progress: RangeProgress, now: float) -> tuple[RangeProgress, bool]:
    """The range after one more answer that speaks of a loss, and whether there is no doubt left."""
    answers = progress.answers + 1
    doubts = progress.doubts.add_answer({progress.range.tp}, answers, now)
    return replace(progress, answers=answers, doubts=doubts), bool(doubts.believed(now))


def _lose(progress: RangeProgress, end: int, reason: str, rules: RangeRules, idle_s: float) -> RangeStep:
    """Records in [position, end) are lost: fail, or report it and go on behind them."""
    message = f"Could not read records in offset [{progress.position}, {end}) of {where(progress)}: {reason}"
    if rules.fail_on_data_loss:
        hint = "Records aged out or the topic was recreated; set failOnDataLoss to false to go on without them."
        return RangeStep(progress, (FailRange(DataLossError(f"[{DATA_LOSS}] {message}. {hint}", DATA_LOSS)),))
    advance = _advance(replace(progress, stopped=False), end, idle_s)
    fetch: tuple[Action, ...] = () if advance.progress.is_done else (FetchFrom(end),)
    return RangeStep(advance.progress, (ReportLoss(message), *fetch, *advance.actions))
