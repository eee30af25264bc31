"""The driver's two sides of a hand-over: one asks before it joins, one watches for being asked (``runtime.kafka.handover``)."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec.structs import replace

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka import handover as machine
from sparkcohort.runtime.kafka.handover import (
    AskingState,
    HandoverRecord,
    RunName,
    RunningSide,
    RunningState,
    name_of,
)
from sparkcohort.runtime.kafka.run_epoch import NOTHING
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.group_commits import GroupCommits
from sparkcohort.runtime.shell.kafka.handover_client import (
    HandoverClient,
    HandoverDelayed,
    HandoverDenied,
    ask,
    in_words,
)
from sparkcohort.runtime.shell.options.parse import SourceOptions
from sparkcohort.runtime.shell.process.threads import Supervised, look
from sparkcohort.runtime.text import printable

log = logging.getLogger("sparkcohort.handover")

Offsets = Mapping[TopicPartition, int]

WATCH_S = 1.0
DENIED_S = 60.0
COMMITS_S = 30.0
FAREWELL_S = 2.0
"""So long a fenced run's end waits until the newer one has been told."""
FIRST = 100
"""Partitions, from the first committed one, beside which a request is looked for."""
ANSWER_S = 30.0
"""So long the query waits for its answer to be written, at its end; without it the next driver waits for its time-out."""


def take_over(options: SourceOptions, pause: Callable[[float], None]) -> bool:
    """Have the driver that runs stop at a clean point; whether it did.  Raises CohortError: no permission, overtaken."""
    client = HandoverClient(options.kafka, options.group_id)
    try:
        asking = ask(client, options.handover_timeout_ms, pause)
    finally:
        client.close()
    words = in_words(asking, options.group_id)
    if asking.state is AskingState.OVERTAKEN:
        raise CohortError(f"{words}: one of the two takes the group over, and this one ends; nothing was read")
    if asking.state in (AskingState.GRANTED, AskingState.ABSENT):
        log.info("%s", words)
    else:
        log.warning(
            "%s. This query goes on as without handover=graceful: it fences whoever still runs, whose last batch, if "
            "it is in no commit log yet, is read again",
            words,
        )
    return asking.state is AskingState.GRANTED


def check_start(group_id: str, start: Offsets, committed: Offsets) -> None:
    """Raises CohortError where a checkpoint says otherwise than the driver that handed over."""
    apart = {tp: (at, committed[tp]) for tp, at in start.items() if committed.get(tp, at) != at}
    if not apart:
        return
    tp, (at, ended) = min(apart.items())
    raise CohortError(
        f"group {group_id} was handed over, but the checkpoint of this query begins elsewhere than the one before ended: "
        f"{tp.topic}-{tp.partition} at {at} instead of {ended} ({len(apart)} partitions differ), so records would be "
        "doubled or lost. Nothing was read. Give the query a new checkpointLocation; or write on in this one with cohort "
        "handover --to-checkpoint; where both have one checkpointLocation, start the query again. To begin where the "
        "checkpoint says, leave handover out"
    )


def watch(options: SourceOptions, commits: GroupCommits) -> HandoverWatch:
    """Who watches for a run that has reserved its number; not started yet."""
    run = name_of(commits.run_epoch.own or NOTHING)

    def places() -> list[TopicPartition]:
        # Whoever asks writes beside the first partition that this run has committed.
        return sorted(commits.committed())[:FIRST]

    client = HandoverClient(options.kafka, options.group_id, places)
    return HandoverWatch(client, run, commits.flush, commits.end, commits.successor)


