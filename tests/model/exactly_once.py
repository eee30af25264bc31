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
Of states that are alike one is looked at (``sink_states``).

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
from typing import Final

from sparkcohort.runtime.kafka import batch_commit
from sparkcohort.runtime.kafka.batch_commit import (
    BatchCommit,
    CommitFailure,
    CommitPhase,
    EndResult,
    NameUse,
)
from sparkcohort.runtime.kafka.decision import Committable, SinkDecision, SinkTransaction
from tests.model.sink_states import (
    ATTEMPTS,
    IDS,
    NEVER,
    TASKS,
    WORKERS,
    Attempt,
    Driver,
    Id,
    World,
    put,
    reduced,
    task_of,
    transaction_of,
)

QUERY: Final = "q"
LONG: Final = 60.0


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
        first = self.first()
        self.seen = {hash(first)}
        waiting = deque([first])
        while waiting and (most is None or len(self.seen) < most):
            world = waiting.popleft()
            for label, each in self.moves(world):
                after = self.reduced(each)
                key = hash(after)
                if key not in self.seen:
                    self.seen.add(key)
                    self.check(after, label)
                    waiting.append(after)
        return len(self.seen)

    def first(self) -> World:
        """Nobody has begun."""
        return World(
            (Id(),) * (self.drivers * WORKERS * IDS),
            (Driver(),) * self.drivers,
            (0,) * ((self.batches + 1) * TASKS),
            time_outs=self.time_outs,
            unanswered=self.unanswered,
        )

    def reduced(self, world: World) -> World:
        """The one state for all that are like this one."""
        return reduced(world, self.batches, tasks=self.tasks, retries=self.retries)

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
                yield f"late InitProducerId of {place}", world._replace(ids=put(world.ids, place, late))
        if world.time_outs:
            for place, entry in enumerate(world.ids):
                if entry.status == "open":
                    ids = put(world.ids, place, entry._replace(epoch=entry.epoch + 1, status="aborted"))
                    yield (
                        f"time-out of {place}",
                        world._replace(
                            ids=ids,
                            time_outs=world.time_outs - 1,
                            struck=world.struck
                            or transaction_of(place, entry.epoch) in {*_decided(world), *_checked(world)},
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
                yield from self._begin(world, number, place, attempt, driver.batch)

    def _write(self, world: World, number: int, place: int, attempt: Attempt) -> World:
        """All that it has to write; without checks a part, and then the rest."""
        where = self._id_place(number, place, attempt.which)
        entry, status = world.ids[where], "empty" if attempt.stage == "begun" else "open"
        is_over = entry.epoch == attempt.epoch and entry.status in ("aborted", "committed")
        after = attempt._replace(stage="half" if attempt.stage == "begun" and not self.checks else "written")
        if (entry.epoch, entry.status) == (attempt.epoch, status):
            entry = entry._replace(status="open", batch=attempt.batch)
        elif is_over and attempt.stage == "half":
            entry = entry._replace(late=attempt.batch)
            if self.broken != "open":
                after = after._replace(uses=put(after.uses, after.which, NEVER))
        else:
            after = attempt._replace(stage="refused", uses=put(after.uses, after.which, NEVER))
        return _with_attempt(world._replace(ids=put(world.ids, where, entry)), number, place, after)

    def _may_begin(self, driver: Driver, place: int) -> bool:
        return driver.attempts[place].batch < driver.batch and (self.retries or place % ATTEMPTS == 0)

    def _begin(
        self, world: World, number: int, place: int, attempt: Attempt, batch: int
    ) -> Iterator[tuple[str, World]]:
        """InitProducerId of any id that is free; where it is not answered, of another one."""
        free = [which for which, last in enumerate(attempt.uses) if self._is_free(last, batch)]
        assert free, "a worker has no id left: the model needs more of them"
        for which in free:
            yield f"driver {number} attempt {place} begins", self._begun(world, number, place, attempt, batch, which)
        for which, other in itertools.permutations(free, 2) if world.unanswered else ():
            where = self._id_place(number, place, which)
            ids = put(world.ids, where, world.ids[where]._replace(is_asked=True))
            asked = world._replace(ids=ids, unanswered=world.unanswered - 1)
            if self.broken == "another":
                after = self._begun(asked, number, place, attempt, batch, which)
            else:
                rests = attempt._replace(uses=put(attempt.uses, which, NEVER))
                after = self._begun(asked, number, place, rests, batch, other)
            yield f"driver {number} attempt {place} begins at the second try", after

    def _begun(self, world: World, number: int, place: int, attempt: Attempt, batch: int, which: int) -> World:
        """InitProducerId is answered."""
        where = self._id_place(number, place, which)
        entry = world.ids[where]
        begun = entry._replace(epoch=entry.epoch + 1, status="empty", batch=0)
        uses = put(attempt.uses, which, batch)
        if attempt.stage in ("begun", "half") and self.broken != "open":  # given up: nobody has looked
            uses = put(uses, attempt.which, NEVER)
        after = Attempt(batch, "begun", which, entry.epoch + 1, uses)
        return _with_attempt(world._replace(ids=put(world.ids, where, begun)), number, place, after)

    def _is_free(self, last: int, batch: int) -> bool:
        return self.broken == "rest" or batch_commit.is_free(NameUse("", last), batch)

    def _id_place(self, number: int, place: int, which: int) -> int:
        return (number * WORKERS + place) * IDS + which

    def driver_moves(self, world: World, number: int, driver: Driver) -> Iterator[tuple[str, World]]:
        """The next step of a driver."""
        label = f"driver {number}"
        if driver.stage == "commit" and driver.todo:
            aborts = driver.commit is not None and driver.commit.phase is CommitPhase.ABORT
            for transaction in driver.todo:
                yield f"{label} ends {transaction.name}", _end(world, number, driver, transaction, commit=not aborts)
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
                Committable(transaction_of(self._id_place(number, place, attempt.which), attempt.epoch), ())
                for place, attempt in enumerate(driver.attempts)
                if place // ATTEMPTS == task and (attempt.batch, attempt.stage) == (driver.batch, "written")
            ]
            for task in range(self.tasks)
        ]
        return itertools.product(*choices)

    def _commit_step(self, world: World, number: int, driver: Driver, commit: BatchCommit) -> World:
        if driver.stage == "told":  # whether the decision is written
            commit = commit.decided(is_written=world.owner == number)
            return self._after(world, number, driver, commit)
        if commit.phase is CommitPhase.CLAIM:
            return self._after(world._replace(owner=number), number, driver, commit.claimed())
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
            if world.owner != number and self.broken != "fenced":
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
            self.ends.add(commit.failure.name if commit.failure is not None else "")
            assert commit.failure is not CommitFailure.PARTLY_COMMITTED or world.struck, "a hole without a time-out"
            return _with_driver(world, number, driver._replace(stage="failed"))
        if commit.phase is not CommitPhase.DONE:
            return _with_driver(world, number, driver)
        if commit.settles:
            return _with_driver(world, number, self._settled(driver, commit))
        if world.logged >= driver.batch:  # Spark: "Concurrent update to the commit log"
            return _with_driver(world, number, driver._replace(stage="failed", commit=None))
        world = world._replace(logged=driver.batch)
        stage = "tasks" if driver.batch < self.batches else "ended"
        if stage == "ended":
            self.ends.add(stage)
        return _with_driver(world, number, driver._replace(stage=stage, batch=driver.batch + 1, commit=None, todo=()))

    def _settled(self, driver: Driver, settled: BatchCommit) -> Driver:
        """A settled sink's driver: the tasks of a batch that is decided write nothing."""
        if settled.decision is not None and settled.decision.batch == driver.batch:
            return driver._replace(stage="commit", commit=BatchCommit(QUERY, driver.batch, (), settled.run, 1.0))
        return driver._replace(stage="tasks", commit=None)


