"""Committed offsets, fenced per partition.

A commit of a partition is accepted if and only if its member owns that partition now and states the generation since
which it does; the group's state and generation don't matter.  (Kafka fences classic groups as a whole,
and answers the complaints about that with KIP-1251 for the new protocol only.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sparkcohort.runtime.group.state import Position
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.messages import CommittedPosition, OffsetCommit
from sparkcohort.runtime.protocol.partitions import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sparkcohort.runtime.group.state import Group

NO_OFFSET = -1  # Kafka: OffsetFetchResponse.INVALID_OFFSET
_WORDS = 3  # partitions explained in one message; the rest are counted


class Judged(NamedTuple):
    """One partition of a commit, judged."""

    tp: TopicPartition
    error: ErrorCode
    reason: str = ""


def judge(group: Group, request: OffsetCommit) -> tuple[Judged, ...]:
    """Each partition of a member's commit, in the order asked: NONE or ILLEGAL_GENERATION."""
    judged: list[Judged] = []
    refused = 0
    for position in request.offsets:
        judged.append(_judge(group, request.member_id, position, tells=refused < _WORDS))
        refused += judged[-1].error is not ErrorCode.NONE
    return tuple(judged)


def accepted(
    request: OffsetCommit, judged: tuple[Judged, ...], now_ms: int
) -> tuple[tuple[TopicPartition, Position], ...]:
    """The positions to store, of those judged well."""
    return tuple(
        (tp, Position(position.offset, request.member_id, now_ms))
        for (tp, error, _reason), position in zip(judged, request.offsets, strict=True)
        if error is ErrorCode.NONE
    )


def fetch(
    committed: Mapping[TopicPartition, Position], partitions: tuple[TopicPartition, ...]
) -> tuple[tuple[TopicPartition, int], ...]:
    """The committed offset of each partition asked for (all, sorted, if none is), -1 where there is none."""
    targets = partitions or tuple(sorted(committed))
    return tuple((tp, committed[tp].offset if tp in committed else NO_OFFSET) for tp in targets)


def explain(judged: tuple[Judged, ...]) -> str:
    """The refusals of a commit in words."""
    words = [f"{tp.topic}-{tp.partition}: {reason}" for tp, error, reason in judged if error is not ErrorCode.NONE]
    more = len(words) - _WORDS
    return "; ".join(words[:_WORDS]) + (f"; and {more} more" if more > 0 else "")


def _judge(group: Group, member_id: str, position: CommittedPosition, *, tells: bool) -> Judged:
    """``tells``: the reason names the owner, which takes a look at every member."""
    tp = TopicPartition(position.topic, position.partition)
    generation = group.owned.get(member_id, {}).get(tp)
    if generation is None:
        if not tells:
            return Judged(tp, ErrorCode.ILLEGAL_GENERATION)
        owner = next((m for m, partitions in group.owned.items() if tp in partitions), "no member")
        return Judged(tp, ErrorCode.ILLEGAL_GENERATION, f"owned by {owner}, not by {member_id}")
    if generation != position.assignment_generation:
        reason = f"owned since generation {generation}, not {position.assignment_generation}"
        return Judged(tp, ErrorCode.ILLEGAL_GENERATION, reason)
    return Judged(tp, ErrorCode.NONE)
