"""The hand-over of a group from one driver to the next, as two pure machines: ``step_asking`` and ``step_running``.

A new version of a job (*asking*) has the one that runs (*running*) finish its batch, commit it and stop, and starts there.
They may have different code and checkpoints, and run on different hosts: all they share is Kafka.

* **Where they write.**  The group itself is no place to ask in: Kafka takes commits of its members alone, and whoever joins
  fences the running driver in the middle of its batch.  So both write one record, as the metadata of an offset of the group
  ``GROUP.handover``, which never has a member.  The one who asks writes ``asked``; the one that runs writes ``heard`` at once,
  from a thread of its own, then ``parked``, or ``declined``.
* **To whom.**  A record names the run that it is for (``run_epoch``), so that what is left of an earlier hand-over stops nobody.
  Where a later run has come meanwhile, that one is asked.
* **When a request counts.**  ``heard`` goes to Kafka first: a request stops nobody before.  One that can't be heard, because
  Kafka refuses it or takes nothing for as long as anybody waits for it, is void: whoever asked has gone on without by then.
* **When it may park.**  Spark asks for the end of a batch when the batch before is in its commit log: then, and while nothing
  was planned since, the query stands at a clean point.  Commits go to Kafka first, ``parked`` after; from the moment
  that ``parked`` may be on its way nothing is planned, whatever becomes of the other one.  Before, the running one may go
  on: a commit that Kafka does not take in time costs the hand-over a batch, not the query.  It goes on, too, where ``parked``
  is refused and no try of it may have arrived.
* **Who starts.**  Whoever reads ``parked`` of the newest run starts from the group's committed offsets.  One whose question was
  replaced by another's ends (OVERTAKEN), so that two that ask at once do not both start.  One that finds ``parked`` for
  somebody else claims it, and starts when that one has reserved no run within ten seconds: it has died.  What ``cohort
  handover`` asked for is free for whoever comes.
* **Where nobody answers** the one who asks goes on as without a hand-over: it joins, which fences.  So it does where the
  other one has heard, and dies in its batch: while it lives it renews ``heard`` every three seconds.
* **A run that is fenced says so.**  Its process is about to end, and a metric of it would not be read any more.  So it writes
  ``fenced`` for the run that fenced it, which counts it.  It writes nothing where anything else stands for that run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from sparkcohort.runtime.kafka.run_epoch import MAX_BYTES, MOST, CommitMetadata

HEARD_MS = 10_000
"""An answer that a driver is there comes in a second, also in the middle of a batch."""
RENEWAL_MS = 3_000
"""How often the one that has heard says so again, while it lives."""
ALONE_MS = 3_000
"""The same where the group has no member: a driver that has not joined yet may be there all the same."""
FREE = ""
"""The request of a hand-over that is for whoever comes next."""
LONGEST_TEXT = 200


class HandoverAnswer(StrEnum):
    """What a record says."""

    ASKED = "asked"
    HEARD = "heard"
    PARKED = "parked"
    DECLINED = "declined"
    FENCED = "fenced"  # ``request`` is the run that was fenced, ``to`` the run that fenced it: no part of a hand-over


class RunName(NamedTuple):
    """A run: its number, and what tells two of one number apart."""

    run: int
    id: str


class HandoverRecord(Struct, frozen=True):
    """What stands in Kafka between two drivers; ``request`` is of whoever asks, ``to`` the run that is asked."""

    answer: HandoverAnswer
    request: str
    to: RunName
    text: str = ""  # who asks, or why it is declined
    renewal: int = 0  # of ``heard``: another number is a later word


def name_of(record: CommitMetadata) -> RunName:
    """The run that wrote a commit."""
    return RunName(record.run, record.id)


def encode_handover(record: HandoverRecord) -> str:
    """The record as metadata text."""
    value = {"cohort": 1, "handover": str(record.answer), "request": record.request, "run": record.to.run}
    more = {"id": record.to.id, "text": record.text[:LONGEST_TEXT], "renewal": record.renewal}
    return json.dumps({**value, **more}, separators=(",", ":"))


def decode_handover(text: str) -> HandoverRecord | None:
    """The record in a metadata text; None for text of somebody else, of whatever kind."""
    if len(text) > MAX_BYTES:
        return None
    try:
        value = json.loads(text)
        answer, run, renewal = HandoverAnswer(value["handover"]), value["run"], value["renewal"]
        texts = [value["request"], value["id"], value["text"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if not all(type(each) is int and 0 <= each < MOST for each in (run, renewal)):
        return None
    if not all(isinstance(each, str) for each in texts):
        return None
    return HandoverRecord(answer, texts[0][:64], RunName(run, texts[1][:64]), texts[2][:LONGEST_TEXT], renewal)


# --- the one who asks -----------------------------------------------------------------------------------


class AskingState(StrEnum):
    """Where the one who asks stands; the last seven are ends."""

    LOOKING = "looking"
    ASKED = "asked"
    HEARD = "heard"  # the other one lives, and finishes its batch
    CLAIMING = "claiming"  # parked, for one that has not started
    GRANTED = "granted"
    ABSENT = "absent"  # no run of this group has ever been
    SILENT = "silent"  # nobody has heard: the newest run is dead, or of a version without hand-over
    LOST = "lost"  # the other one has heard, and renews its word no more: it is dead, or frozen
    DECLINED = "declined"
    TIMED_OUT = "timed out"
    OVERTAKEN = "overtaken"  # somebody else asks, too, and came later


ENDS = frozenset(AskingState) - {AskingState.LOOKING, AskingState.ASKED, AskingState.HEARD, AskingState.CLAIMING}


class AskingSide(Struct, frozen=True):
    """One hand-over as whoever asks sees it."""

    request: str
    who: str
    since_ms: int
    timeout_ms: int
    state: AskingState = AskingState.LOOKING
    to: RunName | None = None  # who is asked; set once somebody is
    asked_ms: int = 0
    renewal: int = -1  # of the last ``heard``; -1 before the first
    heard_ms: int = 0  # when that was first read, or could have been; in HEARD
    alone: bool = False  # the group had no member at the last look
    text: str = ""  # why it was declined


class Looked(Struct, frozen=True):
    """What stands in Kafka: the newest run's record, whether the group has members, all that is of hand-overs."""

    newest: CommitMetadata
    members: bool
    records: tuple[HandoverRecord, ...]


