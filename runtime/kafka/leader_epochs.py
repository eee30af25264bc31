"""Which positions a new leader's log may not have, by the epochs of leaders (KIP-101, KIP-320).

A position is known to have been in the log of a partition's leader of some epoch.  A leader that was in sync has it, too; one
that was elected although it was not (``unclean.leader.election.enable``) has other records from some offset on, and once its
log is longer than the position only the epochs show it.  So whenever the epoch has changed, the new leader is asked where the
old epoch ends in its log.  If that is before the position, the records between the two were lost.

>>> partition = TopicPartition("t", 0)
>>> observed = {partition: ObservedEpochs(100, 3)}
>>> new_questions(observed, {partition: 3}), new_questions(observed, {partition: 4})
({}, {TopicPartition(topic='t', partition=0): Question(epoch=3, now=4)})
>>> compare_ends(observed, {partition: Question(3, 4)}, {partition: 60}).cuts
{TopicPartition(topic='t', partition=0): 60}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sparkcohort.runtime.protocol.partitions import TopicPartition


class ObservedEpochs(NamedTuple):
    """An offset, and the epoch of a leader whose log went that far."""

    offset: int
    epoch: int


class Question(NamedTuple):
    """Where does ``epoch`` end in the log of the leader of epoch ``now``, or a later one?"""

    epoch: int
    now: int


class EpochComparison(NamedTuple):
    """Where logs were cut below the observed offset; partitions without an answer so far; partitions without a loss."""

    cuts: Mapping[TopicPartition, int]
    unsure: frozenset[TopicPartition]
    sound: frozenset[TopicPartition]


def new_questions(
    observed: Mapping[TopicPartition, ObservedEpochs], epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Question]:
    """What to ask leaders that have these ``epochs`` now.

    A leader with an older epoch than the observed one is behind, or leads another topic of that name: it isn't asked.
    """
    return {
        tp: Question(old.epoch, epochs[tp]) for tp, old in observed.items() if epochs.get(tp, old.epoch) > old.epoch
    }


def compare_ends(
    observed: Mapping[TopicPartition, ObservedEpochs],
    questions: Mapping[TopicPartition, Question],
    ends: Mapping[TopicPartition, int | None],
) -> EpochComparison:
    """What follows from the ends that leaders answered so far; an end of None (the leader can't tell) counts as no loss."""
    # Of a log that retention has emptied, Kafka tells where the next epoch begins: that is above the offset, and no cut.
    cuts = {tp: end for tp in questions if (end := ends.get(tp)) is not None and end < observed[tp].offset}
    unsure = frozenset(questions.keys() - ends.keys())
    return EpochComparison(cuts, unsure, frozenset(questions.keys() - cuts.keys() - unsure))
