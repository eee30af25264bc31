"""Every state that two drivers of one sink, two tasks with two attempts each, and Kafka's transactions can reach.

The drivers' commits are the product's (``batch_commit``), and so is the rule when a transactional id can be used again.  Kafka is as
its transaction coordinator is for clients of transaction version 1: InitProducerId aborts what is open and begins an epoch; EndTxn
compares producer and epoch, and says the same again when it is asked again; a time-out aborts, and begins an epoch.  An
InitProducerId that got no answer arrives at any later moment, or never; the attempt has gone on under another id.

Its leaders ask the coordinator whether a partition is part of a transaction (KIP-890), or do not (``checks``): then what an attempt
writes after its transaction's end begins another one that the coordinator knows nothing of, and that the next marker of this producer
ends, whatever its epoch.

Anybody may stop at any step, for good or until later: a driver, or an attempt, that is not moved for a while is frozen, one that is
never moved again is dead.  The second driver may start in any state, beside the first.  A task that has woken writes what it had to
write.  The partitions that a transaction wrote to become visible one by one in Kafka; here a transaction stands for them.

Laws, in every state:

* rows of a task are visible once at most, and not before the decision for their batch;
* what a decision names is open or committed, unless its time-out has struck it since (the hole, row 6 of docs/audit/exactly-once.md);
* when Spark has logged a batch as committed, all of it is visible.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from sparkcohort.runtime.kafka import batch_commit
from sparkcohort.runtime.kafka.batch_commit import (
    BatchCommit,
    CommitFailure,
    CommitPhase,
    EndResult,
    NameUse,
)
from sparkcohort.runtime.kafka.decision import Committable, SinkDecision, SinkTransaction
from sparkcohort.runtime.kafka.produce_messages import ProducerId

QUERY: Final = "q"
TASKS, ATTEMPTS, IDS = 2, 2, 3
NEVER: Final = 1 << 30
LONG: Final = 60.0


class Id(NamedTuple):
    """A transactional id at its coordinator: ``rows`` are (batch, task) of the transaction that is open or was ended last."""

    epoch: int = 0
    status: str = "empty"  # open, committed, aborted
    rows: tuple[int, int] | None = None
    late: tuple[int, int] | None = None  # written after the end, to a leader that does not check
    is_asked: bool = False  # an InitProducerId is on its way


class Attempt(NamedTuple):
    """A worker that runs attempts of one task: which batch, and how far; ``uses`` are the last batches of its ids."""

    batch: int = 0
    stage: str = "idle"  # begun, half, written, refused
    which: int = 0  # of its ids
    epoch: int = 0
    uses: tuple[int, ...] = (-9, -9, -9)


class Driver(NamedTuple):
    """A driver of the query; ``todo`` and ``results`` are those of the transactions that it ends one by one."""

    stage: str = "absent"  # tasks, commit, told, failed, ended; a commit that settles comes first
    batch: int = 0
    epoch: int = -1  # of the control id
    attempts: tuple[Attempt, ...] = (Attempt(),) * (TASKS * ATTEMPTS)
    commit: BatchCommit | None = None
    todo: tuple[SinkTransaction, ...] = ()
    results: tuple[tuple[SinkTransaction, EndResult], ...] = ()


class World(NamedTuple):
    """All there is; ``control`` is the epoch of the control id, ``logged`` Spark's last committed batch."""

    ids: tuple[Id, ...]
    drivers: tuple[Driver, ...]
    visible: tuple[int, ...]  # rows by (batch, task)
    decision: SinkDecision | None = None
    control: int = 0
    logged: int = 0
    struck: bool = False  # a time-out has aborted what was decided
    time_outs: int = 0  # that may still strike
    unanswered: int = 0  # InitProducerIds that may still get no answer