class LookFailed(Struct, frozen=True):
    """Time has passed, or a look has failed."""


def step_asking(
    asking: AskingSide, event: Looked | LookFailed, now_ms: int
) -> tuple[AskingSide, HandoverRecord | None]:
    """The asking after an event, and what it writes.  Total: an end stays as it is."""
    if asking.state in ENDS:
        return asking, None
    written: HandoverRecord | None = None
    if isinstance(event, LookFailed):
        asking = replace(asking, heard_ms=now_ms)  # where Kafka is away, the other one can't renew its word
    if isinstance(event, Looked):
        asking, written = _looked(replace(asking, alone=not event.members), event, now_ms)
    if asking.state in ENDS:
        return asking, None
    if now_ms - asking.since_ms >= asking.timeout_ms:
        return replace(asking, state=AskingState.TIMED_OUT), None
    patience_ms = ALONE_MS if asking.alone else HEARD_MS
    if asking.state is AskingState.ASKED and now_ms - asking.asked_ms >= patience_ms:
        return replace(asking, state=AskingState.SILENT), None
    return asking, written


def _looked(asking: AskingSide, event: Looked, now_ms: int) -> tuple[AskingSide, HandoverRecord | None]:
    newest = name_of(event.newest)
    if newest.run == 0:
        return replace(asking, state=AskingState.ABSENT), None
    for_newest = [r for r in event.records if r.to == newest and r.answer is not HandoverAnswer.FENCED]
    mine = [record for record in for_newest if record.request == asking.request]
    if asking.to != newest:
        asking = replace(asking, state=AskingState.ASKED, to=newest, asked_ms=now_ms, renewal=-1)
        parked = [record for record in for_newest if record.answer is HandoverAnswer.PARKED]
        if any(record.request == FREE for record in parked):
            return replace(asking, state=AskingState.GRANTED), None
        if parked:
            return replace(asking, state=AskingState.CLAIMING), replace(parked[0], request=asking.request)
        return asking, HandoverRecord(HandoverAnswer.ASKED, asking.request, newest, asking.who)
    if for_newest and not mine:
        return replace(asking, state=AskingState.OVERTAKEN), None
    if asking.state is AskingState.CLAIMING:
        if mine and now_ms - asking.asked_ms >= HEARD_MS:
            return replace(asking, state=AskingState.GRANTED), None
        answer = HandoverAnswer.PARKED
        return asking, None if mine else HandoverRecord(answer, asking.request, newest, asking.who)
    if not mine:  # what was written never arrived
        return asking, HandoverRecord(HandoverAnswer.ASKED, asking.request, newest, asking.who)
    record = mine[0]
    if record.answer is HandoverAnswer.HEARD:
        return _is_heard(asking, record, now_ms), None
    states: Mapping[HandoverAnswer, AskingState] = {
        HandoverAnswer.PARKED: AskingState.GRANTED,
        HandoverAnswer.DECLINED: AskingState.DECLINED,
    }
    return replace(asking, state=states.get(record.answer, asking.state), text=record.text), None


