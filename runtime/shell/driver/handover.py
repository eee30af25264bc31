"""The driver's two sides of a hand-over: one asks before it joins, one watches for being asked (``runtime.kafka.handover``)."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing

from msgspec.structs import replace

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka import handover as machine
from sparkcohort.runtime.kafka.handover import (
    AskingState,
    HandoverRecord,
    RunName,
    RunningEvent,
    RunningSide,
    RunningState,
    name_of,
)
from sparkcohort.runtime.kafka.run_epoch import NO_RECORD
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.group_commits import QUICK_S, GroupCommits
from sparkcohort.runtime.shell.kafka.handover_client import (
    HandoverClient,
    HandoverDelayed,
    HandoverDenied,
    ask,
    describe,
)
from sparkcohort.runtime.shell.options.parse import SourceOptions
from sparkcohort.runtime.shell.rpc.threads import Supervised
from sparkcohort.runtime.text import printable

log = logging.getLogger("sparkcohort.handover")

Offsets = Mapping[TopicPartition, int]

WATCH_S = 1.0
DENIED_S = 60.0
COMMITS_S = 30.0
"""How long a query that is asked waits for its commits before it plans a further batch."""
FAREWELL_S = 2.0
"""How long a fenced run's end waits until the newer one has its record."""
FIRST = 100
"""Partitions, from the first committed one, beside which a request is looked for."""
ANSWER_S = 30.0
"""How long the query waits at its end for its answer to be written; without it the next driver misses a sign of life."""


def take_over(options: SourceOptions) -> bool:
    """Have the driver that runs stop at a clean point; whether it did.  Raises CohortError: no permission, overtaken."""
    with closing(HandoverClient(options.kafka, options.group_id)) as client:
        side = ask(client, options.handover_timeout_ms, time.sleep)
    words = describe(side, options.group_id)
    if side.state is AskingState.OVERTAKEN:
        raise CohortError(f"{words}: one of the two takes the group over, and this one ends; nothing was read")
    if side.state in (AskingState.GRANTED, AskingState.ABSENT):
        log.info("%s", words)
    else:
        log.warning(
            "%s. This query goes on as without handover=graceful: it fences a driver that still runs, whose last batch, "
            "if it is in no commit log yet, is read again",
            words,
        )
    return side.state is AskingState.GRANTED


def check_start(group_id: str, start: Offsets, committed: Offsets) -> None:
    """Raises CohortError where a checkpoint says otherwise than the driver that handed over."""
    differing = {tp: (offset, committed[tp]) for tp, offset in start.items() if committed.get(tp, offset) != offset}
    if not differing:
        return
    tp, (offset, ended) = min(differing.items())
    raise CohortError(
        f"group {group_id} was handed over, but the checkpoint of this query begins elsewhere than the one before ended: "
        f"{tp.topic}-{tp.partition} at {offset} instead of {ended} ({len(differing)} partitions differ), so records would be "
        "doubled or lost. Nothing was read. Give the query a new checkpointLocation; where both have one checkpointLocation, "
        "start the query again. To begin where the checkpoint says, leave handover out"
    )


def watch(options: SourceOptions, commits: GroupCommits) -> HandoverWatch:
    """The watch of a run that has reserved its number; not started yet."""
    run = name_of(commits.membership.run_epoch.own or NO_RECORD)

    def places() -> list[TopicPartition]:
        # An asking driver writes beside the first partition that this run has committed.
        return sorted(commits.committed())[:FIRST]

    return HandoverWatch(HandoverClient(options.kafka, options.group_id, places), run, commits)


