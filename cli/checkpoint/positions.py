"""What a checkpoint has, beside the log and the group: what a restart reads, and what is lost before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sparkcohort.cli.checkpoint.logs import KafkaEnds, Source
from sparkcohort.runtime.protocol.partitions import TopicPartition

OK: Final = "ok"
LOST: Final = "lost to retention"
BEYOND: Final = "beyond the log's end"
ANEW: Final = "topic made anew"
MISSING: Final = "no such partition"
NEW: Final = "new partition"
UNKNOWN: Final = "no answer"

_MEANINGS: Final = {
    "equal": "the group has what the checkpoint has",
    "behind": "tools see more lag than there is; the next commit of the query mends it",
    "ahead": "the checkpoint wins: a restart reads these again; another query commits in this group, or this checkpoint is an older copy",
    "none": "the group has no offset: it was never committed, has expired, or the query is of format kafka",
}


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """What a checkpoint says of one source: where a restart begins, and the end of a batch in flight (None: there is none).

    ``start`` is None where batch 0 is in flight: its start isn't in the offset log.
    """

    source: Source
    start: KafkaEnds | None
    planned: KafkaEnds | None


@dataclass(frozen=True, slots=True)
class KafkaPositions:
    """What the brokers say: log starts and ends, topics' ids, a group's commits (None: not asked), and silent partitions."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    ids: Mapping[str, str] = field(default_factory=dict)
    committed: Mapping[TopicPartition, int] | None = None
    silent: Mapping[TopicPartition, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionComparison:
    """One partition: offsets are None where they aren't known; ``records`` counts offsets, which compaction leaves gaps in."""

    source: Source
    topic: str
    partition: int
    checkpoint: int | None
    planned: int | None
    log_start: int | None
    log_end: int | None
    committed: int | None
    restart_from: int | None
    restart_to: int | None
    records: int | None
    lost: int | None
    group: str | None
    verdict: str

    @property
    def fails(self) -> bool:
        """Whether a restart ends with an error, or (``failOnDataLoss=false``) goes on without records."""
        return self.verdict in (LOST, BEYOND, ANEW, MISSING)

    @property
    def meaning(self) -> str:
        """What the group's offset means beside the checkpoint's."""
        return _MEANINGS.get((self.group or "").split(" ")[0], "")


def compare(plan: RestartPlan, brokers: KafkaPositions) -> list[PartitionComparison]:
    """A row for each partition of a source, those that the checkpoint doesn't know yet included.

    >>> here = TopicPartition("t", 0)
    >>> row, = compare(RestartPlan(0, KafkaEnds({here: 5}, {}), None), KafkaPositions({here: 8}, {here: 20}, {}, {here: 5}))
    >>> row.verdict, row.lost, row.restart_from, row.records, row.group
    ('lost to retention', 3, 8, 12, 'equal')
    """
    known = plan.start or plan.planned
    if known is None:
        return []
    topics = {tp.topic for tp in known.ends}
    there = {tp for tp in brokers.ends if tp.topic in topics}
    return [_row(tp, plan, brokers, known) for tp in sorted({*known.ends, *there})]


def _row(tp: TopicPartition, plan: RestartPlan, brokers: KafkaPositions, known: KafkaEnds) -> PartitionComparison:
    at = plan.start.ends.get(tp) if plan.start else None
    planned = plan.planned.ends.get(tp) if plan.planned else None
    first, last = brokers.starts.get(tp), brokers.ends.get(tp)
    verdict, lost = _judge(tp, at, planned, brokers, known)
    begin = at
    if verdict in (LOST, NEW):
        begin = first
    elif verdict in (ANEW, MISSING, BEYOND, UNKNOWN):
        begin = None
    count = max(last - begin, 0) if begin is not None and last is not None else None
    committed = (brokers.committed or {}).get(tp)
    return PartitionComparison(
        plan.source,
        tp.topic,
        tp.partition,
        at,
        planned,
        first,
        last,
        committed,
        begin,
        last if begin is not None else None,
        count,
        lost,
        None if brokers.committed is None else _beside(at, committed),
        verdict,
    )


def _judge(
    tp: TopicPartition, at: int | None, planned: int | None, brokers: KafkaPositions, known: KafkaEnds
) -> tuple[str, int | None]:
    """The verdict, and how many offsets are lost (None: nobody knows)."""
    first, last = brokers.starts.get(tp), brokers.ends.get(tp)
    if tp in brokers.silent:
        return UNKNOWN, None
    if first is None or last is None:
        return MISSING, None
    was, now = known.ids.get(tp.topic), brokers.ids.get(tp.topic)
    if was and now and was != now:
        return ANEW, None
    if tp not in known.ends:
        return NEW, 0
    furthest = max(at or 0, planned or 0)
    if furthest > last:
        return BEYOND, furthest - last
    if at is not None and at < first:
        return LOST, first - at
    return OK, 0


def _beside(at: int | None, committed: int | None) -> str:
    if committed is None:
        return "none"
    if at is None or committed == at:
        return "equal"
    return f"ahead by {committed - at}" if committed > at else f"behind by {at - committed}"
