"""What of a query's positions may be lost, and when to believe it: a log has become shorter, a topic is another one now.

A position is an offset in the log of one topic, which its id tells from another of the same name.

A broker that has just become the leader may not have, for a moment, what its predecessor had told (KAFKA-7703, KIP-207), and
one that is behind with the cluster's metadata still tells of the topic that there was before.  So what would be a loss is
doubted first: nothing is read of it meanwhile, and it is believed when every answer has been the same for as long as
a broker may lag.  Time is an argument.

>>> doubts: SuspectedLosses[str] = SuspectedLosses()
>>> for answer, now in ((1, 0.0), (2, 4.0), (3, 5.0)):
...     doubts = doubts.add_answer({"t"}, answer, now)
...     print(sorted(doubts.believed(now)))
[]
[]
['t']
>>> doubts.add_answer(set(), 4, 6.0).believed(6.0)
frozenset()
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from sparkcohort.runtime.protocol.partitions import TopicPartition

T = TypeVar("T")

LAG_S: Final = 5.0
"""How long a broker may be behind the others; Spark's driver, too, asks for seconds before it believes a loss."""
CONFIRMATIONS: Final = 3
"""How many answers there have to be in that time."""


class Doubt(NamedTuple):
    """Since when something is said, in how many answers, the number of the last of them."""

    first_s: float
    answers: int
    last: int


@dataclass(frozen=True)
class SuspectedLosses(Generic[T]):
    """What is doubted now."""

    standing: Mapping[T, Doubt] = field(default_factory=dict)

    def add_answer(self, claims: Collection[T], answer: int, now: float) -> SuspectedLosses[T]:
        """The doubts after an answer of this number, the same number as before if there is no newer one.

        ``said`` is all that it would have us believe: whatever it leaves out is believed no more, or wasn't answered.
        """
        fresh = Doubt(now, 0, -1)
        doubts = {item: self.standing.get(item, fresh) for item in claims}
        return SuspectedLosses(
            {
                item: doubt if doubt.last == answer else Doubt(doubt.first_s, doubt.answers + 1, answer)
                for item, doubt in doubts.items()
            }
        )

    def believed(self, now: float) -> frozenset[T]:
        """What has been said for long enough."""
        return frozenset(
            item
            for item, doubt in self.standing.items()
            if doubt.answers >= CONFIRMATIONS and now - doubt.first_s >= LAG_S
        )


class Mismatches(NamedTuple):
    """Positions for which there is no log any more: partitions deleted, topics made anew, logs that end before them."""

    deleted: frozenset[TopicPartition]
    recreated: frozenset[str]
    shorter: frozenset[TopicPartition]


def mismatches(
    start: Mapping[TopicPartition, int],
    ids: Mapping[str, str],
    *,
    partitions: Collection[TopicPartition],
    ids_now: Mapping[str, str],
    ends: Mapping[TopicPartition, int],
    silent: Collection[TopicPartition],
) -> Mismatches:
    """Compare positions (offsets, and the ids of their topics as far as known) with what the cluster says now.

    ``partitions`` are all there are; what is said of the end of a ``silent`` one is old.
    """
    deleted = frozenset(tp for tp in start if tp not in partitions)
    recreated = frozenset(topic for topic, topic_id in ids.items() if ids_now.get(topic, topic_id) != topic_id)
    shorter_partitions = [tp for tp, offset in start.items() if tp in ends and ends[tp] < offset]
    shorter = frozenset(tp for tp in shorter_partitions if not (tp in deleted or tp in silent or tp.topic in recreated))
    return Mismatches(deleted, recreated, shorter)
