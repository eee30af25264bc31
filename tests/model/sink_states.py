"""The states of ``exactly_once``'s model, and which of them are alike.

Two states are alike when they differ only

* in what nobody will ask for again: an epoch that nothing names, the last words of a driver that is over;
* in which of a task's attempts is which, or which task: all do the same.

``reduced`` gives one state for all that are alike, so that a model with two attempts of each task can be looked at whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple

from sparkcohort.runtime.kafka.batch_commit import BatchCommit, CommitPhase, EndResult, NameUse, is_free
from sparkcohort.runtime.kafka.decision import Committable, SinkDecision, SinkTransaction
from sparkcohort.runtime.kafka.produce_messages import ProducerId

TASKS, ATTEMPTS, IDS = 2, 2, 4
WORKERS: Final = TASKS * ATTEMPTS
UNUSED: Final = -9
NEVER: Final = 1 << 30
WRITING: Final = "begun", "half", "written"
OVER: Final = "failed", "ended"


class Id(NamedTuple):
    """A transactional id at its coordinator: ``batch`` is that of the rows in the transaction that is open or was ended last."""

    epoch: int = 0
    status: str = "empty"  # open, committed, aborted
    batch: int = 0
    late: int = 0  # batch of the rows written after the end, to a leader that does not check
    is_asked: bool = False  # an InitProducerId is on its way


class Attempt(NamedTuple):
    """A worker that runs attempts of one task: which batch, and how far; ``uses`` are the last batches of its ids."""

    batch: int = 0
    stage: str = "idle"  # begun, half, written, refused
    which: int = 0  # of its ids
    epoch: int = 0
    uses: tuple[int, ...] = (UNUSED,) * IDS


class Driver(NamedTuple):
    """A driver of the query; ``todo`` and ``results`` are those of the transactions that it ends one by one."""

    stage: str = "absent"  # tasks, commit, told, failed, ended; a commit that settles comes first
    batch: int = 0
    attempts: tuple[Attempt, ...] = (Attempt(),) * WORKERS
    commit: BatchCommit | None = None
    todo: tuple[SinkTransaction, ...] = ()
    results: tuple[tuple[SinkTransaction, EndResult], ...] = ()


class World(NamedTuple):
    """All there is; ``owner`` is the driver with the control id's newest epoch, ``logged`` Spark's last committed batch."""

    ids: tuple[Id, ...]
    drivers: tuple[Driver, ...]
    visible: tuple[int, ...]  # rows by (batch, task)
    decision: SinkDecision | None = None
    owner: int = -1
    logged: int = 0
    struck: bool = False  # a time-out has aborted what was decided
    time_outs: int = 0  # that may still strike
    unanswered: int = 0  # InitProducerIds that may still get no answer


def transaction_of(place: int, epoch: int) -> SinkTransaction:
    """The transaction of an id's epoch; names sort as their places do."""
    return SinkTransaction(f"{place:02d}", ProducerId(0, epoch))


def task_of(place: int) -> int:
    """The task whose attempts use the id at ``place``."""
    return place // (ATTEMPTS * IDS) % TASKS


def put(values: tuple[Any, ...], place: int, value: object) -> tuple[Any, ...]:
    """``values`` with another value at ``place``."""
    return (*values[:place], value, *values[place + 1 :])


Note = tuple[str, int, int, str]
"""Who names a transaction, the driver, the epoch, and what is known."""


class Worker(NamedTuple):
    """A worker with its ids in the order of ``key``; ``places`` and ``epochs`` are by the old places of the ids."""

    attempt: Attempt
    ids: tuple[Id, ...]
    places: tuple[int, ...]
    epochs: tuple[tuple[int, ...], ...]  # that anybody knows, the id's own last: which is newer is all that counts
    key: int


def reduced(world: World, batches: int, *, tasks: int, retries: bool) -> World:
    """The one state for all that are alike; ``batches`` is the last batch that there will be."""
    notes: dict[int, list[Note]] = {}
    for who, number, transaction, state in _named(world):
        notes.setdefault(int(transaction.name), []).append((who, number, transaction.producer.epoch, state))
    workers = []
    for number, driver in enumerate(world.drivers):
        batch, following = driver.batch if driver.stage == "tasks" else -1, _next_batch(driver, batches)
        for place, attempt in enumerate(driver.attempts):
            first = (number * WORKERS + place) * IDS
            known = tuple(tuple(sorted(notes.get(first + which, ()))) for which in range(IDS))
            workers.append(_worker(attempt, world.ids[first : first + IDS], known, batch, following, batches))
    order = _order(world, [each.key for each in workers], tasks=tasks, retries=retries)
    return _in_order(world, workers, order)


def _named(world: World) -> Iterator[tuple[str, int, SinkTransaction, str]]:
    """Each transaction that a decision, or a driver that is not over, names: who, and what is known of it."""
    if world.decision is not None:
        yield from (("decision", 0, each.transaction, "") for each in world.decision.committables)
    for number, driver in enumerate(world.drivers):
        if driver.commit is not None and driver.stage not in OVER:
            ends = "leftover" if driver.commit.phase is CommitPhase.ABORT else "ends"
            yield from ((ends, number, each, "") for each in driver.todo)
            yield from (("commits", number, each.transaction, "") for each in driver.commit.committables)
            yield from (("leftover", number, each, "") for each in driver.commit.leftovers)
            yield from (("ended", number, each, result.name) for each, result in driver.results)
            if driver.commit.decision is not None:
                yield from (("read", number, each.transaction, "") for each in driver.commit.decision.committables)


def _next_batch(driver: Driver, batches: int) -> int:
    """The next batch whose tasks may begin; behind the last one where the driver is over."""
    if driver.stage in OVER:
        return batches + 1
    settles = driver.commit is not None and driver.commit.settles
    return driver.batch if driver.stage in ("absent", "tasks") or settles else driver.batch + 1


