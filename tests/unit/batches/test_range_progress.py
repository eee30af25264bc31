"""The machine of one range: its table, and the laws that hold whatever comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.batches import range_progress, suspected_loss
from sparkcohort.runtime.batches.range_progress import (
    Action,
    AskCluster,
    DataLossError,
    DeliverRecords,
    Event,
    ExistenceAnswer,
    FailRange,
    FailureKind,
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
    RecordsFetched,
    ReportLoss,
    ReportRecreated,
    StopFetching,
    TransactionAnswer,
    UnansweredQuestion,
)
from sparkcohort.runtime.protocol.partitions import Range

RANGE = Range("t", 0, 10, 20)
STRICT = RangeRules(fail_on_data_loss=True, patience_s=60.0, topic_id="id-1")
LENIENT = STRICT._replace(fail_on_data_loss=False)
LAG_S, RECHECK_S = suspected_loss.LAG_S, range_progress.RECHECK_S


def run(
    *events: Event, rules: RangeRules = STRICT, every_s: float = 1.0
) -> tuple[RangeProgress, list[tuple[Action, ...]]]:
    """The range after these events, one a second, and what was done at each; the idle clock stands still."""
    progress, steps = range_progress.begin(RANGE, rules, 0.0, 0.0).progress, []
    for number, event in enumerate(events, 1):
        progress, actions = range_progress.step(progress, event, rules, number * every_s, 0.0)
        steps.append(actions)
    return progress, steps


def failed(failure: FailureKind) -> PartitionFailed:
    """An error of this kind."""
    return PartitionFailed(failure, "NAME", "its text")


def messages(actions: tuple[Action, ...]) -> list[str]:
    """What the user is told."""
    return [
        str(each.error if isinstance(each, FailRange) else each.message)
        for each in actions
        if isinstance(each, FailRange | ReportLoss)
    ]


def test_a_range_begins_by_fetching_its_start() -> None:
    """But one of a recreated topic first asks whether it exists."""
    assert range_progress.begin(RANGE, STRICT, 5.0, 1.0).actions == (FetchFrom(10),)
    recreated = range_progress.begin(RANGE, STRICT._replace(topic_was_recreated=True), 5.0, 1.0)
    assert (recreated.actions, recreated.progress.question, recreated.progress.ask_at) == (
        (),
        LogQuestion.EXISTENCE,
        5.0,
    )


@pytest.mark.parametrize(
    ("event", "actions", "question"),
    [
        (RecordsFetched(15), (DeliverRecords(),), None),
        (RecordsFetched(20), (StopFetching(), DeliverRecords()), None),
        (RecordsFetched(99), (StopFetching(), DeliverRecords()), None),  # a record behind the end: the range is read
        (LogEndReached(20), (StopFetching(), DeliverRecords()), None),
        (LogEndReached(15), (DeliverRecords(),), LogQuestion.LOG_END),
        (LogEndReached(10), (), LogQuestion.LOG_END),
        (OtherTopic(), (StopFetching(),), LogQuestion.EXISTENCE),
        (PartitionDoubted(), (), LogQuestion.EXISTENCE),
        (failed(FailureKind.POSITION_LOST), (AskCluster(LogQuestion.POSITION),), None),
        (failed(FailureKind.NO_SUCH_PARTITION), (), LogQuestion.EXISTENCE),
        (failed(FailureKind.OTHER), (FetchFrom(10),), None),
        (failed(FailureKind.CORRUPT), (FetchFrom(10),), None),
        (NothingFetched(), (), None),
    ],
)
def test_the_table(event: Event, actions: tuple[Action, ...], question: LogQuestion | None) -> None:
    """What a range that was just begun makes of each event."""
    progress, steps = run(event)
    assert (steps[-1], progress.question) == (actions, question)


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (FailureKind.TRUNCATED, "the log was cut before offset 10"),
        (FailureKind.NO_PERMISSION, "grant READ"),
    ],
)
def test_errors_that_are_for_the_user(failure: FailureKind, text: str) -> None:
    """At once, and in words."""
    _, ((action,),) = run(failed(failure))
    assert isinstance(action, FailRange)
    assert text in str(action.error)


def test_a_log_that_starts_behind_the_position() -> None:
    """A loss, with Spark's condition; or a sentence, and on from the first record that is there."""
    events = failed(FailureKind.POSITION_LOST), LogRangeAnswer(LogQuestion.POSITION, 14, 40)
    _, steps = run(*events)
    (action,) = steps[-1]
    assert isinstance(action, FailRange)
    assert isinstance(action.error, DataLossError)
    assert "offset [10, 14)" in str(action.error)
    progress, steps = run(*events, rules=LENIENT)
    assert [type(each) for each in steps[-1]] == [ReportLoss, FetchFrom, DeliverRecords]
    assert (progress.position, progress.stopped) == (14, False)


def test_a_replica_that_lags_has_lost_nothing() -> None:
    """The position is in the log after all, or behind an end that may grow, or nobody answers."""
    lost = failed(FailureKind.POSITION_LOST)
    assert run(lost, LogRangeAnswer(LogQuestion.POSITION, 0, 40))[1][-1] == (FetchFrom(10),)
    assert run(lost, UnansweredQuestion(LogQuestion.POSITION, "no broker"))[1][-1] == (FetchFrom(10),)
    progress, steps = run(lost, LogRangeAnswer(LogQuestion.POSITION, 0, 5))
    assert (steps[-1], progress.question) == ((), LogQuestion.LOG_END)


def shorter(end: int = 10) -> tuple[Event, ...]:
    """One round of questions about a log that ends there, without a transaction."""
    return NothingFetched(), LogRangeAnswer(LogQuestion.LOG_END, 0, end), TransactionAnswer(is_open=False)


