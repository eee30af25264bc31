"""Which positions a new leader's log may not have, by the epochs of leaders (KIP-101, KIP-320).

A position is known to have been in the log of a partition's leader of some epoch.  A leader that was in sync has it, too; one
that was elected although it was not (``unclean.leader.election.enable``) has other records from some offset on, and once its
log is longer than the position nothing but the epochs tells.  So whenever the epoch is another, the new leader is asked where
the old one ended in its log: before the position, and what lay between was lost.

>>> partition = TopicPartition("t", 0)
>>> known = {partition: ObservedEpochs(100, 3)}
>>> asked = questions(known, {partition: 3}), questions(known, {partition: 4})
>>> asked
({}, {TopicPartition(topic='t', partition=0): Question(epoch=3, now=4)})
>>> compared(known, asked[1], {partition: 60}).cut
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


class Compared(NamedTuple):
    """Where logs were cut below what was seen of them; what the leader hasn't told yet; what is as it was."""

    cut: Mapping[TopicPartition, int]
    unsure: frozenset[TopicPartition]
    sound: frozenset[TopicPartition]


def questions(
    known: Mapping[TopicPartition, ObservedEpochs], epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Question]:
    """What to ask, where leaders have these ``epochs`` now.

    One that is older than what is known is behind the others, or is of another topic: there is nothing that it could tell.
    """
    return {
        tp: Question(seen.epoch, epochs[tp]) for tp, seen in known.items() if epochs.get(tp, seen.epoch) > seen.epoch
    }


def compared(
    known: Mapping[TopicPartition, ObservedEpochs],
    asked: Mapping[TopicPartition, Question],
    ends: Mapping[TopicPartition, int | None],
) -> Compared:
    """What follows from the answers so far; None is that of a leader who can't tell, and of whom nothing is believed."""
    cut = {
        tp: end for tp in asked if (end := ends.get(tp)) is not None and end < known[tp].offset
    }  # of a log that retention has emptied, Kafka tells where the next epoch begins: that is no cut
    unsure = frozenset(asked.keys() - ends.keys())
    return Compared(cut, unsure, frozenset(asked.keys() - cut.keys() - unsure))
