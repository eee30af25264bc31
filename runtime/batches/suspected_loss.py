"""When to believe that records are lost: a log has become shorter, or a topic was deleted or recreated.

A position is an offset in the log of one topic; the topic's id distinguishes it from another topic of the same name.

A new leader may, for a moment, answer with an older end than its predecessor (KAFKA-7703, KIP-207).  A broker with old metadata
still answers about the former topic.  So a loss is doubted first: nothing is read of the partition meanwhile.  It is believed
when every answer has been the same for as long as a broker may lag.  Time is an argument.

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
"""How long a broker may lag behind the others; Spark's driver, too, asks for seconds before it believes a loss."""
CONFIRMATIONS: Final = 3
"""The least number of answers in that time."""


class Doubt(NamedTuple):
    """A possible loss: the time of the first answer that had it, the number of such answers, and the last answer's number."""

    first_s: float
    answers: int
    last: int


@dataclass(frozen=True)
class SuspectedLosses(Generic[T]):
    """The possible losses, each in every answer since its first."""

    standing: Mapping[T, Doubt] = field(default_factory=dict)

    def add_answer(self, claims: Collection[T], answer: int, now: float) -> SuspectedLosses[T]:
        """The doubts after an answer; ``answer`` is its number, the former one if there is no newer answer.

        ``claims`` are the losses in this answer.  A doubt that is not among them is dropped.
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
        """The losses that every answer has had for long enough."""
        return frozenset(
            item
            for item, doubt in self.standing.items()
            if doubt.answers >= CONFIRMATIONS and now - doubt.first_s >= LAG_S
        )


class Mismatches(NamedTuple):
    """Positions without a log: deleted partitions, recreated topics, partitions whose logs end before the position."""

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
    """Compare positions (offsets, and the known ids of their topics) with the cluster's last answers.

    ``partitions`` are all that exist.  The end of a ``silent`` partition is old and not compared.
    """
    deleted = frozenset(tp for tp in start if tp not in partitions)
    recreated = frozenset(topic for topic, topic_id in ids.items() if ids_now.get(topic, topic_id) != topic_id)
    shorter_partitions = [tp for tp, offset in start.items() if tp in ends and ends[tp] < offset]
    shorter = frozenset(tp for tp in shorter_partitions if not (tp in deleted or tp in silent or tp.topic in recreated))
    return Mismatches(deleted, recreated, shorter)