@cache
def _worker(
    attempt: Attempt, ids: tuple[Id, ...], notes: tuple[tuple[Note, ...], ...], batch: int, following: int, batches: int
) -> Worker:
    """Without what has no effect on the tasks of ``batch``, which run, nor on those of the ``following`` one."""
    attempt = _attempt(attempt, ids, batch, following, batches)
    writes = attempt.which if attempt.stage in WRITING else -1
    entries, keys, epochs = [], [], []
    for which, (entry, known) in enumerate(zip(ids, notes, strict=True)):
        of_writer = (attempt.epoch,) if which == writes else ()
        epochs.append(tuple(sorted({*of_writer, *(epoch for _, _, epoch, _ in known), entry.epoch})))
        is_known = bool(of_writer or known)
        may_count = bool(of_writer or entry.late or any(who != "leftover" for who, _, _, _ in known))
        is_used = following <= batches and attempt.uses[which] != NEVER
        is_open = entry.status == "open"
        entries.append(
            Id(
                len(epochs[which]) - 1 if is_known else 0,
                entry.status if is_known or is_open else "empty",
                entry.batch if is_open and may_count else 0,
                entry.late,
                entry.is_asked and (is_known or is_open or is_used),
            )
        )
        newer = sorted((who, number, epochs[which].index(epoch), state) for who, number, epoch, state in known)
        keys.append(hash((entries[which], attempt.uses[which], which == writes, *newer)))
    order = sorted(range(IDS), key=keys.__getitem__)
    attempt = attempt._replace(
        which=order.index(writes) if writes >= 0 else 0,
        epoch=epochs[writes].index(attempt.epoch) if writes >= 0 else 0,
        uses=tuple(attempt.uses[which] for which in order),
    )
    places = tuple(order.index(which) for which in range(IDS))
    key = hash((attempt, *sorted(keys)))
    return Worker(attempt, tuple(entries[which] for which in order), places, tuple(epochs), key)


def _attempt(attempt: Attempt, ids: tuple[Id, ...], batch: int, following: int, batches: int) -> Attempt:
    if attempt.stage in ("begun", "half") and ids[attempt.which].epoch != attempt.epoch:  # what it writes is refused
        attempt = Attempt(attempt.batch, "refused", uses=put(attempt.uses, attempt.which, NEVER))
    uses = tuple(
        UNUSED if following > batches or is_free(NameUse("", last), following) else last for last in attempt.uses
    )
    if attempt.stage in ("begun", "half") or (attempt.stage, attempt.batch) == ("written", batch):
        return attempt._replace(uses=uses)
    return Attempt(attempt.batch, "refused", uses=uses) if attempt.batch == batch else Attempt(uses=uses)


def _order(world: World, keys: list[int], *, tasks: int, retries: bool) -> list[int]:
    """The workers in the order of their keys, and the tasks in that of theirs."""
    firsts = range(0, len(keys), ATTEMPTS)
    pairs = [
        sorted(range(first, first + ATTEMPTS), key=keys.__getitem__)
        if retries
        else list(range(first, first + ATTEMPTS))
        for first in firsts
    ]

    def key(task: int) -> int:
        return hash((world.visible[task::TASKS], *(keys[worker] for pair in pairs[task::TASKS] for worker in pair)))

    ordered = sorted(range(TASKS), key=key) if tasks == TASKS else range(TASKS)
    return [worker for first in range(0, len(pairs), TASKS) for task in ordered for worker in pairs[first + task]]


def _in_order(world: World, workers: list[Worker], order: list[int]) -> World:
    """The same with its workers in ``order``, and so what names their ids."""
    new = {old: place for place, old in enumerate(order)}
    tasks = [each // ATTEMPTS % TASKS for each in order[:WORKERS:ATTEMPTS]]

    def one(transaction: SinkTransaction) -> SinkTransaction:
        worker, which = divmod(int(transaction.name), IDS)
        epoch = workers[worker].epochs[which].index(transaction.producer.epoch)
        return transaction_of(new[worker] * IDS + workers[worker].places[which], epoch)

    def several(committables: Iterable[Committable]) -> tuple[Committable, ...]:
        return tuple(sorted(each._replace(transaction=one(each.transaction)) for each in committables))

    def decision(each: SinkDecision | None) -> SinkDecision | None:
        return (
            replace(each, committables=several(each.committables)) if each is not None and each.committables else each
        )

    def commit(each: BatchCommit | None) -> BatchCommit | None:
        if each is None or not (each.committables or each.leftovers or (each.decision and each.decision.committables)):
            return each
        leftovers = frozenset(one(leftover) for leftover in each.leftovers)
        return replace(
            each, committables=several(each.committables), decision=decision(each.decision), leftovers=leftovers
        )

    def driver(number: int, each: Driver) -> Driver:
        attempts = tuple(workers[worker].attempt for worker in order[number * WORKERS : (number + 1) * WORKERS])
        if each.stage in OVER:
            return Driver("ended", 0, attempts)
        results = tuple(sorted(((one(transaction), result) for transaction, result in each.results), key=_transaction))
        todo = tuple(sorted(one(transaction) for transaction in each.todo))
        return Driver(each.stage, each.batch, attempts, commit(each.commit), todo, results)

    return world._replace(
        ids=tuple(entry for worker in order for entry in workers[worker].ids),
        drivers=tuple(driver(number, each) for number, each in enumerate(world.drivers)),
        visible=tuple(world.visible[first + task] for first in range(0, len(world.visible), TASKS) for task in tasks),
        decision=decision(world.decision),
    )


def _transaction(result: tuple[SinkTransaction, EndResult]) -> SinkTransaction:
    return result[0]
