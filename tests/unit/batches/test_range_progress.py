"""The machine of one range: its table, and the laws that hold whatever comes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.batches import range_progress, suspected_loss
from sparkcohort.runtime.batches.range_progress import (
    Action,
    Ask,
    DataLossError,
    Deliver,
    Ended,
    Event,
    Existence,
    Fail,
    Failed,
    Failure,
    Fetch,
    Fetched,
    GiveUp,
    Idle,
    LogRange,
    NoAnswer,
    OpenTransaction,
    OtherTopic,
    Pause,
    Question,
    RangeProgress,
    ReportLoss,
    ReportRecreated,
    Rules,
    Step,
    StopFetching,
    Suspected,
)
from sparkcohort.runtime.protocol.partitions import Range

RANGE = Range("t", 0, 10, 20)
STRICT = Rules(fail_on_data_loss=True, patience_s=60.0, topic_id="id-1")
LENIENT = STRICT._replace(fail_on_data_loss=False)
LAG_S, RECHECK_S = suspected_loss.LAG_S, range_progress.RECHECK_S


def run(*events: Event, rules: Rules = STRICT, every_s: float = 1.0) -> tuple[RangeProgress, list[tuple[Action, ...]]]:
    """The range after these events, one a second, and what was done at each; the idle clock stands still."""
    progress, steps = range_progress.begin(RANGE, rules, 0.0, 0.0).progress, []
    for number, event in enumerate(events, 1):
        progress, actions = range_progress.step(progress, event, rules, number * every_s, 0.0)
        steps.append(actions)
    return progress, steps


def failed(failure: Failure) -> Failed:
    """An error of this kind."""
    return Failed(failure, "NAME", "its text")


def messages(actions: tuple[Action, ...]) -> list[str]:
    """What the user is told."""
    return [
        str(each.error if isinstance(each, Fail) else each.message)
        for each in actions
        if isinstance(each, Fail | ReportLoss)
    ]


def test_a_range_begins_by_fetching_its_start() -> None:
    """But one of a recreated topic first asks whether it exists."""
    assert range_progress.begin(RANGE, STRICT, 5.0, 1.0).actions == (Fetch(10),)
    recreated = range_progress.begin(RANGE, STRICT._replace(topic_was_recreated=True), 5.0, 1.0)
    assert (recreated.actions, recreated.progress.question, recreated.progress.ask_at) == ((), Question.EXISTENCE, 5.0)


@pytest.mark.parametrize(
    ("event", "actions", "question"),
    [
        (Fetched(15), (Deliver(),), None),
        (Fetched(20), (StopFetching(), Deliver()), None),
        (Fetched(99), (StopFetching(), Deliver()), None),  # a record behind the end: the range is read
        (Ended(20), (StopFetching(), Deliver()), None),
        (Ended(15), (Deliver(),), Question.LOG_END),
        (Ended(10), (), Question.LOG_END),
        (OtherTopic(), (StopFetching(),), Question.EXISTENCE),
        (Suspected(), (), Question.EXISTENCE),
        (failed(Failure.POSITION_LOST), (Ask(Question.POSITION),), None),
        (failed(Failure.NO_SUCH_PARTITION), (), Question.EXISTENCE),
        (failed(Failure.OTHER), (Fetch(10),), None),
        (failed(Failure.CORRUPT), (Fetch(10),), None),
        (Idle(), (), None),
    ],
)
def test_the_table(event: Event, actions: tuple[Action, ...], question: Question | None) -> None:
    """What a range that was just begun makes of each event."""
    progress, steps = run(event)
    assert (steps[-1], progress.question) == (actions, question)


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (Failure.TRUNCATED, "the log was cut before offset 10"),
        (Failure.NO_PERMISSION, "grant READ"),
        (Failure.LOGIN_REFUSED, "its text"),
    ],
)
def test_errors_that_are_for_the_user(failure: Failure, text: str) -> None:
    """At once, and in words."""
    _, ((action,),) = run(failed(failure))
    assert isinstance(action, Fail)
    assert text in str(action.error)


def test_a_log_that_starts_behind_the_position() -> None:
    """A loss, with Spark's condition; or a sentence, and on from the first record that is there."""
    events = failed(Failure.POSITION_LOST), LogRange(Question.POSITION, 14, 40)
    _, steps = run(*events)
    (action,) = steps[-1]
    assert isinstance(action, Fail)
    assert isinstance(action.error, DataLossError)
    assert "offset [10, 14)" in str(action.error)
    progress, steps = run(*events, rules=LENIENT)
    assert [type(each) for each in steps[-1]] == [ReportLoss, Fetch, Deliver]
    assert (progress.position, progress.stopped) == (14, False)


def test_a_replica_that_lags_has_lost_nothing() -> None:
    """The position is in the log after all, or behind an end that may grow, or nobody answers."""
    lost = failed(Failure.POSITION_LOST)
    assert run(lost, LogRange(Question.POSITION, 0, 40))[1][-1] == (Fetch(10),)
    assert run(lost, NoAnswer(Question.POSITION, "no broker"))[1][-1] == (Fetch(10),)
    progress, steps = run(lost, LogRange(Question.POSITION, 0, 5))
    assert (steps[-1], progress.question) == ((), Question.LOG_END)


def shorter(end: int = 10) -> tuple[Event, ...]:
    """One round of questions about a log that ends there, without a transaction."""
    return Idle(), LogRange(Question.LOG_END, 0, end), OpenTransaction(is_open=False)


