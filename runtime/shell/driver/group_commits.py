"""Commits to the real Kafka group: the pinned start, the run epoch, and every batch that Spark's commit log has.

Spark's checkpoint is the truth; this is its copy in Kafka, for every Kafka tool and for queries that start without a checkpoint.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.handover import RunName, name_of
from sparkcohort.runtime.kafka.leader_epochs import ObservedEpochs
from sparkcohort.runtime.kafka.run_epoch import GENERATION_BLOCK, decode
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.coordinator.totals import Histogram
from sparkcohort.runtime.shell.driver.first_batch import FirstBatch
from sparkcohort.runtime.shell.driver.kafka_membership import GroupMembership
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.options.parse import SourceOptions
from sparkcohort.runtime.shell.rpc.threads import Supervised

log = logging.getLogger("sparkcohort.group_commits")

Offsets = Mapping[TopicPartition, int]

START_S = 30.0
COMMIT_S = 10.0
QUICK_S = 0.2
"""How long a trigger waits for the commit before its own; a slow group coordinator must not hold the batch up."""
FINAL_S = 30.0
"""How long the end of a bounded query waits for its last commit."""
RETRY_S = 1.0
GENERATION_MARGIN = GENERATION_BLOCK // 10
"""With so many generations left another block is asked for."""
LOOK_S = 1.0
"""How often the generation is looked at, however long a batch takes."""


class GroupCommits:
    """Commits offsets of one query to the real group, as its static member."""

    def __init__(
        self, options: SourceOptions, log_ends: LogEnds, epochs: Callable[[], Mapping[TopicPartition, int]] = dict
    ) -> None:
        """``epochs``: under which leader epochs the logs had the offsets that are committed, as far as known."""
        self._options = options
        self.membership = GroupMembership(options, log_ends, epochs)
        self._counters: Counter[str] = Counter()
        self._durations = Histogram()
        self._committed_at: float | None = None
        self._due_since: float | None = None  # None: Kafka has all that it is to have
        self._committed: dict[TopicPartition, int] = {}
        self.first = FirstBatch(options, log_ends, self.membership)
        self._flushed: Offsets = {}
        self._target: dict[TopicPartition, int] | None = None
        self._changed = threading.Condition()
        self._reserving = threading.Lock()  # one writer of what stands beside a pin
        self._closed = False
        self._generation: Callable[[], int] = int
        self._next_commit = self._next_reserve = 0.0
        self._failure: CohortError | None = None
        self._committing = Supervised("cohort-group-commits", self._wait, self._work, self._fail)

    def open(self, *, handed_over: bool = False) -> None:
        """Find out what the real group has; ``handed_over``: the driver before has stopped for this one.

        Raises CohortError: no permission, group coordinator unreachable.
        """
        self.membership.start(self._options.api_timeout_ms / 1000, handed_over=handed_over)
        self._committing.start()

    def close(self) -> None:
        """Stop committing; the static member stays, so that a restarted driver takes over at once."""
        self.end()
        self.membership.close()

    def end(self) -> None:
        """As ``close``, without waiting for what is under way."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._committing.close()
        self.membership.end()

    def failure(self) -> CohortError | None:
        """What ended this driver's place in the real group for good, if anything did."""
        return self.membership.failure() or self._failure

    def totals(self) -> dict[str, Any]:
        """Commits and failed attempts so far, how long they took, and since when one is due.

        ``last_commit_at`` is in seconds since 1970, None before the first; ``pending_ms`` is 0 while nothing is due.
        """
        with self._changed:
            due_since = self._due_since
            pending_ms = 0 if due_since is None else int(1000 * (time.monotonic() - due_since))
            return {
                "commits": self._counters["commits"],
                "failures": self._counters["failures"],
                "durations": self._durations.as_value(),
                "last_commit_at": self._committed_at,
                "pending_ms": pending_ms,
            }

    def fenced(self) -> bool:
        """Whether a newer driver has taken the group over."""
        failure = self.failure()
        return failure is not None and failure.error == ErrorCode.FENCED_INSTANCE_ID.name

    def successor(self) -> RunName | None:
        """The newer run that has taken the group over, if it is known."""
        run = self.membership.successor
        return None if run is None else name_of(run)

    def committed(self) -> Offsets:
        """What the real group has, as far as this run committed it."""
        with self._changed:
            return dict(self._committed)

    def kafka_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets that the real group has now, of any client."""
        committed = self.membership.committed(partitions)
        return {tp: entry.offset for tp, entry in committed.items() if entry.offset is not None}

    # --- start ----------------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, ids: Mapping[str, str], entering: Offsets) -> None:
        """Commit the plan of the first batch; ``entering``: beginnings of partitions that only ``end`` has."""
        with self._reserving:
            committed = self.first.plan(start, end, ids, entering, START_S)
            with self._changed:
                self._committed.update(committed)

    def set_topic_ids(self, ids: Mapping[str, str]) -> None:
        """Of which topics the offsets are that are committed from now on."""
        self.membership.ids = ids

    def epochs(
        self, partitions: Collection[TopicPartition], ids: Mapping[str, str]
    ) -> dict[TopicPartition, ObservedEpochs]:
        """What the group knows of that: committed offsets in the topics with these ids, with their epochs."""
        return {
            tp: ObservedEpochs(entry.offset, entry.epoch)
            for tp, entry in self.membership.committed(partitions).items()
            if entry.offset is not None and entry.epoch >= 0
            if ids.get(tp.topic, "") in (decode(entry.metadata).topic, "")
        }

    def begin(self, start: Offsets) -> None:
        """Reserve this run's number and generations."""
        pin, plan = self.first.marks(start)
        self.membership.reserve(start, START_S, pin=pin, plan=plan)
        with self._changed:
            self._committed.update(start)
            self._flushed = dict(start)

    def follow(self, generation: Callable[[], int]) -> None:
        """Look at the group's generation from now on, so that there is always one left that is reserved."""
        self._generation = generation

    # --- every batch ------------------------------------------------------------------------------------

    def commit(self, start: Offsets, *, final: bool) -> None:
        """Commit what Spark's commit log has, in the background; when ``final``, waits until Kafka has it.

        The commit before it is waited for, a moment.  Raises CohortError when a final commit does not get through, or when no
        generation is left and no more can be reserved.
        """
        self._await_generations()
        self.flush()
        self.offer(start)
        if final and not self.flush(FINAL_S):
            raise CohortError(
                f"the last batch could not be committed to group {self._options.group_id} within {FINAL_S:g} s: its "
                "coordinator does not answer. The batch itself is done and in the checkpoint; start the query again to commit"
            )

    def offer(self, offsets: Offsets) -> None:
        """As ``commit``, without waiting for anything; from any thread."""
        with self._changed:
            if offsets != self._flushed or self.first.pinned:
                self._target = dict(offsets)
                self._due_since = self._due_since or time.monotonic()
                self._changed.notify_all()

    def flush(self, timeout_s: float = QUICK_S) -> bool:
        """Wait until Kafka has all that was committed; whether it has.  Raises what ended the membership for good."""
        with self._changed:
            done = self._changed.wait_for(lambda: self._target is None or self.failure() is not None, timeout_s)
        failure = self.failure()
        if failure is not None:
            raise failure
        return done

    def _await_generations(self) -> None:
        """Nothing goes on under a generation that a later run might use, too; long before, more are asked for."""
        with self._changed:
            self._changed.notify_all()
            reserved = self._changed.wait_for(lambda: self._unused() > 0 or self.failure() is not None, START_S)
        if not reserved:
            raise CohortError(
                f"all generations reserved in group {self._options.group_id} are used, and no more could be reserved within "
                f"{START_S:g} s: its coordinator does not answer. Start the query again when it does; nothing is lost"
            )

    def _unused(self) -> int:
        """How many generations are reserved and not used yet."""
        run_epoch = self.membership.run_epoch
        if run_epoch.own is None:
            return GENERATION_BLOCK
        return run_epoch.last_generation - self._generation()

    # --- the thread ---------------------------------------------------------------------------------------

    def _wait(self) -> bool:
        with self._changed:
            while not self._closed and self.failure() is None and not self._due():
                self._changed.wait(LOOK_S)
            return not self._closed and self.failure() is None

    def _due(self) -> bool:
        now = time.monotonic()
        return (self._target is not None and now >= self._next_commit) or (
            self._unused() <= GENERATION_MARGIN and now >= self._next_reserve
        )

    def _work(self) -> None:
        """Reserve generations before they run out, and commit ``_target``; what fails is tried again after a pause."""
        if self._unused() <= GENERATION_MARGIN and time.monotonic() >= self._next_reserve:
            self._reserve_more()
        with self._changed:
            target = None if self._target is None else dict(self._target)
        if target is None or time.monotonic() < self._next_commit:
            return
        self._next_commit = time.monotonic() + RETRY_S
        try:
            self._commit_now(self._changes(target), self.membership.run_epoch.metadata(), COMMIT_S)
        except CohortError as error:
            self._next_commit = time.monotonic() + RETRY_S
            log.warning("commit to group %s failed, trying again: %s", self._options.group_id, error)
            with self._changed:
                self._changed.notify_all()
            return
        with self._changed:
            self._next_commit = 0.0
            self.first.pinned = False
            self._flushed = target
            # What has come meanwhile has been due for no longer than this commit took.
            self._due_since = None if self._target == target else time.monotonic()
            if self._target == target:
                self._target = None
            self._changed.notify_all()

    def _reserve_more(self) -> None:
        try:
            with self._reserving:
                pin, plan = self.first.current()
                self.membership.reserve(self.committed(), COMMIT_S, pin=pin, plan=plan)
        except CohortError as error:
            log.warning(
                "group %s: %d generations left, no more could be reserved, trying again: %s",
                self._options.group_id,
                self._unused(),
                error,
            )
            self._next_reserve = time.monotonic() + RETRY_S
        with self._changed:
            self._changed.notify_all()

    def _fail(self, error: CohortError) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def _changes(self, target: Offsets) -> Offsets:
        """What differs from the last commit; everything where a pin is to be replaced."""
        with self._changed:
            # With a topic that is gone Kafka forgets its offsets, and one of its name begins without any.
            self._committed = {tp: offset for tp, offset in self._committed.items() if tp in target}
        if self.first.pinned:
            return target
        return {tp: offset for tp, offset in target.items() if self._committed.get(tp) != offset}

    def _commit_now(self, offsets: Offsets, metadata: str, timeout_s: float) -> None:
        began = time.monotonic()
        committed = self.committed()
        # Below its own commit a run goes only in a log that was cut, or a recreated topic: a data loss that was accepted.
        lower = {tp for tp, offset in offsets.items() if offset < committed.get(tp, offset)}
        for reset, partitions in ((False, offsets.keys() - lower), (True, lower)):
            try:
                accepted = self.membership.commit(
                    {tp: (offsets[tp], metadata) for tp in partitions}, timeout_s, reset=reset
                )
            except CohortError:
                self._counters["failures"] += 1
                raise
            with self._changed:
                self._committed.update(accepted)
        with self._changed:
            self._counters["commits"] += 1
            self._durations.add(round((time.monotonic() - began) * 1000))
            self._committed_at = time.time()