class HandoverWatch:
    """Watches for a driver that asks, and stops planning once asked; methods may be called from any thread."""

    def __init__(self, client: HandoverClient, run: RunName, commits: GroupCommits) -> None:
        self._client, self._run, self._commits = client, run, commits
        self._fenced_runs: frozenset[str] = frozenset()  # by this run, as they say
        self._farewell_over = False  # the successor has its record, or can't get one
        self._changed = threading.Condition()
        self._running = RunningSide()
        self._planned: Offsets | None = None  # the end of the last batch
        self._closed = self._denied = self._declines = False
        self._written = False  # ``parked``
        self._next_look = self._next_renewal = 0.0
        self._renewals = 0
        self._thread = Supervised("cohort-handover", self._wait, self._work, self._fail, ended=client.close)

    def start(self) -> None:
        """Watch from now on."""
        self._thread.start()

    def close(self) -> None:
        """Watch no more; a run that was fenced says so first."""
        with self._changed:
            self._next_look = 0.0 if self._commits.successor() else self._next_look
            self._changed.notify_all()
        self._await(lambda: self._farewell_over or self._closed or self._commits.successor() is None, FAREWELL_S)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.close()

    # --- what the query does -----------------------------------------------------------------------------

    @property
    def requested(self) -> bool:
        """Whether a newer driver waits for this query to stop."""
        return self._running.request is not None

    @property
    def fencings(self) -> int:
        """How many drivers this run has fenced that still ran."""
        return len(self._fenced_runs)

    @property
    def handed_over(self) -> bool:
        """Whether nothing is planned any more, because a newer driver starts."""
        return self._running.state is RunningState.PARKED

    def check(self) -> None:
        """Raises CohortError (HANDED_OVER) where nothing is planned any more."""
        if self.handed_over:
            self._await(lambda: self._written or self._closed or self._commits.successor() is not None, ANSWER_S)
            raise self._handed_over()

    def plan(self, end: Offsets) -> None:
        """A batch to ``end`` is about to be planned.  Raises CohortError (HANDED_OVER) where none is any more."""
        with self._changed:
            self._feed(RunningEvent.PLANNED)
            self._planned = end
        self.check()

    def reach(self, *, late: bool = False) -> None:
        """All that was planned is in Spark's commit log, and was given to be committed; ``late``: that can't be told.

        Raises CohortError (HANDED_OVER) where a newer driver may start already.  A late query takes no request: the next
        driver fences it.
        """
        if late:
            self._declines = True
            return
        self._feed(RunningEvent.CLEAN_POINT)
        self._park_if_asked(COMMITS_S)
        self.check()

    def logged(self, end: Offsets) -> None:
        """As ``reach`` for the batch that was planned to ``end``, when a listener reports it; raises nothing, does not wait."""
        with self._changed:
            if end == self._planned:
                self._feed(RunningEvent.CLEAN_POINT)
                self._next_look = 0.0 if self.requested else self._next_look

    def _park_if_asked(self, timeout_s: float) -> None:
        """Plan nothing more where a driver asks, at a clean point, and Kafka takes all commits in time."""
        with self._changed:
            planned, may_park = self._planned, self._running.may_park
        try:
            if not may_park or not self._commits.flush(timeout_s):
                return
        except CohortError as error:  # fenced, for one: the query's next commit raises it
            log.debug("%s", error)
            return
        with self._changed:
            if self._planned is planned:  # else these were not the commits of the last batch
                self._feed(RunningEvent.COMMITS_TAKEN)
                self._next_look = 0.0

    def _await(self, reached: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not reached() and time.monotonic() < deadline:
                self._changed.wait(0.1)

    def _handed_over(self) -> CohortError:
        record = self._running.request
        recipient = f" to {record.text}" if record is not None and record.text else ""
        return CohortError(
            f"HANDED_OVER: group {self._client.group_id} was handed over{recipient}: every batch of this query is in its checkpoint "
            "and committed, and the next driver goes on from there. The query has ended on purpose; nothing is to be done",
            "HANDED_OVER",
        )

    # --- the thread ----------------------------------------------------------------------------------------

    def _feed(self, event: HandoverRecord | RunningEvent) -> None:
        with self._changed:
            self._running = machine.step_running(self._running, event)
            self._changed.notify_all()

    def _wait(self) -> bool:
        with self._changed:
            while not self._closed and (left_s := self._next_look - time.monotonic()) > 0:
                self._changed.wait(left_s)
            return not self._closed

    def _work(self) -> None:
        self._next_look = time.monotonic() + WATCH_S
        try:
            self._look()
        except HandoverDenied as error:
            self._next_look = time.monotonic() + DENIED_S
            self._farewell_over = self._commits.successor() is not None
            if not self._denied:
                self._denied = True
                log.info("no driver can ask this query to hand over, and a newer one fences it: %s", error)
        except HandoverDelayed as error:
            log.debug("%s", error)

    def _look(self) -> None:
        if (successor := self._commits.successor()) is not None:
            self._say_farewell(successor)
        elif self.handed_over:
            self._write_answer()
        else:
            records = [record for record in self._client.records() if record.target == self._run]
            self._count_fenced([record for record in records if record.answer is machine.HandoverAnswer.FENCED])
            for record in () if self._declines else records:
                if record.answer in _OPEN:
                    self._hear(record)
            self._park_if_asked(QUICK_S)

    def _hear(self, record: HandoverRecord) -> None:
        """Tell the asking driver that this one lives, first and then again; the request counts when Kafka has that."""
        request, now = self._running.request, time.monotonic()
        if request is None or request.request != record.request or now >= self._next_renewal:
            record = replace(record, answer=machine.HandoverAnswer.CONFIRMED, renewal=self._renewals + 1)
            self._client.write(record)
            self._renewals, self._next_renewal = self._renewals + 1, now + machine.RENEWAL_MS / 1000
        self._feed(record)

    def _write_answer(self) -> None:
        """Write ``parked``, at each look until Kafka has it: where the request stands now."""
        if self._written or self._running.request is None:
            return
        self._client.records()
        self._client.write(replace(self._running.request, answer=machine.HandoverAnswer.PARKED))
        with self._changed:
            self._written = True
            self._changed.notify_all()
        log.warning("%s", self._handed_over())
        self._commits.end()

    def _say_farewell(self, successor: RunName) -> None:
        """Tell the run that has fenced this one, once; a request that stands there is not overwritten."""
        records = self._client.records()
        if not self._farewell_over and not any(record.run >= successor.run for record in records):
            answer = machine.HandoverAnswer.FENCED
            self._client.write(HandoverRecord(answer, self._run.id, *successor, socket.gethostname()))
        self._farewell_over = True

    def _count_fenced(self, records: list[HandoverRecord]) -> None:
        """Count each driver that says it was fenced by this run, when its word is first read."""
        for record in records:
            if record.request not in self._fenced_runs:
                log.warning(
                    "group %s: a driver on %s still ran when this query took the group over, and was fenced: unless this is "
                    "a deploy, the job was started twice",
                    self._client.group_id,
                    printable(record.text, machine.LONGEST_TEXT),
                )
        self._fenced_runs |= {record.request for record in records}

    def _fail(self, error: CohortError) -> None:
        """The query goes on, and can't be asked any more."""
        log.warning("no driver can ask this query to hand over: %s", error)
        with self._changed:
            self._closed = True
            if not self.handed_over:
                self._running = RunningSide()
            self._changed.notify_all()


_OPEN = frozenset({machine.HandoverAnswer.REQUESTED, machine.HandoverAnswer.CONFIRMED})