def test_a_log_that_got_shorter_is_believed_when_no_broker_can_lag() -> None:
    """Not sooner, however often it is said; a transaction or records that come are no loss."""
    _, steps = run(Ended(10), *shorter() * 2, rules=LENIENT, every_s=LAG_S / 100)
    assert messages(sum(steps, ())) == []
    _, steps = run(Ended(10), *shorter() * 4, rules=LENIENT, every_s=LAG_S)
    assert messages(sum(steps, ()))[0].endswith("the log ends at 10")
    held = Idle(), LogRange(Question.LOG_END, 0, 10), OpenTransaction(is_open=True)
    progress, steps = run(Ended(10), *held * 9, rules=LENIENT, every_s=LAG_S)
    assert messages(sum(steps, ())) == []
    assert "a transaction is open at offset 10" in progress.error
    progress, _ = run(Ended(10), *shorter() * 2, Idle(), LogRange(Question.LOG_END, 0, 12), every_s=LAG_S)
    assert progress.question is None


def gone(existence: Existence) -> tuple[Event, ...]:
    """Enough answers to be believed."""
    return (failed(Failure.NO_SUCH_PARTITION), *(Idle(), existence) * 4)


def test_a_partition_that_is_gone() -> None:
    """An error that names the option; or a loss up to the range's end."""
    _, steps = run(*gone(Existence(exists=False, topic_id="")), every_s=LAG_S)
    assert "set failOnDataLoss to false" in messages(sum(steps, ()))[0]
    progress, steps = run(*gone(Existence(exists=False, topic_id=""))[:7], rules=LENIENT, every_s=LAG_S)
    assert messages(sum(steps, ()))[0].endswith("the partition is gone")
    assert progress.is_done


def test_a_recreated_topic_is_a_loss_and_is_told() -> None:
    """Its offsets are those of another log; the same id again is a metadata that was stale."""
    _, steps = run(OtherTopic(), *gone(Existence(exists=True, topic_id="id-2"))[1:7], rules=LENIENT, every_s=LAG_S)
    assert ReportRecreated() in sum(steps, ())
    progress, steps = run(OtherTopic(), Idle(), Existence(exists=True, topic_id="id-1"))
    assert (steps[-1], progress.question) == ((Fetch(10),), None)


def test_corrupt_data_is_an_error_at_the_third_time_in_a_row() -> None:
    """With a pause between; a record that comes meanwhile begins the count again."""
    corrupt = failed(Failure.CORRUPT)
    _, steps = run(corrupt, corrupt, corrupt)
    assert steps[1] == (Pause(), Fetch(10))
    assert "corrupt data in topic t partition 0" in messages(steps[2])[0]
    assert messages(sum(run(corrupt, corrupt, Fetched(11), corrupt, corrupt)[1], ())) == []


def test_a_range_without_progress_is_given_up_after_the_poll_timeout() -> None:
    """Counted from the last progress on the reader's idle clock; questions without an answer wait no longer than that."""
    progress = range_progress.begin(RANGE, STRICT, 0.0, 5.0).progress
    for event in (Idle(), NoAnswer(Question.EXISTENCE, "no broker"), failed(Failure.OTHER)):
        assert GiveUp() not in range_progress.step(progress, event, STRICT, 70.0, 64.9).actions
        assert GiveUp() in range_progress.step(progress, event, STRICT, 70.0, 65.0).actions


EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(Fetched, st.integers(0, 30)),
    st.builds(Ended, st.integers(0, 30)),
    st.just(OtherTopic()),
    st.just(Suspected()),
    st.builds(failed, st.sampled_from(Failure)),
    st.just(Idle()),
    st.builds(LogRange, st.sampled_from([Question.POSITION, Question.LOG_END]), st.integers(0, 30), st.integers(0, 30)),
    st.builds(OpenTransaction, st.booleans()),
    st.builds(Existence, st.booleans(), st.sampled_from(["", "id-1", "id-2"])),
    st.builds(NoAnswer, st.sampled_from(Question), st.just("no broker")),
)


@given(st.lists(st.tuples(EVENTS, st.floats(0, 10), st.floats(0, 10))), st.sampled_from([STRICT, LENIENT]))
def test_laws(drawn: list[tuple[Event, float, float]], rules: Rules) -> None:
    """Any event at any time is answered; the position stays in the range and never moves back; nothing is skipped without a word."""
    result, now, idle_s = range_progress.begin(RANGE, rules, 0.0, 0.0), 0.0, 0.0
    for event, seconds, idle in drawn:
        before, now, idle_s = result.progress, now + seconds, idle_s + idle
        result = range_progress.step(before, event, rules, now, idle_s)
        after, kinds = result.progress, [type(each) for each in result.actions]
        assert before.position <= after.position <= RANGE.end
        if after.position > before.position and not isinstance(event, Fetched | Ended):
            assert ReportLoss in kinds
        assert (Deliver in kinds) == (after.position > before.position or isinstance(event, Fetched))
        if after.is_done:
            assert kinds[-2:] == [StopFetching, Deliver]
            break
        if Fail in kinds or GiveUp in kinds:
            break


def test_a_step_is_a_value() -> None:
    """States can be kept and compared: the same event gives the same step again."""
    progress: Any = range_progress.begin(RANGE, STRICT, 0.0, 0.0).progress
    steps = {range_progress.step(progress, Ended(15), STRICT, 1.0, 0.0).actions for _ in range(2)}
    assert steps == {Step(progress, (Deliver(),)).actions}
    with pytest.raises(AttributeError):
        progress.position = 15