def _is_heard(asking: AskingSide, record: HandoverRecord, now_ms: int) -> AskingSide:
    if record.renewal != asking.renewal:
        return replace(asking, state=AskingState.HEARD, text=record.text, renewal=record.renewal, heard_ms=now_ms)
    return replace(asking, state=AskingState.LOST) if now_ms - asking.heard_ms >= HEARD_MS else asking


# --- the one that runs ----------------------------------------------------------------------------------


class RunningState(StrEnum):
    """Where the one that runs stands."""

    BATCH = "batch"  # a batch is planned and not known to be in Spark's commit log; so it begins, for a batch that is replayed
    CLEAN = "clean"  # all that was planned is in the commit log, and on its way to Kafka
    COMMITTING = "committing"  # asked, at a clean point: nothing is planned until it is known whether Kafka has it all
    ANSWERING = "answering"  # ``parked`` may be in Kafka: nothing is planned any more, for good
    PARKED = "parked"  # ``parked`` is in Kafka


class RunningSide(Struct, frozen=True):
    """One run as its hand-over sees it."""

    state: RunningState = RunningState.BATCH
    request: HandoverRecord | None = None  # the newest, once one was heard; set in COMMITTING and after
    void: str | None = None  # the newest request that could not be heard
    declines: str = ""  # why no point is known to be clean, if none is


class HandoverRequested(Struct, frozen=True):
    """A record for this run, ``asked`` or ``heard``, is in Kafka: it was read, or written."""

    record: HandoverRecord


class Planned(Struct, frozen=True):
    """Spark is about to be told a further batch's end; refused unless the state after it is BATCH."""


class ReachedCleanPoint(Struct, frozen=True):
    """All that was planned is in Spark's commit log, and its commit to Kafka is under way."""


class Unsure(Struct, frozen=True):
    """It can't be told when a batch is in the commit log."""

    why: str


class CommitsTaken(Struct, frozen=True):
    """Kafka has all that is in the commit log."""


class CommitsDelayed(Struct, frozen=True):
    """Kafka did not take it in time."""


class AnswerWritten(Struct, frozen=True):
    """``parked`` is in Kafka."""


class AnswerGivenUp(Struct, frozen=True):
    """A record can't be written, and is tried no more; ``parked``: none may be in Kafka, and no action is left that would write it."""

    record: HandoverRecord


RunningEvent: TypeAlias = (
    HandoverRequested
    | Planned
    | ReachedCleanPoint
    | Unsure
    | CommitsTaken
    | CommitsDelayed
    | AnswerWritten
    | AnswerGivenUp
)


class AwaitCommits(Struct, frozen=True):
    """Wait for Kafka to have all commits; then say ``CommitsTaken`` or ``CommitsDelayed``."""


class WriteAnswer(Struct, frozen=True):
    """Write a record: ``parked`` until it is written, then say ``AnswerWritten``; any other once.

    ``heard`` that is written is a ``HandoverRequested``; what is not, ``AnswerGivenUp``, or it is read again and asked for anew.
    """

    record: HandoverRecord


RunningAction: TypeAlias = AwaitCommits | WriteAnswer
Stepped: TypeAlias = tuple[RunningSide, tuple[RunningAction, ...]]

STOPPING = frozenset({RunningState.COMMITTING, RunningState.ANSWERING, RunningState.PARKED})


