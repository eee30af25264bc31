"""The hand-over of a group from one driver to the next, as two pure machines: ``step_asking`` and ``step_running``.

A new version of a job (*asking*) has the one that runs (*running*) finish its batch, commit it and stop, and starts there.
They may have different code and checkpoints, and run on different hosts: all they share is Kafka.

* **Where they write.**  The group itself is no place to ask in: Kafka takes commits of its members alone, and a driver that
  joins fences the running one in the middle of its batch.  So both write one record, as the metadata of an offset of the
  group ``GROUP.handover``, which never has a member.  The asking driver writes ``asked``; the running one writes ``heard``
  from a thread of its own, again every three seconds, then ``parked``.
* **Which run.**  A record names the run that it is for (``run_epoch``), so that what is left of an earlier hand-over stops
  no other run.  Where a later run has come meanwhile, that one is asked.
* **When a request counts.**  ``heard`` goes to Kafka first: a request stops nothing before.  A driver that may read requests
  and not answer them is never stopped by one.
* **When it may park.**  Spark asks for the end of a batch when the batch before is in its commit log: then, and while nothing
  was planned since, the query stands at a clean point.  Commits go to Kafka first, ``parked`` after.  A commit that Kafka
  does not take in time costs the hand-over a batch, not the query.  With the commits taken the query has ended, whether
  ``parked`` arrives or not: without it the asking driver waits ten seconds more and starts at the same offsets.
* **Who starts.**  The driver that reads ``parked`` for its own request starts from the group's committed offsets.  One whose
  question was replaced by another's ends (OVERTAKEN), so that of two asking drivers only one starts.  One that finds ``parked``
  for another request asks, too: that driver reserves its run within ten seconds, or has died.
* **Without a sign for ten seconds** the asking driver goes on as without a hand-over: it joins, which fences.  That is so
  where the other one has ended, cannot tell when its batches are committed, or is of a version without hand-over.
* **A run that is fenced says so.**  Its process is about to end, and a metric of it would not be read any more.  So it writes
  ``fenced`` for the run that fenced it, which counts it.  It writes nothing where anything else stands for that run.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from sparkcohort.runtime.kafka.run_epoch import FORMAT, CommitMetadata, Number, Text

SIGN_MS = 10_000
"""So long the asking driver waits for a sign of life; one that lives gives the first within a second."""
RENEWAL_MS = 3_000
"""How often the running driver says again that it has heard."""
LONGEST_TEXT = 200


class HandoverAnswer(StrEnum):
    """What a record says."""

    REQUESTED = "asked"
    CONFIRMED = "heard"
    PARKED = "parked"
    FENCED = "fenced"  # ``request`` is the fenced run, ``target`` the run that fenced it: no part of a hand-over


class RunName(NamedTuple):
    """A run: its number, and what tells two of one number apart."""

    run: int
    id: str


class HandoverRecord(Struct, frozen=True, rename={"answer": "handover"}):
    """What stands in Kafka between two drivers; ``request`` is of the asking driver, ``run`` and ``id`` of the run that is asked."""

    answer: HandoverAnswer
    request: Text
    run: Number
    id: Text
    text: Annotated[str, Meta(max_length=LONGEST_TEXT)]  # the host of the asking driver, or of the fenced one
    renewal: Number = 0  # of ``heard``: another number is a later sign

    @property
    def target(self) -> RunName:
        """The run that is asked."""
        return RunName(self.run, self.id)


_DECODER = msgspec.json.Decoder(HandoverRecord)  # made at import: see ``wire_types``


def name_of(record: CommitMetadata) -> RunName:
    """The run that wrote a commit."""
    return RunName(record.run, record.id)


def encode_handover(record: HandoverRecord) -> str:
    """The record as metadata text."""
    return json.dumps({"cohort": FORMAT, **msgspec.to_builtins(record)}, separators=(",", ":"))


def decode_handover(text: str) -> HandoverRecord | None:
    """The record in a metadata text; None for any other text."""
    try:
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


# --- the asking driver ------------------------------------------------------------------------------------


class AskingState(StrEnum):
    """Where the asking driver stands; all but the first two are ends."""

    LOOKING = "looking"
    REQUESTED = "asked"
    GRANTED = "granted"
    ABSENT = "absent"  # no run of this group has ever been
    SILENT = "silent"  # no sign of the newest run for ``SIGN_MS``
    TIMED_OUT = "timed out"  # it lives, and its batch takes longer than we wait
    OVERTAKEN = "overtaken"  # another driver asks, too, and came later


ENDS = frozenset(AskingState) - {AskingState.LOOKING, AskingState.REQUESTED}


class AskingSide(Struct, frozen=True):
    """One hand-over as the asking driver sees it."""

    request: str
    host: str
    since_ms: int
    timeout_ms: int
    state: AskingState = AskingState.LOOKING
    target: RunName | None = None  # the run that is asked; set in REQUESTED
    renewal: int = -1  # of the last ``heard``; -1 before the first
    sign_ms: int = 0  # when the last sign of life was read, or Kafka did not answer; in REQUESTED


class HandoverView(Struct, frozen=True):
    """What stands in Kafka: the newest run's record, and all that is of hand-overs."""

    newest: CommitMetadata
    records: tuple[HandoverRecord, ...]