@dataclass
class Explorer:
    """Breadth first; AssertionError where a law is broken.

    Rules that can be left out, each of which has to break a law: ``rest`` of ids, the ``run`` and the ``batch`` that are compared
    before a decision, ``check`` of open transactions, ``fenced`` decisions, ``another`` id where no answer came, and without ``checks``
    that an id is used again only if its transaction was ``open`` after the last write.
    """

    batches: int = 2
    time_outs: int = 1
    unanswered: int = 0
    drivers: int = 2
    retries: bool = True  # second attempts
    checks: bool = True  # of leaders
    tasks: int = TASKS
    broken: str = ""
    seen: set[int] = field(default_factory=set)
    ends: set[str] = field(default_factory=set)  # how drivers have ended

    def explore(self, most: int | None = None) -> int:
        """All states, or the first ``most``; returns how many."""
        first = World(
            (Id(),) * (self.drivers * TASKS * ATTEMPTS * IDS),
            (Driver(),) * self.drivers,
            (0,) * ((self.batches + 1) * TASKS),
            time_outs=self.time_outs,
            unanswered=self.unanswered,
        )
        self.seen = {hash(first)}
        waiting = deque([first])
        while waiting and (most is None or len(self.seen) < most):
            world = waiting.popleft()
            for label, after in self.moves(world):
                key = hash(after)
                if key not in self.seen:
                    self.seen.add(key)
                    self.check(after, label)
                    waiting.append(after)
        return len(self.seen)

    def check(self, world: World, label: str) -> None:
        """The laws."""
        decided = max(world.decision.batch, 0) if world.decision is not None else 0
        for place, count in enumerate(world.visible):
            batch, task = divmod(place, TASKS)
            assert count <= 1, f"rows are visible twice, after: {label}"
            assert not count or batch <= decided, f"rows are visible and not decided, after: {label}"
            assert count or task >= self.tasks or not 0 < batch <= world.logged, f"rows are lost, after: {label}"
        for each in world.decision.committables if world.decision is not None and not world.struck else ():
            entry = world.ids[int(each.transaction.name)]
            is_whole = entry.epoch == each.transaction.producer.epoch and entry.status in ("open", "committed")
            assert is_whole, f"a decided transaction is {entry}, after: {label}"
        for driver in world.drivers:
            if driver.stage == "failed" and driver.commit is not None:
                self.ends.add(driver.commit.failure.name if driver.commit.failure is not None else "")
                partly = driver.commit.failure is CommitFailure.PARTLY_COMMITTED
                assert not partly or world.struck, f"a hole without a time-out, after: {label}"
            elif driver.stage == "ended":
                self.ends.add("ended")

    # --- what can happen -------------------------------------------------------------------------------

    def moves(self, world: World) -> Iterator[tuple[str, World]]:
        """Every step of anybody."""
        for number, driver in enumerate(world.drivers):
            if driver.stage == "absent":
                if number == 0 or world.drivers[number - 1].stage != "absent":
                    yield f"driver {number} starts", self.start(world, number)
                continue
            yield from self.attempt_moves(world, number, driver)
            yield from self.driver_moves(world, number, driver)
        for place, entry in enumerate(world.ids):
            if entry.is_asked:
                status = "aborted" if entry.status == "open" else entry.status
                late = entry._replace(epoch=entry.epoch + 1, status=status, is_asked=False)
                yield f"late InitProducerId of {place}", world._replace(ids=_put(world.ids, place, late))
        if world.time_outs:
            for place, entry in enumerate(world.ids):
                if entry.status == "open":
                    ids = _put(world.ids, place, entry._replace(epoch=entry.epoch + 1, status="aborted"))
                    yield (
                        f"time-out of {place}",
                        world._replace(
                            ids=ids,
                            time_outs=world.time_outs - 1,
                            struck=world.struck or _transaction(place, entry) in {*_decided(world), *_checked(world)},
                        ),
                    )

    def start(self, world: World, number: int) -> World:
        """A driver begins with the batch behind Spark's log: it settles the sink."""
        batch = world.logged + 1
        if batch > self.batches:
            return _with_driver(world, number, Driver("ended", batch))
        return _with_driver(
            world, number, Driver("commit", batch, commit=BatchCommit("", -1, (), str(number), settles=True))
        )

    def attempt_moves(self, world: World, number: int, driver: Driver) -> Iterator[tuple[str, World]]:
        """An attempt begins a transaction, or writes: also one whose driver has gone on."""
        for place, attempt in enumerate(driver.attempts[: self.tasks * ATTEMPTS]):
            label = f"driver {number} attempt {place}"
            if attempt.stage in ("begun", "half"):
                yield f"{label} writes", self._write(world, number, place, attempt)
            elif driver.stage == "tasks" and self._may_begin(driver, place):
                yield f"{label} begins", self._begin(world, number, place, attempt, driver.batch)
                if world.unanswered:
                    asked = self._begin(world, number, place, attempt, driver.batch, is_answered=False)
                    yield f"{label} begins at the second try", asked

    def _write(self, world: World, number: int, place: int, attempt: Attempt) -> World:
        """All that it has to write; without checks a part, and then the rest."""
        where, rows = self._id_place(number, place, attempt.which), (attempt.batch, place // ATTEMPTS)
        entry, status = world.ids[where], "empty" if attempt.stage == "begun" else "open"
        is_over = entry.epoch == attempt.epoch and entry.status in ("aborted", "committed")
        after = attempt._replace(stage="half" if attempt.stage == "begun" and not self.checks else "written")
        if (entry.epoch, entry.status) == (attempt.epoch, status):
            entry = entry._replace(status="open", rows=rows)
        elif is_over and attempt.stage == "half":
            entry = entry._replace(late=rows)
            if self.broken != "open":
                after = after._replace(uses=_put(after.uses, after.which, NEVER))
        else:
            after = attempt._replace(stage="refused", uses=_put(after.uses, after.which, NEVER))
        return _with_attempt(world._replace(ids=_put(world.ids, where, entry)), number, place, after)

    def _may_begin(self, driver: Driver, place: int) -> bool:
        attempt = driver.attempts[place]
        first = driver.attempts[place - place % ATTEMPTS]
        is_first = place % ATTEMPTS == 0
        return attempt.batch < driver.batch and (is_first or (self.retries and first.batch == driver.batch))

    def _begin(
        self, world: World, number: int, place: int, attempt: Attempt, batch: int, *, is_answered: bool = True
    ) -> World:
        """InitProducerId of an id that is free; where it is not answered, of the next one."""
        free = (which for which, last in enumerate(attempt.uses) if self._is_free(last, batch))
        which = next(free)
        if not is_answered:
            where = self._id_place(number, place, which)
            ids = _put(world.ids, where, world.ids[where]._replace(is_asked=True))
            world = world._replace(ids=ids, unanswered=world.unanswered - 1)
            if self.broken != "another":
                attempt = attempt._replace(uses=_put(attempt.uses, which, NEVER))
                which = next(free)
        where = self._id_place(number, place, which)
        entry = world.ids[where]
        begun = entry._replace(epoch=entry.epoch + 1, status="empty", rows=None)
        ids = _put(world.ids, where, begun)
        uses = _put(attempt.uses, which, batch)
        if attempt.stage in ("begun", "half") and self.broken != "open":  # given up: nobody has looked
            uses = _put(uses, attempt.which, NEVER)
        after = Attempt(batch, "begun", which, entry.epoch + 1, uses)
        return _with_attempt(world._replace(ids=ids), number, place, after)

    def _is_free(self, last: int, batch: int) -> bool:
        return self.broken == "rest" or batch_commit.is_free(NameUse("", last), batch)

    def _id_place(self, number: int, place: int, which: int) -> int:
        return (number * TASKS * ATTEMPTS + place) * IDS + which

    def driver_moves(self, world: World, number: int, driver: Driver) -> Iterator[tuple[str, World]]:
        """The next step of a driver."""
        label = f"driver {number}"
        if driver.stage == "commit" and driver.todo:
            aborts = driver.commit is not None and driver.commit.phase is CommitPhase.ABORT
            yield f"{label} ends {driver.todo[0].name}", _end_first(world, number, driver, commit=not aborts)
        elif driver.stage == "tasks":
            for committables in self._messages(world, number, driver):
                commit = BatchCommit(QUERY, driver.batch, committables, str(number), 1.0)
                yield f"{label} commits", _with_driver(world, number, driver._replace(stage="commit", commit=commit))
        elif driver.commit is not None and driver.stage in ("commit", "told"):
            yield f"{label} {driver.commit.phase.name}", self._commit_step(world, number, driver, driver.commit)

    def _messages(self, world: World, number: int, driver: Driver) -> Iterator[tuple[Committable, ...]]:
        """One attempt of each task that has written (``OutputCommitCoordinator``)."""
        choices = [
            [
                Committable(
                    SinkTransaction(str(self._id_place(number, place, attempt.which)), ProducerId(0, attempt.epoch)), ()
                )
                for place, attempt in enumerate(driver.attempts)
                if place // ATTEMPTS == task and (attempt.batch, attempt.stage) == (driver.batch, "written")
            ]
            for task in range(self.tasks)
        ]
        return itertools.product(*choices)

    def _commit_step(self, world: World, number: int, driver: Driver, commit: BatchCommit) -> World:
        if driver.stage == "told":  # whether the decision is written
            commit = commit.decided(is_written=driver.epoch == world.control)
            return self._after(world, number, driver, commit)
        if commit.phase is CommitPhase.CLAIM:
            world = world._replace(control=world.control + 1)
            return self._after(world, number, driver._replace(epoch=world.control), commit.claimed())
        if commit.phase is CommitPhase.READ:
            last = world.decision
            if self.broken == "run" and last is not None:
                last = replace(last, run=commit.run)
            if self.broken == "batch" and not commit.settles:
                last = SinkDecision(QUERY, -1, (), commit.run)
            after = commit.read(last)
            return self._after(world, number, driver, after)
        if commit.phase is CommitPhase.CHECK:
            open_now = _open(world)
            if self.broken == "check":
                open_now |= {each.transaction for each in commit.committables}
            return self._after(world, number, driver, commit.checked(dict.fromkeys(open_now, LONG)))
        if commit.phase is CommitPhase.DECIDE:
            if driver.epoch != world.control and self.broken != "fenced":
                return self._after(world, number, driver, commit.decided(is_written=False))
            world = world._replace(decision=commit.proposal)
            return _with_driver(world, number, driver._replace(stage="told"))
        if commit.phase is CommitPhase.COMMIT:
            return self._after(world, number, driver, commit.committed(dict(driver.results)))
        return self._after(world, number, driver, commit.aborted())

    def _after(self, world: World, number: int, driver: Driver, commit: BatchCommit) -> World:
        """The driver after a step of its commit."""
        todo: tuple[SinkTransaction, ...] = ()
        if commit.phase is CommitPhase.COMMIT and commit.decision is not None:
            todo = tuple(each.transaction for each in commit.decision.committables)
        elif commit.phase is CommitPhase.ABORT:
            todo = tuple(sorted(commit.leftovers))
        driver = driver._replace(stage="commit", commit=commit, todo=todo, results=())
        if commit.phase is CommitPhase.FAILED:
            return _with_driver(world, number, driver._replace(stage="failed"))
        if commit.phase is not CommitPhase.DONE:
            return _with_driver(world, number, driver)
        if commit.settles:
            return _with_driver(world, number, self._begun(driver, commit))
        if world.logged >= driver.batch:  # Spark: "Concurrent update to the commit log"
            return _with_driver(world, number, driver._replace(stage="failed", commit=None))
        world = world._replace(logged=driver.batch)
        stage = "tasks" if driver.batch < self.batches else "ended"
        return _with_driver(world, number, driver._replace(stage=stage, batch=driver.batch + 1, commit=None, todo=()))

    def _begun(self, driver: Driver, settled: BatchCommit) -> Driver:
        """A settled sink's driver: the tasks of a batch that is decided write nothing."""
        if settled.decision is not None and settled.decision.batch == driver.batch:
            return driver._replace(stage="commit", commit=BatchCommit(QUERY, driver.batch, (), settled.run, 1.0))
        return driver._replace(stage="tasks", commit=None)


def _end_first(world: World, number: int, driver: Driver, *, commit: bool) -> World:
    """EndTxn of the next transaction."""
    transaction = driver.todo[0]
    place = int(transaction.name)
    entry = world.ids[place]
    is_same = entry.epoch == transaction.producer.epoch
    if is_same and entry.status == "open":
        visible = world.visible
        for rows in (entry.rows, entry.late) if commit else ():
            if rows is not None:
                where = rows[0] * TASKS + rows[1]
                visible = _put(visible, where, visible[where] + 1)
        status = "committed" if commit else "aborted"
        world = world._replace(ids=_put(world.ids, place, entry._replace(status=status, late=None)), visible=visible)
    is_ended = is_same and (entry.status == "open" or (entry.status == "committed") == commit)
    result = transaction, EndResult.ENDED if is_ended else EndResult.REFUSED
    return _with_driver(world, number, driver._replace(todo=driver.todo[1:], results=(*driver.results, result)))


def _open(world: World) -> set[SinkTransaction]:
    return {_transaction(place, entry) for place, entry in enumerate(world.ids) if entry.status == "open"}


def _transaction(place: int, entry: Id) -> SinkTransaction:
    return SinkTransaction(str(place), ProducerId(0, entry.epoch))


def _checked(world: World) -> set[SinkTransaction]:
    """What drivers are about to decide: a driver that is frozen here until the time-out strikes has the hole, too."""
    commits = (each.commit for each in world.drivers if each.commit is not None)
    return {
        each.transaction for commit in commits if commit.phase is CommitPhase.DECIDE for each in commit.committables
    }


def _decided(world: World) -> tuple[SinkTransaction, ...]:
    return tuple(each.transaction for each in world.decision.committables) if world.decision is not None else ()


def _put(values: tuple[Any, ...], place: int, value: object) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])