class HandoverWatch:
    """Watches for whoever asks, and stops planning once asked; methods may be called from any thread."""

    def __init__(
        self,
        client: HandoverClient,
        run: RunName,
        flush: Callable[[float], bool],
        parked: Callable[[], None],
        successor: Callable[[], RunName | None],
    ) -> None:
        """``flush`` waits for Kafka to have all commits; ``parked`` is called once no batch will be planned any more.

        ``successor`` names the run that has fenced this one, once one has.
        """
        self._client, self._run, self._flush, self._on_parked = client, run, flush, parked
        self._successor = successor
        self._fenced_runs: frozenset[str] = frozenset()  # that stand in Kafka as fenced by this run
        self._fencings = 0
        self._farewell_over = False  # the successor was told, or can't be
        self._changed = threading.Condition()
        self._running = RunningSide()
        self._actions: tuple[machine.RunningAction, ...] = ()
        self._planned: Offsets | None = None
        self._closed = self._told = False
        self._sent = False  # ``parked``, once at least: it may be in Kafka
        self._trying: tuple[str, float] = "", 0.0  # whose request can't be answered, and since when
        self._next_look = self._next_try = self._next_renewal = 0.0
        self._renewals = 0
        self._thread = Supervised("cohort-handover", self._wait, self._work, self._fail, ended=client.close)

    def start(self) -> None:
        """Watch from now on."""
        self._thread.start()

    def close(self) -> None:
        """Watch no more; a run that was fenced says so first."""
        with self._changed:
            self._next_look = 0.0 if self._successor() else self._next_look
            self._changed.notify_all()
        self._await(lambda: self._farewell_over or self._closed or self._successor() is None, FAREWELL_S)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.close()

    # --- what the query does -----------------------------------------------------------------------------

    @property
    def requested(self) -> bool:
        """Whether somebody waits for this query to stop."""
        return self._running.request is not None

    @property
    def fencings(self) -> int:
        """How many drivers this run has fenced that still ran."""
        return self._fencings

    @property
    def handed_over(self) -> bool:
        """Whether a newer driver has been told, or is being told, that it may start."""
        return self._running.state in (RunningState.ANSWERING, RunningState.PARKED)

    def check(self) -> None:
        """Raises CohortError (HANDED_OVER) where nothing is planned any more."""
        if self.handed_over:
            self._await(lambda: self._running.state is not RunningState.ANSWERING or self._closed, ANSWER_S)
        if self.handed_over:
            raise self._handed_over()

    def plan(self, end: Offsets) -> None:
        """A batch to ``end`` is about to be planned.  Raises CohortError (HANDED_OVER) where none is any more."""
        with self._changed:
            self._feed(machine.Planned())
            self._planned = end
            planned = self._running.state is RunningState.BATCH
        if not planned:
            self._await_commits()
            self.check()
            self.plan(end)

    def reach(self) -> None:
        """All that was planned is in Spark's commit log, and was given to be committed.  Raises CohortError (HANDED_OVER)."""
        self._feed(machine.ReachedCleanPoint())
        self._await_commits()
        self.check()

    def logged(self, end: Offsets) -> None:
        """As ``reach``, of the batch that was planned to ``end``, told by a listener: raises nothing, waits for nothing."""
        with self._changed:
            if end == self._planned:
                self._feed(machine.ReachedCleanPoint())

    def decline(self, why: str) -> None:
        """It can't be told when batches are in the commit log."""
        if not self._running.declines:
            self._feed(machine.Unsure(why))

    def _await_commits(self) -> None:
        """Wait until it is known whether Kafka has all commits."""
        self._await(lambda: self._running.state is not RunningState.COMMITTING or self._closed, 2 * COMMITS_S)
        self._feed(machine.CommitsDelayed())  # the watching thread is gone, or stuck: the query goes on

    def _await(self, reached: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not reached() and time.monotonic() < deadline:
                self._changed.wait(0.1)
                look()

    def _handed_over(self) -> CohortError:
        record = self._running.request
        who = f" to {record.text}" if record is not None and record.text else ""
        return CohortError(
            f"HANDED_OVER: group {self._client.group_id} was handed over{who}: every batch of this query is in its checkpoint "
            "and committed, and the next driver goes on from there. The query has ended on purpose; nothing is to be done",
            "HANDED_OVER",
        )

    # --- the thread ----------------------------------------------------------------------------------------

    def _feed(self, event: machine.RunningEvent) -> None:
        with self._changed:
            if self._closed and isinstance(event, machine.HandoverRequested):
                return  # nobody is there to answer it
            before = self._running.state
            self._running, actions = machine.step_running(self._running, event)
            self._actions += actions
            self._changed.notify_all()
        if self._running.state is not before and {before, self._running.state} & machine.STOPPING:
            log.info("group %s: hand-over: %s", self._client.group_id, self._running.state)

    def _wait(self) -> bool:
        with self._changed:
            while not self._closed and (left := self._due() - time.monotonic()) > 0:
                self._changed.wait(left)
            return not self._closed

    def _due(self) -> float:
        return self._next_try if self._actions else self._next_look

    def _work(self) -> None:
        try:
            while self._actions:
                self._do(self._actions[0])
            if time.monotonic() >= self._next_look:
                self._look()
        except HandoverDenied as error:
            self._next_look = time.monotonic() + DENIED_S
            self._farewell_over = self._successor() is not None
            if not self._told:
                self._told = True
                log.info("nobody can ask this query to hand over, and a newer driver fences it: %s", error)
        except HandoverDelayed as error:
            self._next_look = time.monotonic() + WATCH_S
            log.debug("%s", error)

    def _look(self) -> None:
        if (successor := self._successor()) is not None:
            self._say_farewell(successor)
        elif self._running.state is not RunningState.PARKED:
            records = [record for record in self._client.records() if record.to == self._run]
            self._count_fenced([record for record in records if record.answer is machine.HandoverAnswer.FENCED])
            for record in records:
                if record.answer in _OPEN:
                    self._feed(machine.HandoverRequested(record))
                    if record.answer is machine.HandoverAnswer.HEARD:
                        self._renew()
        self._next_look = time.monotonic() + WATCH_S

    def _say_farewell(self, successor: RunName) -> None:
        """Tell the run that has fenced this one, once; a request that stands there is not overwritten."""
        records = self._client.records()
        if not self._farewell_over and not any(record.to.run >= successor.run for record in records):
            answer = machine.HandoverAnswer.FENCED
            self._client.write(HandoverRecord(answer, self._run.id, successor, socket.gethostname()))
        self._farewell_over = True

    def _count_fenced(self, records: list[HandoverRecord]) -> None:
        """Count each driver that says it was fenced by this run, when its word is first read."""
        for record in records:
            if record.request not in self._fenced_runs:
                self._fencings += 1
                log.warning(
                    "group %s: a driver on %s still ran when this query took the group over, and was fenced: unless this is "
                    "a deploy, the job was started twice",
                    self._client.group_id,
                    printable(record.text, machine.LONGEST_TEXT),
                )
        self._fenced_runs = frozenset(record.request for record in records)

    def _renew(self) -> None:
        """Tell whoever waits that this driver lives: who hears no more of it takes it for dead."""
        request, now = self._running.request, time.monotonic()
        if request is None or self.handed_over or now < self._next_renewal:
            return
        self._next_renewal = now + machine.RENEWAL_MS / 1000
        self._renewals += 1
        self._client.write(replace(request, answer=machine.HandoverAnswer.HEARD, renewal=self._renewals))

    def _do(self, action: machine.RunningAction) -> None:
        if isinstance(action, machine.AwaitCommits):
            self._see_commits()
        elif action.record.answer is machine.HandoverAnswer.PARKED:
            self._park(action.record)
        else:
            self._say(action.record)

    def _done(self, event: machine.RunningEvent | None) -> None:
        """The first action is over, and nothing, or this, came of it."""
        with self._changed:
            self._actions = self._actions[1:]
            if event is not None:
                self._feed(event)

    def _see_commits(self) -> None:
        waits, taken = self._running, False
        pieces = max(1, round(1000 * COMMITS_S / machine.RENEWAL_MS))
        try:
            for _ in range(pieces if waits.state is RunningState.COMMITTING else 0):
                if taken := self._flush(COMMITS_S / pieces):
                    break
                with suppress(HandoverDenied, HandoverDelayed):
                    self._renew()
        except CohortError as error:  # fenced, say: the query is told of it by its next commit
            log.debug("%s", error)
        with self._changed:
            # A query that has gone on meanwhile may wait for the commits of a later batch, which this has not seen.
            event = machine.CommitsTaken() if taken else machine.CommitsDelayed()
            self._done(event if self._running is waits else None)

    def _say(self, record: HandoverRecord) -> None:
        """Try once: the next look tells whether it is still of use, and where whoever asks waits for it now."""
        if self._trying[0] != record.request:
            self._trying = record.request, time.monotonic()
        try:
            self._client.write(record)
        except (HandoverDenied, HandoverDelayed) as error:
            over = isinstance(error, HandoverDenied) or time.monotonic() - self._trying[1] >= machine.HEARD_MS / 1000
            self._done(machine.AnswerGivenUp(record) if over else None)
            raise
        self._trying = "", 0.0
        self._done(machine.HandoverRequested(record) if record.answer is machine.HandoverAnswer.HEARD else None)

    def _park(self, record: HandoverRecord) -> None:
        sent = self._sent
        try:
            self._client.records()  # where to write: whoever asked may have been replaced by another
            self._sent = True
            self._client.write(record)
        except (HandoverDenied, HandoverDelayed) as error:
            self._next_try = time.monotonic() + WATCH_S
            if isinstance(error, HandoverDenied) and not sent:  # after a try that may have arrived, no going back
                with self._changed:
                    self._sent, self._actions = False, ()
                    self._feed(machine.AnswerGivenUp(record))
            raise
        self._done(machine.AnswerWritten())
        log.warning("%s", self._handed_over())
        self._on_parked()

    def _fail(self, error: CohortError) -> None:
        """The query goes on, and can't be asked any more."""
        log.warning("nobody can ask this query to hand over: %s", error)
        with self._changed:
            self._closed, self._actions = True, ()
            request = self._running.request
            if request is not None and not self.handed_over:
                self._feed(machine.AnswerGivenUp(replace(request, answer=machine.HandoverAnswer.PARKED)))
            self._changed.notify_all()


_OPEN = frozenset({machine.HandoverAnswer.ASKED, machine.HandoverAnswer.HEARD})
