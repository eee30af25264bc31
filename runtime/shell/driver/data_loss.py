"""Data loss that the driver can see, by Spark's condition names (``kafka-error-conditions.json``) and ``failOnDataLoss``."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from sparkcohort.runtime.batches import hold
from sparkcohort.runtime.batches.snapshot import Snapshot
from sparkcohort.runtime.batches.suspected_loss import SuspectedLosses, mismatches
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.leader_epochs import EpochComparison, ObservedEpochs, compare_ends, new_questions
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of
from sparkcohort.runtime.shell.driver.log_ends import LogEnds

log = logging.getLogger("sparkcohort.data_loss")

REMEDY = (
    "Some data may have been lost: it was aged out by Kafka, or the topic was deleted or created anew, before it was "
    "processed. To go on without it set the option failOnDataLoss to false."
)


class DriverDataLoss(CohortError):
    """Data that was to be read is gone and ``failOnDataLoss`` is true; ``error`` is Spark's condition name."""


REFRESH_S: Final = 1.0
ALL_SOUND: Final = EpochComparison({}, frozenset(), frozenset())


@dataclass(frozen=True, slots=True)
class Losses:
    """What has become of the partitions that are read.

    ``deleted`` exist no more.  ``reset``: where to go on instead.  ``doubted``: maybe lost, not to be read until that is
    known.  ``ids``: of the topics whose offsets the next plan has, as far as known.
    """

    deleted: frozenset[TopicPartition] = frozenset()
    reset: Mapping[TopicPartition, int] = field(default_factory=dict)
    doubted: frozenset[TopicPartition] = frozenset()
    ids: Mapping[str, str] = field(default_factory=dict)