def _with_driver(world: World, number: int, driver: Driver) -> World:
    return world._replace(drivers=_put(world.drivers, number, driver))


def _with_attempt(world: World, number: int, place: int, attempt: Attempt) -> World:
    driver = world.drivers[number]
    return _with_driver(world, number, driver._replace(attempts=_put(driver.attempts, place, attempt)))


def main() -> None:
    """Explore, and print how many states there are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--time-outs", type=int, default=1)
    parser.add_argument(
        "--unanswered", type=int, default=0, help="InitProducerIds without an answer, which arrive late"
    )
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--drivers", type=int, default=2)
    parser.add_argument("--no-retries", action="store_true", help="one attempt of each task")
    parser.add_argument(
        "--no-checks", action="store_true", help="leaders that don't ask coordinators (before Kafka 3.6)"
    )
    parser.add_argument(
        "--without", default="", help="a rule to leave out: rest, run, batch, check, fenced, another, open"
    )
    parser.add_argument("--most", type=int, help="states to look at")
    arguments = parser.parse_args()
    explorer = Explorer(
        batches=arguments.batches,
        time_outs=arguments.time_outs,
        unanswered=arguments.unanswered,
        drivers=arguments.drivers,
        retries=not arguments.no_retries,
        checks=not arguments.no_checks,
        tasks=arguments.tasks,
        broken=arguments.without,
    )
    began = time.monotonic()
    count = explorer.explore(arguments.most)
    print(  # noqa: T201
        f"{count:,} states in {time.monotonic() - began:.0f} s, no law broken; drivers ended: {sorted(explorer.ends)}"
    )


if __name__ == "__main__":
    main()