def test_a_log_that_got_shorter_is_believed_when_no_broker_can_lag() -> None:
    """Not sooner, however often it is said; a transaction or records that come are no loss."""
    _, steps = run(LogEndReached(10), *shorter() * 2, rules=LENIENT, every_s=LAG_S / 100)
    assert messages(sum(steps, ())) == []
    _, steps = run(LogEndReached(10), *shorter() * 4, rules=LENIENT, every_s=LAG_S)
    assert messages(sum(steps, ()))[0].endswith("the log ends at 10")
    held = NothingFetched(), LogRangeAnswer(LogQuestion.LOG_END, 0, 10), TransactionAnswer(is_open=True)
    progress, steps = run(LogEndReached(10), *held * 9, rules=LENIENT, every_s=LAG_S)
    assert messages(sum(steps, ())) == []
    assert "a transaction is open at offset 10" in progress.error
    progress, _ = run(
        LogEndReached(10), *shorter() * 2, NothingFetched(), LogRangeAnswer(LogQuestion.LOG_END, 0, 12), every_s=LAG_S
    )
    assert progress.question is None


def gone(existence: ExistenceAnswer) -> tuple[Event, ...]:
    """Enough answers to be believed."""
    return (failed(FailureKind.NO_SUCH_PARTITION), *(NothingFetched(), existence) * 4)


def test_a_partition_that_is_gone() -> None:
    """An error that names the option; or a loss up to the range's end."""
    _, steps = run(*gone(ExistenceAnswer(exists=False, topic_id="")), every_s=LAG_S)
    assert "set failOnDataLoss to false" in messages(sum(steps, ()))[0]
    progress, steps = run(*gone(ExistenceAnswer(exists=False, topic_id=""))[:7], rules=LENIENT, every_s=LAG_S)
    assert messages(sum(steps, ()))[0].endswith("the partition is gone")
    assert progress.is_done


def test_a_recreated_topic_is_a_loss_and_is_told() -> None:
    """Its offsets are those of another log; the same id again is a metadata that was stale."""
    _, steps = run(
        OtherTopic(), *gone(ExistenceAnswer(exists=True, topic_id="id-2"))[1:7], rules=LENIENT, every_s=LAG_S
    )
    assert ReportRecreated() in sum(steps, ())
    progress, steps = run(OtherTopic(), NothingFetched(), ExistenceAnswer(exists=True, topic_id="id-1"))
    assert (steps[-1], progress.question) == ((FetchFrom(10),), None)


def test_corrupt_data_is_an_error_at_the_third_time_in_a_row() -> None:
    """With a pause between; a record that comes meanwhile begins the count again."""
    corrupt = failed(FailureKind.CORRUPT)
    _, steps = run(corrupt, corrupt, corrupt)
    assert steps[1] == (PauseFetching(), FetchFrom(10))
    assert "corrupt data in topic t partition 0" in messages(steps[2])[0]
    assert messages(sum(run(corrupt, corrupt, RecordsFetched(11), corrupt, corrupt)[1], ())) == []


def test_a_range_without_progress_is_given_up_after_the_poll_timeout() -> None:
    """Counted from the last progress on the reader's idle clock; questions without an answer wait no longer than that."""
    progress = range_progress.begin(RANGE, STRICT, 0.0, 5.0).progress
    for event in (NothingFetched(), UnansweredQuestion(LogQuestion.EXISTENCE, "no broker"), failed(FailureKind.OTHER)):
        assert GiveUpRange() not in range_progress.step(progress, event, STRICT, 70.0, 64.9).actions
        assert GiveUpRange() in range_progress.step(progress, event, STRICT, 70.0, 65.0).actions


EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(RecordsFetched, st.integers(0, 30)),
    st.builds(LogEndReached, st.integers(0, 30)),
    st.just(OtherTopic()),
    st.just(PartitionDoubted()),
    st.builds(failed, st.sampled_from(FailureKind)),
    st.just(NothingFetched()),
    st.builds(
        LogRangeAnswer,
        st.sampled_from([LogQuestion.POSITION, LogQuestion.LOG_END]),
        st.integers(0, 30),
        st.integers(0, 30),
    ),
    st.builds(TransactionAnswer, st.booleans()),
    st.builds(ExistenceAnswer, st.booleans(), st.sampled_from(["", "id-1", "id-2"])),
    st.builds(UnansweredQuestion, st.sampled_from(LogQuestion), st.just("no broker")),
)


@given(st.lists(st.tuples(EVENTS, st.floats(0, 10), st.floats(0, 10))), st.sampled_from([STRICT, LENIENT]))
def test_laws(drawn: list[tuple[Event, float, float]], rules: RangeRules) -> None:
    """Any event at any time is answered; the position stays in the range and never moves back; nothing is skipped without a word."""
    result, now, idle_s = range_progress.begin(RANGE, rules, 0.0, 0.0), 0.0, 0.0
    for event, seconds, idle in drawn:
        before, now, idle_s = result.progress, now + seconds, idle_s + idle
        result = range_progress.step(before, event, rules, now, idle_s)
        after, kinds = result.progress, [type(each) for each in result.actions]
        assert before.position <= after.position <= RANGE.end
        if after.position > before.position and not isinstance(event, RecordsFetched | LogEndReached):
            assert ReportLoss in kinds
        assert (DeliverRecords in kinds) == (after.position > before.position or isinstance(event, RecordsFetched))
        if after.is_done:
            assert kinds[-2:] == [StopFetching, DeliverRecords]
            break
        if FailRange in kinds or GiveUpRange in kinds:
            break