def step_running(running: RunningSide, event: RunningEvent) -> Stepped:
    """The running one after an event, and what the shell is to do.  Total: what a state has no use for changes nothing."""
    effect = _RUNNING.get((running.state, type(event)))
    return (running, ()) if effect is None else effect(running, event)


def _answer(record: HandoverRecord, answer: HandoverAnswer, text: str = "") -> WriteAnswer:
    return WriteAnswer(replace(record, answer=answer, text=text or record.text))


def _request_read(running: RunningSide, event: HandoverRequested) -> Stepped:
    asked = event.record.answer is HandoverAnswer.ASKED
    if asked and event.record.request == running.void:
        return running, ()
    if running.declines:
        return running, (_answer(event.record, HandoverAnswer.DECLINED, running.declines),)
    heard = (_answer(event.record, HandoverAnswer.HEARD),) if asked else ()
    if asked and running.request is None:
        return running, heard
    running = replace(running, request=event.record)  # it replaces one that was heard, and is waited for
    if running.state is RunningState.CLEAN:
        return replace(running, state=RunningState.COMMITTING), (*heard, AwaitCommits())
    return running, heard


def _request_read_again(running: RunningSide, event: HandoverRequested) -> Stepped:
    """The answer is for whom it was first meant: whoever asks since is told so by finding it in place of its question."""
    return running, (_answer(running.request or event.record, HandoverAnswer.PARKED),)


def _planned(running: RunningSide, _event: Planned) -> Stepped:
    return replace(running, state=RunningState.BATCH), ()


def _clean(running: RunningSide, _event: ReachedCleanPoint) -> Stepped:
    if running.request is None:
        return replace(running, state=RunningState.CLEAN), ()
    return replace(running, state=RunningState.COMMITTING), (AwaitCommits(),)


def _unsure(running: RunningSide, event: Unsure) -> Stepped:
    request, running = running.request, replace(running, state=RunningState.BATCH, request=None, declines=event.why)
    return running, (_answer(request, HandoverAnswer.DECLINED, event.why),) if request is not None else ()


def _committed(running: RunningSide, _event: CommitsTaken) -> Stepped:
    assert running.request is not None  # noqa: S101  set wherever this state is entered
    return replace(running, state=RunningState.ANSWERING), (_answer(running.request, HandoverAnswer.PARKED),)


def _delayed(running: RunningSide, _event: CommitsDelayed) -> Stepped:
    return replace(running, state=RunningState.CLEAN), ()


def _given_up(running: RunningSide, event: AnswerGivenUp) -> Stepped:
    if event.record.answer is not HandoverAnswer.PARKED:
        return replace(running, void=event.record.request), ()
    state = RunningState.BATCH if running.state is RunningState.BATCH else RunningState.CLEAN
    return replace(running, state=state, request=None), ()


def _written(running: RunningSide, _event: AnswerWritten) -> Stepped:
    return replace(running, state=RunningState.PARKED), ()


_RUNNING: Mapping[tuple[RunningState, type], Callable[..., Stepped]] = {
    (RunningState.BATCH, HandoverRequested): _request_read,
    (RunningState.BATCH, Planned): _planned,
    (RunningState.BATCH, ReachedCleanPoint): _clean,
    (RunningState.BATCH, Unsure): _unsure,
    (RunningState.BATCH, AnswerGivenUp): _given_up,
    (RunningState.CLEAN, HandoverRequested): _request_read,
    (RunningState.CLEAN, Planned): _planned,
    (RunningState.CLEAN, ReachedCleanPoint): _clean,
    (RunningState.CLEAN, Unsure): _unsure,
    (RunningState.CLEAN, AnswerGivenUp): _given_up,
    (RunningState.COMMITTING, HandoverRequested): _request_read,
    (RunningState.COMMITTING, CommitsTaken): _committed,
    (RunningState.COMMITTING, CommitsDelayed): _delayed,
    (RunningState.COMMITTING, AnswerGivenUp): _given_up,
    (RunningState.ANSWERING, HandoverRequested): _request_read_again,
    (RunningState.ANSWERING, AnswerWritten): _written,
    (RunningState.ANSWERING, AnswerGivenUp): _given_up,
}
