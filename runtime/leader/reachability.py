"""Members that can't fetch what others can: which member is barred from which partitions, and when it is let back.

A member's heartbeats don't tell whether it can fetch.  An owner that gets no answer from a partition's leader, while the
driver has just had one from that leader, is cut off from it: the fault is with the member, or on the way, and not with the
broker.  It is *barred* from the partition: no owner of it, and its slots are the last that its tasks claim.

A bar stays for ``HOLD_MS`` at least, so that an unsteady way moves partitions no more than twice in that time, and until the
member, which goes on trying, has reached the leader for ``GOOD_MS``.  A member that reports nothing of it for
``SILENT_MS`` was replaced: it is let back, and barred again if need be.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from sparkcohort.runtime.protocol.partitions import TopicPartition

HOLD_MS: Final = 30_000
GOOD_MS: Final = 3_000
SILENT_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class Bar:
    """Why and since when a member is kept from a partition, and what it has reported since."""

    reason: str
    since_ms: int
    heard_ms: int  # when it last reported what it reaches
    reached_ms: int | None = None  # it has reached the leader ever since


Barred: TypeAlias = Mapping[str, Mapping[TopicPartition, Bar]]
"""The bars of each member that has any."""


def cut_off(barred: Barred, member: str, reasons: Mapping[TopicPartition, str], now_ms: int) -> Barred:
    """Bars a member from partitions that it can't fetch and others can, for these ``reasons``."""
    bars = barred.get(member, {})
    new = {tp: Bar(reason, now_ms, now_ms) for tp, reason in reasons.items() if tp not in bars}
    return {**barred, member: {**bars, **new}} if new else barred


def record_attempt(barred: Barred, member: str, reached: Collection[TopicPartition], now_ms: int) -> Barred:
    """Records that a member has tried all that it is barred from, and that these leaders answered."""
    if member not in barred:
        return barred
    bars = {
        tp: replace(bar, heard_ms=now_ms, reached_ms=(bar.reached_ms or now_ms) if tp in reached else None)
        for tp, bar in barred[member].items()
    }
    return {**barred, member: bars}


def lift_expired(barred: Barred, members: Collection[str], now_ms: int) -> Barred:
    """Lifts the bars of members that can fetch again or report nothing any more, and of those that left the group."""
    new_bars = {
        member: current
        for member, bars in barred.items()
        if member in members and (current := {tp: bar for tp, bar in bars.items() if not _is_over(bar, now_ms)})
    }
    return barred if new_bars == barred else new_bars


def _is_over(bar: Bar, now_ms: int) -> bool:
    if now_ms - bar.heard_ms > SILENT_MS:
        return True
    well = bar.reached_ms is not None and now_ms - bar.reached_ms >= GOOD_MS
    return well and now_ms - bar.since_ms >= HOLD_MS


def able_owners(barred: Barred, owners: Mapping[TopicPartition, str]) -> dict[TopicPartition, str]:
    """The owners that can fetch what they own."""
    return {tp: member for tp, member in owners.items() if tp not in barred.get(member, {})}


def new_bars(old: Barred, new: Barred) -> dict[str, list[TopicPartition]]:
    """By member, the partitions that it is barred from in ``new`` and not in ``old``."""
    by_member = {member: sorted(bars.keys() - old.get(member, {}).keys()) for member, bars in new.items()}
    return {member: partitions for member, partitions in by_member.items() if partitions}
