"""The two machines of a hand-over: every (state, event), and drawn runs of two drivers that may die anywhere."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from sparkcohort.runtime.kafka import handover as h
from sparkcohort.runtime.kafka.handover import AskingSide, AskingState, HandoverAnswer, RunningSide, RunningState
from sparkcohort.runtime.kafka.run_epoch import NOTHING, CommitMetadata
from tests.simulator.handover import play

RUN = CommitMetadata(7, 7000, "seven")
TO = h.RunName(7, "seven")
ASK = h.HandoverRecord(HandoverAnswer.ASKED, "me", TO, "host")
HEARD = replace(ASK, answer=HandoverAnswer.HEARD)
PARKED = replace(ASK, answer=HandoverAnswer.PARKED)
ASK_8 = replace(ASK, to=h.RunName(8, "eight"))
OTHER = replace(ASK, request="another")
FENCED = h.HandoverRecord(HandoverAnswer.FENCED, "six", TO, "old-host")


def looked(*records: h.HandoverRecord, newest: CommitMetadata = RUN, members: bool = True) -> h.Looked:
    """What Kafka has."""
    return h.Looked(newest, members, records)


def asking(state: AskingState = AskingState.ASKED) -> AskingSide:
    """One who asked run 7 at time 0, for a minute at most."""
    to = None if state is AskingState.LOOKING else TO
    return AskingSide("me", "host", 0, 60_000, state=state, to=to)


@pytest.mark.parametrize("answer", HandoverAnswer)
def test_records_are_read_back(answer: HandoverAnswer) -> None:
    """And whatever else stands there is nothing."""
    record = replace(ASK, answer=answer)
    assert h.decode_handover(h.encode_handover(record)) == record
    for text in (
        "",
        "{",
        "[]",
        "null",
        '{"handover":"asked"}',
        h.encode_handover(record).replace("7", '"7"'),
        "9" * 5000,
    ):
        assert h.decode_handover(text) is None


CASES = [
    (AskingState.LOOKING, looked(newest=NOTHING), AskingState.ABSENT, None),
    (AskingState.LOOKING, looked(), AskingState.ASKED, ASK),
    (AskingState.LOOKING, looked(OTHER), AskingState.ASKED, ASK),
    (AskingState.LOOKING, looked(replace(OTHER, answer=HandoverAnswer.PARKED)), AskingState.CLAIMING, PARKED),
    (AskingState.LOOKING, looked(replace(PARKED, request=h.FREE)), AskingState.GRANTED, None),
    (AskingState.CLAIMING, looked(PARKED), AskingState.CLAIMING, None),
    (AskingState.CLAIMING, looked(), AskingState.CLAIMING, PARKED),
    (AskingState.CLAIMING, looked(replace(OTHER, answer=HandoverAnswer.PARKED)), AskingState.OVERTAKEN, None),
    (AskingState.CLAIMING, looked(newest=CommitMetadata(8, 8000, "eight")), AskingState.ASKED, ASK_8),
    (
        AskingState.LOOKING,
        looked(replace(OTHER, answer=HandoverAnswer.PARKED, to=h.RunName(6, "six"))),
        AskingState.ASKED,
        ASK,
    ),
    (AskingState.LOOKING, looked(FENCED), AskingState.ASKED, ASK),
    (AskingState.ASKED, looked(FENCED), AskingState.ASKED, ASK),
    (AskingState.ASKED, looked(FENCED, ASK), AskingState.ASKED, None),
    (AskingState.HEARD, looked(FENCED, HEARD), AskingState.HEARD, None),
    (AskingState.ASKED, looked(), AskingState.ASKED, ASK),
    (AskingState.ASKED, looked(ASK), AskingState.ASKED, None),
    (AskingState.ASKED, looked(replace(ASK, answer=HandoverAnswer.HEARD)), AskingState.HEARD, None),
    (AskingState.ASKED, looked(replace(ASK, answer=HandoverAnswer.DECLINED)), AskingState.DECLINED, None),
    (AskingState.ASKED, looked(OTHER), AskingState.OVERTAKEN, None),
    (AskingState.HEARD, looked(replace(ASK, answer=HandoverAnswer.PARKED)), AskingState.GRANTED, None),
    (AskingState.HEARD, looked(replace(OTHER, answer=HandoverAnswer.PARKED)), AskingState.OVERTAKEN, None),
    (
        AskingState.HEARD,
        looked(ASK, newest=CommitMetadata(8, 8000, "eight")),
        AskingState.ASKED,
        ASK_8,
    ),
]


@pytest.mark.parametrize(("state", "event", "then", "written"), CASES)
def test_who_asks(state: AskingState, event: h.Looked, then: AskingState, written: h.HandoverRecord | None) -> None:
    """Each look in each state."""
    after, wrote = h.step_asking(asking(state), event, 1)
    assert (after.state, wrote and replace(wrote, text="host")) == (then, written)


def test_an_end_stays() -> None:
    """Whatever is seen after it."""
    events: tuple[h.Looked | h.LookFailed, ...] = (h.LookFailed(), looked(ASK), looked(newest=NOTHING))
    for state, event in itertools.product(h.ENDS, events):
        assert h.step_asking(asking(state), event, 10**6) == (asking(state), None)


def test_patience() -> None:
    """Nobody hears: ten seconds, three where the group is empty; whoever has heard, and says so again, has the whole time-out."""
    assert h.step_asking(asking(), h.LookFailed(), h.HEARD_MS - 1)[0].state is AskingState.ASKED
    assert h.step_asking(asking(), h.LookFailed(), h.HEARD_MS)[0].state is AskingState.SILENT
    assert h.step_asking(asking(), looked(ASK, members=False), h.ALONE_MS)[0].state is AskingState.SILENT
    assert h.step_asking(asking(AskingState.HEARD), h.LookFailed(), 59_999)[0].state is AskingState.HEARD
    assert h.step_asking(asking(AskingState.HEARD), h.LookFailed(), 60_000)[0].state is AskingState.TIMED_OUT
    heard = asking(AskingState.HEARD)
    for number, at in enumerate(range(0, 50_000, h.HEARD_MS - 1)):  # each word is renewed, none twice read in time
        heard = h.step_asking(heard, looked(replace(HEARD, renewal=number)), at)[0]
        assert heard.state is AskingState.HEARD
        assert (
            h.step_asking(heard, looked(replace(HEARD, renewal=number)), at + h.HEARD_MS)[0].state is AskingState.LOST
        )
    away = h.step_asking(heard, h.LookFailed(), 59_000)[0]  # Kafka was: the other one could say nothing, too
    assert h.step_asking(away, looked(replace(HEARD, renewal=number)), 59_999)[0].state is AskingState.HEARD
    claimed = h.step_asking(asking(AskingState.CLAIMING), looked(PARKED), h.HEARD_MS)[0]
    assert claimed.state is AskingState.GRANTED
    assert h.step_asking(asking(AskingState.LOOKING), h.LookFailed(), 60_000)[0].state is AskingState.TIMED_OUT


EVENTS = (
    h.HandoverRequested(ASK),
    h.Planned(),
    h.ReachedCleanPoint(),
    h.Unsure("why"),
    h.CommitsTaken(),
    h.CommitsDelayed(),
    h.AnswerWritten(),
    h.AnswerGivenUp(HEARD),
    h.AnswerGivenUp(PARKED),
)
B, C, K, A, P = RunningState
AFTER = {  # by state, in the order of EVENTS; of one that has heard already, so B reaches K
    B: (B, B, K, B, B, B, B, B, B),
    C: (K, B, K, B, C, C, C, C, C),
    K: (K, K, K, K, A, C, K, K, C),
    A: (A, A, A, A, A, A, P, A, C),
    P: (P, P, P, P, P, P, P, P, P),
}


@pytest.mark.parametrize("state", RunningState)
def test_the_one_that_runs(state: RunningState) -> None:
    """Every event in every state."""
    running = RunningSide(state, request=ASK)
    assert tuple(h.step_running(running, event)[0].state for event in EVENTS) == AFTER[state]


def test_what_the_one_that_runs_does() -> None:
    """It hears at once, waits for its commits, answers; while no request is there a clean point is just that."""
    running, actions = h.step_running(RunningSide(), h.ReachedCleanPoint())
    assert (running.state, actions) == (C, ())
    running, actions = h.step_running(running, h.HandoverRequested(ASK))
    assert (running.state, actions) == (C, (h.WriteAnswer(HEARD),))
    running, actions = h.step_running(running, h.HandoverRequested(HEARD))
    assert (running.state, actions) == (K, (h.AwaitCommits(),))
    running, actions = h.step_running(running, h.CommitsTaken())
    assert actions == (h.WriteAnswer(PARKED),)
    _, actions = h.step_running(running, h.HandoverRequested(OTHER))
    assert actions == (h.WriteAnswer(PARKED),)
    declined, _ = h.step_running(RunningSide(), h.Unsure("why"))
    _, actions = h.step_running(declined, h.HandoverRequested(ASK))
    assert actions == (h.WriteAnswer(replace(ASK, answer=HandoverAnswer.DECLINED, text="why")),)


def test_what_was_not_heard_stops_nobody() -> None:
    """It is void; a later request is heard, and stops it.  One that comes after one that was heard takes its place at once."""
    running, _ = h.step_running(RunningSide(), h.HandoverRequested(ASK))
    running, actions = h.step_running(running, h.ReachedCleanPoint())
    assert (running.state, running.request, actions) == (C, None, ())
    running, _ = h.step_running(running, h.AnswerGivenUp(HEARD))
    assert h.step_running(running, h.HandoverRequested(ASK)) == (running, ())
    running, actions = h.step_running(running, h.HandoverRequested(OTHER))
    assert (running.state, actions) == (C, (h.WriteAnswer(replace(OTHER, answer=HandoverAnswer.HEARD)),))
    running, _ = h.step_running(running, h.HandoverRequested(replace(OTHER, answer=HandoverAnswer.HEARD)))
    later = replace(ASK, request="a later one")
    running, actions = h.step_running(running, h.HandoverRequested(later))
    assert (running.request, actions) == (later, (h.WriteAnswer(replace(later, answer=HandoverAnswer.HEARD)),))
    declined, _ = h.step_running(RunningSide(), h.Unsure("why"))
    declined, _ = h.step_running(declined, h.AnswerGivenUp(replace(ASK, answer=HandoverAnswer.DECLINED)))
    assert h.step_running(declined, h.HandoverRequested(ASK)) == (declined, ())


def test_a_refused_answer_lets_the_query_go_on() -> None:
    """Nobody was told that it stops; what still says ``heard`` stops it at its next clean point."""
    running, _ = h.step_running(RunningSide(A, request=ASK), h.AnswerGivenUp(PARKED))
    assert (running.state, running.request) == (C, None)
    running, _ = h.step_running(running, h.Planned())
    running, _ = h.step_running(running, h.HandoverRequested(HEARD))
    assert h.step_running(running, h.ReachedCleanPoint())[0].state is K


def test_the_laws_in_drawn_runs() -> None:
    """Nothing is lost or doubled, and never do two plan, wherever either side dies; and most drawn runs hand over."""
    ends = [play(seed) for seed in range(2000)]
    assert sum(ends) > 200


def test_the_simulator_sees_a_broken_law() -> None:
    """A driver that answers before its commits are in Kafka doubles; so does one that goes on when its answer may be there."""
    with pytest.raises(AssertionError):
        for seed in range(2000):
            play(seed, hasty=True)
    with pytest.raises(AssertionError, match="never two that plan"):
        for seed in range(2000):
            play(seed, careless=True)