class DataLoss:
    """Decides between failing and warning; remembers which topics are read, where new partitions began, what is doubted."""

    def __init__(self, log_ends: LogEnds, *, fail: bool) -> None:
        self._log_ends = log_ends
        self._fail = fail
        self._ids: dict[str, str] = {}
        self._recreated: SuspectedLosses[str] = SuspectedLosses()
        self._shorter: SuspectedLosses[TopicPartition] = SuspectedLosses()
        self._beginnings: dict[TopicPartition, int] = {}
        self.epochs: Mapping[TopicPartition, int] = {}
        """Of the leaders that were last known to have all before the positions; never changed, another takes its place."""
        # Where an earlier run saw less than the position: the epochs of the lower offsets that it saw.
        self._lower_epochs: dict[TopicPartition, ObservedEpochs] = {}
        self._compared: tuple[object, int] = (None, 0)  # the epochs, and how many positions, of which all is settled
        self._cuts: Mapping[TopicPartition, int] = {}
        self._accepted = Losses()  # what ``find_losses`` found last

    def remember(self, start: Mapping[TopicPartition, int], observed: Mapping[TopicPartition, ObservedEpochs]) -> None:
        """Remember what an earlier run has observed of the logs in which this one begins at ``start``."""
        current = {tp: entry for tp, entry in observed.items() if tp in start}
        self.epochs = {tp: entry.epoch for tp, entry in current.items() if entry.offset >= start[tp]}
        self._lower_epochs = {tp: entry for tp, entry in current.items() if entry.offset < start[tp]}

    def compare(
        self, start: Mapping[TopicPartition, int], snapshot: Snapshot, void: Collection[TopicPartition] = ()
    ) -> EpochComparison:
        """Whether the leaders' logs are still those that ``start`` is a position in; ``void`` ones aren't looked at.

        Raises DriverDataLoss (PARTITION_OFFSET_CHANGED): logs were cut below.  Or warns; reading goes on where they were cut.
        """
        now, lower = snapshot.epochs, self._lower_epochs
        if now is self._compared[0] and len(start) == self._compared[1]:
            return ALL_SOUND
        observed = {
            tp: ObservedEpochs(min(offset, lower[tp].offset), lower[tp].epoch)
            if tp in lower
            else ObservedEpochs(offset, self.epochs[tp])
            for tp, offset in start.items()
            if tp in lower or self.epochs.get(tp, now.get(tp)) != now.get(tp)
            if tp not in void
        }
        questions = new_questions(observed, now)
        result = compare_ends(observed, questions, self._log_ends.epoch_ends.look_up(questions))
        # An older epoch is that of a leader which has been deposed, and doesn't know it yet: it settles nothing.
        settled = {
            tp: now[tp]
            for tp in start
            if tp in now and now[tp] >= self.epochs.get(tp, now[tp])
            if tp not in void and tp not in questions.keys() - result.sound
        }
        self.epochs = {**self.epochs, **settled}
        self._lower_epochs = {tp: entry for tp, entry in lower.items() if tp not in settled}
        self._compared = (now, len(start)) if not void and len(result.sound) == len(questions) else (None, 0)
        for tp in sorted(result.cuts) if result.cuts != self._cuts or self._fail else ():
            self._report_loss(
                "PARTITION_OFFSET_CHANGED",
                f"Partition {names_of([tp])}: its log was cut by an unclean leader election. Under leader epoch "
                f"{questions[tp].epoch} it went to {observed[tp].offset} at least; the leader of epoch {questions[tp].now} has it up to "
                f"{result.cuts[tp]} only, and maybe other records in the place of the rest.",
            )
        self._cuts = result.cuts
        return result

    def find_losses(
        self, start: Mapping[TopicPartition, int], ids: Mapping[str, str], snapshot: Snapshot, now: float
    ) -> Losses:
        """The losses after ``start``, whose offsets are of the topics with these ``ids`` (as far as known).

        Raises DriverDataLoss: PARTITIONS_DELETED; PARTITION_OFFSET_CHANGED for a recreated topic or a log that ends before its
        offset, once brokers have said so for as long as one may be behind, or for one that was cut (``compare``).
        """
        self._accepted = self._find_losses(start, ids, snapshot, now)
        return self._accepted

    def _find_losses(
        self, start: Mapping[TopicPartition, int], ids: Mapping[str, str], snapshot: Snapshot, now: float
    ) -> Losses:
        all_ids = {**snapshot.ids, **self._ids, **ids}
        old = {topic: all_ids[topic] for topic in {tp.topic for tp in start} if topic in all_ids}
        signs = mismatches(
            start,
            old,
            partitions=snapshot.partitions,
            ids_now=snapshot.ids,
            ends=snapshot.ends,
            silent=snapshot.unreachable,
        )
        self._report_deleted(signs.deleted)
        void = signs.deleted | {tp for tp in start if tp.topic in signs.recreated} if signs.recreated else signs.deleted
        epochs = self.compare(start, snapshot, void)
        self._recreated = self._recreated.add_answer(signs.recreated, snapshot.look, now)
        shorter = signs.shorter - epochs.cuts.keys()
        shorter -= self._log_ends.behind_transactions({tp: start[tp] for tp in shorter})
        self._shorter = self._shorter.add_answer(shorter, snapshot.answer, now)
        if signs.recreated or signs.shorter:
            self._log_ends.doubt()
        reset = {**self._reset(start, old, snapshot, now), **epochs.cuts}
        topics = old if not signs.deleted else old.keys() & {tp.topic for tp in start if tp not in signs.deleted}
        self._ids |= {topic: old[topic] for topic in topics} | {
            tp.topic: snapshot.ids[tp.topic] for tp in reset if tp.topic in signs.recreated
        }
        return Losses(
            signs.deleted, reset, hold.doubted(start, signs, epochs.unsure, reset), {**snapshot.ids, **self._ids}
        )

    def accepted_starts(
        self,
        start: Mapping[TopicPartition, int],
        end: Mapping[TopicPartition, int],
        policy: hold.Policy,
    ) -> dict[TopicPartition, int]:
        """New starts of the partitions whose planned end lies before ``start``: where their logs begin now.

        That is so after a loss which was accepted: in this process, or before a restart by the driver that planned the
        batch, if the log still shows it.  Raises DriverDataLoss, or warns, of a loss that was not reported yet, partitions
        that the plan leaves out included.  A partition without any sign of a loss is left out.
        """
        left_out = start.keys() - end.keys() - self._accepted.deleted
        if left_out:
            reason = f"Partitions {names_of(left_out)} were taken for deleted when this batch was planned."
            self._report_loss("PARTITIONS_DELETED", reason)
        back = {tp: start[tp] for tp, offset in end.items() if offset < start.get(tp, offset)}
        reset = self._accepted.reset
        starts = {tp: reset[tp] for tp in back if reset.get(tp) == end[tp]}
        unknown = {tp: offset for tp, offset in back.items() if tp not in starts}
        resolved = self._resolve_loss(unknown, policy) if unknown else {}
        return {**starts, **{tp: min(offset, end[tp]) for tp, offset in resolved.items()}}

    def _resolve_loss(self, start: Mapping[TopicPartition, int], policy: hold.Policy) -> Mapping[TopicPartition, int]:
        """Where to go on after a loss; waits while it is in doubt (``hold``).  Raises DriverDataLoss."""
        began = time.monotonic()
        while True:
            losses = self._find_losses(start, {}, self._log_ends.refresh(REFRESH_S), time.monotonic())
            if hold.decide_replay(policy, losses.doubted, time.monotonic() - began) is hold.HoldDecision.PLAN:
                return losses.reset
            time.sleep(REFRESH_S)

    def find_deleted(self, start: Mapping[TopicPartition, int], snapshot: Snapshot) -> frozenset[TopicPartition]:
        """Partitions of ``start`` that are no more.  Raises DriverDataLoss (PARTITIONS_DELETED)."""
        deleted = frozenset(start) - snapshot.partitions
        self._report_deleted(deleted)
        return deleted

    def beginnings(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions begin that were not there when the query started: the same answer at every call.

        Raises DriverDataLoss (ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO) when records are gone already.
        """
        partitions = list(partitions)
        missing = [tp for tp in partitions if tp not in self._beginnings]
        for tp, offset in sorted(self._log_ends.beginnings(missing).items() if missing else ()):
            if offset > 0:
                self._report_loss(
                    "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
                    f"Added partition {names_of([tp])} starts from {offset} instead of 0.",
                )
            self._beginnings[tp] = offset
        return {tp: self._beginnings[tp] for tp in partitions}

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget deleted partitions: one that comes back is a new one."""
        for tp in partitions:
            self._beginnings.pop(tp, None)
            self._ids.pop(tp.topic, None)
            self._lower_epochs.pop(tp, None)
        self.epochs = {tp: epoch for tp, epoch in self.epochs.items() if tp not in partitions}
        self._compared = (None, 0)

    # --- inside ------------------------------------------------------------------------------------

    def _report_deleted(self, missing: frozenset[TopicPartition]) -> None:
        if missing:
            reason = f"Partitions {names_of(missing)} have been deleted, or {self._log_ends.subscription} no longer selects them."
            self._report_loss("PARTITIONS_DELETED", reason)
        self.forget(missing)

    def _reset(
        self, start: Mapping[TopicPartition, int], old_ids: Mapping[str, str], snapshot: Snapshot, now: float
    ) -> dict[TopicPartition, int]:
        """Where the partitions of believed losses begin now; empty while their leaders do not answer."""
        topics, partitions = self._recreated.believed(now), self._shorter.believed(now)
        if not topics and not partitions:
            return {}
        for topic in sorted(topics):
            self._report_loss(
                "PARTITION_OFFSET_CHANGED",
                f"Topic {topic} was deleted and created anew: its id was {old_ids[topic]} and is {snapshot.ids[topic]} now. "
                f"The offsets of {names_of(tp for tp in start if tp.topic == topic)} are those of the old one.",
            )
        for tp in sorted(partitions):
            self._report_loss(
                "PARTITION_OFFSET_CHANGED",
                f"Partition {names_of([tp])} offset was changed from {start[tp]} to {snapshot.ends[tp]}: its log was "
                "truncated, or the start offset is beyond what there is.",
            )
        affected = partitions | {tp for tp in start if tp.topic in topics and tp in snapshot.partitions}
        self.forget(affected)
        try:
            return self._log_ends.beginnings(affected)
        except CohortError as error:
            if not hold.is_unreachable(error):
                raise
            return {}

    def _report_loss(self, condition: str, reason: str) -> None:
        name = f"KAFKA_DATA_LOSS.{condition}"
        if self._fail:
            raise DriverDataLoss(f"[{name}] {reason} {REMEDY}", name)
        log.warning("[%s] %s Going on, as failOnDataLoss is false.", name, reason)
