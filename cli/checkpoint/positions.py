"""Compares a checkpoint with Kafka's logs and the group: what a restart reads, and what is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sparkcohort.cli.checkpoint.logs import KafkaEnds, Source
from sparkcohort.cli.views import first_names
from sparkcohort.runtime.protocol.partitions import TopicPartition

OK: Final = "ok"
EXPIRED: Final = "lost to retention"
PAST_END: Final = "beyond the log's end"
RECREATED: Final = "topic recreated"
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
    """One source of a checkpoint: where a restart begins, and the end of a batch in flight (None: there is none).

    ``start`` is None while batch 0 is in flight: its start isn't in the offset log.
    """

    source: Source
    start: KafkaEnds | None
    planned: KafkaEnds | None


@dataclass(frozen=True, slots=True)
class KafkaPositions:
    """The brokers' answers: log starts and ends, topic ids, a group's commits (None: not asked), and silent partitions."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    ids: Mapping[str, str] = field(default_factory=dict)
    committed: Mapping[TopicPartition, int] | None = None
    silent: Mapping[TopicPartition, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionComparison:
    """One partition; unknown offsets are None.  ``records`` counts offsets: compaction leaves gaps in them."""

    source: Source
    topic: str
    partition: int
    checkpoint: int | None
    planned: int | None
    log_start: int | None
    log_end: int | None
    committed: int | None
    restart_from: int | None
    records: int | None
    lost: int | None
    group: str | None
    verdict: str

    @property
    def fails(self) -> bool:
        """Whether a restart fails or, with ``failOnDataLoss=false``, goes on without records."""
        return self.verdict in (EXPIRED, PAST_END, RECREATED, MISSING)

    @property
    def meaning(self) -> str:
        """The meaning of the difference between the group's offset and the checkpoint's."""
        return _MEANINGS.get((self.group or "").split(" ")[0], "")


def compare(plan: RestartPlan, brokers: KafkaPositions) -> list[PartitionComparison]:
    """A row for each partition of a source, also for those that the checkpoint doesn't have yet.

    >>> here = TopicPartition("t", 0)
    >>> row, = compare(RestartPlan(0, KafkaEnds({here: 5}, {}), None), KafkaPositions({here: 8}, {here: 20}, {}, {here: 5}))
    >>> row.verdict, row.lost, row.restart_from, row.records, row.group
    ('lost to retention', 3, 8, 12, 'equal')
    """
    ends = plan.start or plan.planned
    if ends is None:
        return []
    topics = {tp.topic for tp in ends.ends}
    kafka_partitions = {tp for tp in brokers.ends if tp.topic in topics}
    return [_row(tp, plan, brokers, ends) for tp in sorted({*ends.ends, *kafka_partitions})]


def _row(tp: TopicPartition, plan: RestartPlan, brokers: KafkaPositions, ends: KafkaEnds) -> PartitionComparison:
    checkpoint = plan.start.ends.get(tp) if plan.start else None
    planned = plan.planned.ends.get(tp) if plan.planned else None
    first, last = brokers.starts.get(tp), brokers.ends.get(tp)
    verdict, lost_count = _judge(tp, checkpoint, planned, brokers, ends)
    begin = checkpoint
    if verdict in (EXPIRED, NEW):
        begin = first
    elif verdict in (RECREATED, MISSING, PAST_END, UNKNOWN):
        begin = None
    count = max(last - begin, 0) if begin is not None and last is not None else None
    committed = (brokers.committed or {}).get(tp)
    return PartitionComparison(
        plan.source,
        tp.topic,
        tp.partition,
        checkpoint,
        planned,
        first,
        last,
        committed,
        begin,
        count,
        lost_count,
        None if brokers.committed is None else _group_position(checkpoint, committed),
        verdict,
    )


def _judge(
    tp: TopicPartition, checkpoint: int | None, planned: int | None, brokers: KafkaPositions, ends: KafkaEnds
) -> tuple[str, int | None]:
    """The verdict, and how many offsets are lost (None: unknown)."""
    first, last = brokers.starts.get(tp), brokers.ends.get(tp)
    if tp in brokers.silent:
        return UNKNOWN, None
    if first is None or last is None:
        return MISSING, None
    id_before, id_now = ends.ids.get(tp.topic), brokers.ids.get(tp.topic)
    if id_before and id_now and id_before != id_now:
        return RECREATED, None
    if tp not in ends.ends:
        return NEW, 0
    furthest = max(checkpoint or 0, planned or 0)
    if furthest > last:
        return PAST_END, furthest - last
    if checkpoint is not None and checkpoint < first:
        return EXPIRED, first - checkpoint
    return OK, 0


def _group_position(checkpoint: int | None, committed: int | None) -> str:
    if committed is None:
        return "none"
    if checkpoint is None or committed == checkpoint:
        return "equal"
    return f"ahead by {committed - checkpoint}" if committed > checkpoint else f"behind by {checkpoint - committed}"


def words(rows: Sequence[PartitionComparison]) -> str:
    """The partitions by what is wrong with them, in words.

    >>> words([PartitionComparison(0, "t", n, 5, None, 8, 9, None, 8, 1, 3, None, EXPIRED) for n in range(7)])
    'lost to retention: t-0, t-1, t-2, t-3, t-4 and 2 more'
    """
    parts = []
    for verdict in sorted({row.verdict for row in rows}):
        names = [f"{row.topic}-{row.partition}" for row in rows if row.verdict == verdict]
        parts.append(f"{verdict}: {first_names(names)}")
    return "; ".join(parts)


def costs(rows: Sequence[PartitionComparison]) -> str:
    """What is lost, in words, with counts where they are known."""
    counted = sum(row.lost or 0 for row in rows if row.verdict in (EXPIRED, PAST_END))
    unknown = [row for row in rows if row.lost is None]
    parts = [f"{counted} offsets are gone"] if counted else []
    if unknown:
        parts.append(
            f"what {len(unknown)} partitions of a deleted topic had behind the checkpoint is gone; how much is unknown"
        )
    return "; ".join(parts)
