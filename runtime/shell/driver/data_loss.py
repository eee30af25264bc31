"""Data loss that the driver can see, by Spark's condition names (``kafka-error-conditions.json``) and ``failOnDataLoss``."""

from __future__ import annotations

import logging
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
LEFT_OUT = "To read them, name their topics again. To go on without them set the option failOnDataLoss to false."


class DriverDataLoss(CohortError):
    """Data that was to be read is gone and ``failOnDataLoss`` is true; ``error`` is Spark's condition name."""


NOTHING: Final = EpochComparison({}, frozenset(), frozenset())


@dataclass(frozen=True, slots=True)
class Losses:
    """What has become of the partitions that are read.

    ``gone``: they are no more.  ``reset``: where to go on instead.  ``doubted``: maybe lost, not to be read until that is
    known.  ``ids``: of the topics that what is planned next is of, as far as known.
    """

    gone: frozenset[TopicPartition] = frozenset()
    reset: Mapping[TopicPartition, int] = field(default_factory=dict)
    doubted: frozenset[TopicPartition] = frozenset()
    ids: Mapping[str, str] = field(default_factory=dict)


class DataLoss:
    """Decides between failing and warning; remembers which topics are read, where new partitions began, what is doubted."""

    def __init__(self, log_ends: LogEnds, *, fail: bool) -> None:
        self._log_ends = log_ends
        self._fail = fail
        self._ids: dict[str, str] = {}
        self._anew: SuspectedLosses[str] = SuspectedLosses()
        self._shorter: SuspectedLosses[TopicPartition] = SuspectedLosses()
        self._beginnings: dict[TopicPartition, int] = {}
        self.epochs: Mapping[TopicPartition, int] = {}
        """Of the leaders that were last known to have all before the positions; never changed, another takes its place."""
        self._before: dict[TopicPartition, ObservedEpochs] = {}  # what is known of offsets below the positions, instead
        self._compared: tuple[object, int] = (None, 0)  # the epochs, and how many positions, of which all is settled
        self._cut: Mapping[TopicPartition, int] = {}

    def remember(self, start: Mapping[TopicPartition, int], seen: Mapping[TopicPartition, ObservedEpochs]) -> None:
        """What an earlier run has seen of the logs before this one, which begins at ``start``."""
        there = {tp: known for tp, known in seen.items() if tp in start}
        self.epochs = {tp: known.epoch for tp, known in there.items() if known.offset >= start[tp]}
        self._before = {tp: known for tp, known in there.items() if known.offset < start[tp]}

    def compare(
        self, start: Mapping[TopicPartition, int], snapshot: Snapshot, void: Collection[TopicPartition] = ()
    ) -> EpochComparison:
        """Whether the leaders' logs are still those that ``start`` is a position in; ``void`` ones aren't looked at.

        Raises DriverDataLoss (PARTITION_OFFSET_CHANGED): logs were cut below.  Or warns; reading goes on where they were cut.
        """
        now, before = snapshot.epochs, self._before
        if now is self._compared[0] and len(start) == self._compared[1]:
            return NOTHING
        known = {
            tp: ObservedEpochs(min(at, before[tp].offset), before[tp].epoch)
            if tp in before
            else ObservedEpochs(at, self.epochs[tp])
            for tp, at in start.items()
            if tp in before or self.epochs.get(tp, now.get(tp)) != now.get(tp)
            if tp not in void
        }
        asked = new_questions(known, now)
        found = compare_ends(known, asked, self._log_ends.epoch_ends.look_up(asked))
        # An older epoch is that of a leader which has been deposed, and doesn't know it yet: it settles nothing.
        settled = {
            tp: now[tp]
            for tp in start
            if tp in now and now[tp] >= self.epochs.get(tp, now[tp])
            if tp not in void and tp not in asked.keys() - found.sound
        }
        self.epochs = {**self.epochs, **settled}
        self._before = {tp: seen for tp, seen in before.items() if tp not in settled}
        self._compared = (now, len(start)) if not void and len(found.sound) == len(asked) else (None, 0)
        for tp in sorted(found.cuts) if found.cuts != self._cut or self._fail else ():
            self._lost(
                "PARTITION_OFFSET_CHANGED",
                f"Partition {names_of([tp])}: its log was cut by an unclean leader election. Under leader epoch "
                f"{asked[tp].epoch} it went to {known[tp].offset} at least; the leader of epoch {asked[tp].now} has it up to "
                f"{found.cuts[tp]} only, and maybe other records in the place of the rest.",
            )
        self._cut = found.cuts
        return found

    def look(
        self, start: Mapping[TopicPartition, int], ids: Mapping[str, str], snapshot: Snapshot, now: float
    ) -> Losses:
        """What is lost of what comes after ``start``, whose offsets are of the topics with these ``ids`` (as far as told).

        Raises DriverDataLoss: PARTITIONS_DELETED; PARTITION_OFFSET_CHANGED for a topic made anew or a log that ends before its
        offset, once that has been said for as long as a broker may be behind, or for one that was cut (``compare``).
        """
        told = {**snapshot.ids, **self._ids, **ids}
        known = {topic: told[topic] for topic in {tp.topic for tp in start} if topic in told}
        found = mismatches(
            start,
            known,
            partitions=snapshot.partitions,
            ids_now=snapshot.ids,
            ends=snapshot.ends,
            silent=snapshot.unreachable,
        )
        self._deleted(found.deleted)
        void = found.deleted | {tp for tp in start if tp.topic in found.recreated} if found.recreated else found.deleted
        epochs = self.compare(start, snapshot, void)
        self._anew = self._anew.add_answer(found.recreated, snapshot.look, now)
        shorter = found.shorter - epochs.cuts.keys()
        shorter -= self._log_ends.behind_transactions({tp: start[tp] for tp in shorter})
        self._shorter = self._shorter.add_answer(shorter, snapshot.answer, now)
        if found.recreated or found.shorter:
            self._log_ends.doubt()
        reset = {**self._reset(start, known, snapshot, now), **epochs.cuts}
        left = known if not found.deleted else known.keys() & {tp.topic for tp in start if tp not in found.deleted}
        self._ids |= {topic: known[topic] for topic in left} | {
            tp.topic: snapshot.ids[tp.topic] for tp in reset if tp.topic in found.recreated
        }
        return Losses(
            found.deleted, reset, hold.doubted(start, found, epochs.unsure, reset), {**snapshot.ids, **self._ids}
        )

    def deleted(self, start: Mapping[TopicPartition, int], snapshot: Snapshot) -> frozenset[TopicPartition]:
        """Partitions of ``start`` that are no more.  Raises DriverDataLoss (PARTITIONS_DELETED)."""
        gone = frozenset(start) - snapshot.partitions
        self._deleted(gone)
        return gone

    def left_out(self, partitions: Collection[TopicPartition]) -> None:
        """A batch that is replayed ends without these, which it starts with.  Raises DriverDataLoss (PARTITIONS_DELETED)."""
        self._lost(
            "PARTITIONS_DELETED",
            f"Partitions {names_of(partitions)} were taken for deleted when this batch was planned.",
        )

    def beginnings(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions begin that were not there when the query started: the same answer at every call.

        Raises DriverDataLoss (ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO) when records are gone already.
        """
        wanted = list(partitions)
        missing = [tp for tp in wanted if tp not in self._beginnings]
        for tp, offset in sorted(self._log_ends.beginnings(missing).items() if missing else ()):
            if offset > 0:
                self._lost(
                    "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
                    f"Added partition {names_of([tp])} starts from {offset} instead of 0.",
                )
            self._beginnings[tp] = offset
        return {tp: self._beginnings[tp] for tp in wanted}

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """A deleted partition that comes back begins anew."""
        for tp in partitions:
            self._beginnings.pop(tp, None)
            self._ids.pop(tp.topic, None)
            self._before.pop(tp, None)
        self.epochs = {tp: epoch for tp, epoch in self.epochs.items() if tp not in partitions}
        self._compared = (None, 0)

    # --- inside ------------------------------------------------------------------------------------

    def _deleted(self, gone: frozenset[TopicPartition]) -> None:
        left_out = frozenset(tp for tp in gone if not self._log_ends.selects(tp))
        if deleted := gone - left_out:
            self._lost("PARTITIONS_DELETED", f"Partitions {names_of(deleted)} have been deleted.")
        if left_out:
            reason = f"The option {self._log_ends.subscription} no longer selects partitions {names_of(left_out)}, "
            reason += "which the checkpoint has: their records that were not read yet are not read by this query."
            self._lost("PARTITIONS_DELETED", reason, LEFT_OUT)
        self.forget(gone)

    def _reset(
        self, start: Mapping[TopicPartition, int], known: Mapping[str, str], snapshot: Snapshot, now: float
    ) -> dict[TopicPartition, int]:
        """Where what is believed to be lost begins now; nothing yet where nobody can tell."""
        topics, partitions = self._anew.believed(now), self._shorter.believed(now)
        if not topics and not partitions:
            return {}
        for topic in sorted(topics):
            self._lost(
                "PARTITION_OFFSET_CHANGED",
                f"Topic {topic} was deleted and created anew: its id was {known[topic]} and is {snapshot.ids[topic]} now. "
                f"The offsets of {names_of(tp for tp in start if tp.topic == topic)} are those of the old one.",
            )
        for tp in sorted(partitions):
            self._lost(
                "PARTITION_OFFSET_CHANGED",
                f"Partition {names_of([tp])} offset was changed from {start[tp]} to {snapshot.ends[tp]}: its log was "
                "truncated, or the start offset is beyond what there is.",
            )
        lost = partitions | {tp for tp in start if tp.topic in topics and tp in snapshot.partitions}
        self.forget(lost)
        try:
            return self._log_ends.beginnings(lost)
        except CohortError as error:
            if not hold.is_unreachable(error):
                raise
            return {}

    def _lost(self, condition: str, reason: str, remedy: str = REMEDY) -> None:
        name = f"KAFKA_DATA_LOSS.{condition}"
        if self._fail:
            raise DriverDataLoss(f"[{name}] {reason} {remedy}", name)
        log.warning("[%s] %s Going on, as failOnDataLoss is false.", name, reason)