def step_asking(side: AskingSide, view: HandoverView | None, now_ms: int) -> tuple[AskingSide, HandoverRecord | None]:
    """The asking after a look, without a view where Kafka did not answer, and what it writes.  Total: an end stays as it is."""
    if side.state in ENDS:
        return side, None
    written: HandoverRecord | None = None
    if view is not None:
        side, written = _step_view(side, view, now_ms)
    else:
        side = replace(side, sign_ms=now_ms)  # where Kafka is away the other one can't give a sign
    if side.state in ENDS:
        return side, None
    if now_ms - side.since_ms >= side.timeout_ms:
        return replace(side, state=AskingState.TIMED_OUT), None
    if side.target is None or written is not None or now_ms - side.sign_ms < SIGN_MS:
        return side, written
    return replace(side, state=AskingState.SILENT), None


def _step_view(side: AskingSide, view: HandoverView, now_ms: int) -> tuple[AskingSide, HandoverRecord | None]:
    newest = name_of(view.newest)
    if newest.run == 0:
        return replace(side, state=AskingState.ABSENT), None
    question = HandoverRecord(HandoverAnswer.REQUESTED, side.request, *newest, side.host)
    if side.target != newest:
        # What stands for another asking driver is replaced: it ends when it reads that.
        return replace(side, state=AskingState.REQUESTED, target=newest, renewal=-1, sign_ms=now_ms), question
    records = [r for r in view.records if r.target == newest and r.answer is not HandoverAnswer.FENCED]
    record = next((record for record in records if record.request == side.request), None)
    if record is None:
        return (replace(side, state=AskingState.OVERTAKEN), None) if records else (side, question)
    if record.answer is HandoverAnswer.PARKED:
        return replace(side, state=AskingState.GRANTED), None
    if record.answer is HandoverAnswer.CONFIRMED and record.renewal != side.renewal:
        return replace(side, renewal=record.renewal, sign_ms=now_ms), None
    return side, None


# --- the running driver -----------------------------------------------------------------------------------


class RunningState(StrEnum):
    """Where the running driver stands."""

    BATCH = "batch"  # a batch is planned and not known to be in Spark's commit log; so it begins, for a batch that is replayed
    CLEAN = "clean"  # all that was planned is in the commit log, and on its way to Kafka
    PARKED = "parked"  # Kafka has it all, ``parked`` is written: nothing is planned any more, for good


class RunningEvent(StrEnum):
    """What happens to the running driver, besides requests."""

    PLANNED = "planned"  # Spark is about to get a further batch's end; refused unless the state after it is BATCH
    CLEAN_POINT = "clean point"  # all that was planned is in Spark's commit log, and its commit to Kafka is under way
    COMMITS_TAKEN = "commits taken"  # Kafka has all that is in the commit log


class RunningSide(Struct, frozen=True):
    """One run as its hand-over sees it."""

    state: RunningState = RunningState.BATCH
    request: HandoverRecord | None = None  # the newest that was heard; set in PARKED

    @property
    def may_park(self) -> bool:
        """Whether it is to stop once Kafka has all commits."""
        return self.state is RunningState.CLEAN and self.request is not None


def step_running(running: RunningSide, event: HandoverRecord | RunningEvent) -> RunningSide:
    """The running driver after an event, or after a request for it is in Kafka, with ``heard`` for it."""
    state, request = running.state, running.request
    if state is RunningState.PARKED:
        return running
    match event:
        case RunningEvent.PLANNED:
            state = RunningState.BATCH
        case RunningEvent.CLEAN_POINT:
            state = RunningState.CLEAN
        case RunningEvent.COMMITS_TAKEN:
            state = RunningState.PARKED if running.may_park else state
        case HandoverRecord():
            request = event  # in place of one that was heard before: that driver reads it, and ends
    return RunningSide(state, request)