def _end(world: World, number: int, driver: Driver, transaction: SinkTransaction, *, commit: bool) -> World:
    """EndTxn of a transaction."""
    place = int(transaction.name)
    entry = world.ids[place]
    is_same = entry.epoch == transaction.producer.epoch
    if is_same and entry.status == "open":
        visible = world.visible
        for batch in (entry.batch, entry.late) if commit else ():
            if batch:
                where = batch * TASKS + task_of(place)
                visible = put(visible, where, visible[where] + 1)
        status = "committed" if commit else "aborted"
        world = world._replace(ids=put(world.ids, place, entry._replace(status=status, late=0)), visible=visible)
    is_ended = is_same and (entry.status == "open" or (entry.status == "committed") == commit)
    result = transaction, EndResult.ENDED if is_ended else EndResult.REFUSED
    todo = tuple(each for each in driver.todo if each != transaction)
    results = tuple(sorted((*driver.results, result), key=lambda each: each[0])) if commit else ()
    return _with_driver(world, number, driver._replace(todo=todo, results=results))


def _open(world: World) -> set[SinkTransaction]:
    return {transaction_of(place, entry.epoch) for place, entry in enumerate(world.ids) if entry.status == "open"}


def _checked(world: World) -> set[SinkTransaction]:
    """What drivers are about to decide: a driver that is frozen here until the time-out strikes has the hole, too."""
    commits = (each.commit for each in world.drivers if each.commit is not None)
    return {
        each.transaction for commit in commits if commit.phase is CommitPhase.DECIDE for each in commit.committables
    }


def _decided(world: World) -> tuple[SinkTransaction, ...]:
    return tuple(each.transaction for each in world.decision.committables) if world.decision is not None else ()


def _with_driver(world: World, number: int, driver: Driver) -> World:
    return world._replace(drivers=put(world.drivers, number, driver))


def _with_attempt(world: World, number: int, place: int, attempt: Attempt) -> World:
    driver = world.drivers[number]
    return _with_driver(world, number, driver._replace(attempts=put(driver.attempts, place, attempt)))


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
