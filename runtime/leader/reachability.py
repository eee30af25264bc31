"""Members that can't fetch what others can: who is barred from which partitions, and when it is let back.

That a member lives (its heartbeats) and that its partitions come forward are two things.  An owner that hears nothing
from a partition's leader, while somebody else has just had an answer of that leader, is cut off from it: the fault is
with the member, or on the way, and not with the broker.  It is *barred* from the partition: no owner of it, and its
tasks read it by way of somebody else.

Barred it stays for ``HOLD_MS``, twice as long for each time within ``FORGET_MS`` that it was barred again, at most
``MOST_HOLD_MS``; and until it has reached the leader, whom it goes on trying, for ``GOOD_MS``.  A member that says
nothing of it for ``SILENT_MS`` has been replaced, or has forgotten: it is let back, and barred again if need be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from sparkcohort.runtime.protocol.partitions import TopicPartition

HOLD_MS: Final = 10_000
MOST_HOLD_MS: Final = 300_000
FORGET_MS: Final = 600_000
GOOD_MS: Final = 3_000
SILENT_MS: Final = 30_000
_MOST_TIMES: Final = 8


@dataclass(frozen=True, slots=True)
class Bar:
    """Why and since when a member is kept from a partition, what it has told since, and until when at least."""

    why: str
    since_ms: int
    hold_until_ms: int
    heard_ms: int
    reached_ms: int | None = None  # it has reached the leader ever since


@dataclass(frozen=True, slots=True)
class Past:
    """How often a member has been barred lately, and when it was let back last (or barred, if it still is)."""

    times: int
    at_ms: int


Barred = Mapping[str, Mapping[TopicPartition, Bar]]
"""The bars of each member that has any."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """All that is remembered."""

    barred: Barred = field(default_factory=lambda: MappingProxyType({}))
    past: Mapping[str, Past] = field(default_factory=lambda: MappingProxyType({}))


def cut_off(known: Abilities, member: str, why: Mapping[TopicPartition, str], now_ms: int) -> Abilities:
    """A member can't fetch these, for the reasons given, and others can."""
    bars = known.barred.get(member, {})
    new = {tp: reason for tp, reason in why.items() if tp not in bars}
    if not new:
        return known
    past = known.past.get(member, Past(0, now_ms))
    if not bars:  # what follows within one time is of the same cut
        past = Past(min(past.times + 1, _MOST_TIMES) if now_ms - past.at_ms <= FORGET_MS else 1, now_ms)
    hold_ms = min(HOLD_MS << (past.times - 1), MOST_HOLD_MS)
    added = {tp: Bar(reason, now_ms, now_ms + hold_ms, now_ms) for tp, reason in new.items()}
    return Abilities({**known.barred, member: {**bars, **added}}, {**known.past, member: past})


def tried(known: Abilities, member: str, reached: Collection[TopicPartition], now_ms: int) -> Abilities:
    """A member has tried all that it is barred from, and these leaders answered."""
    bars = known.barred.get(member)
    if not bars:
        return known
    seen = {
        tp: replace(bar, heard_ms=now_ms, reached_ms=_since(bar, tp in reached, now_ms)) for tp, bar in bars.items()
    }
    return replace(known, barred={**known.barred, member: seen})


def _since(bar: Bar, reached: bool, now_ms: int) -> int | None:
    if not reached:
        return None
    return now_ms if bar.reached_ms is None else bar.reached_ms


def lift_expired(known: Abilities, members: Collection[str], now_ms: int) -> Abilities:
    """Let those back who can fetch again, or say nothing any more; forget who is not in the group."""
    kept = {
        member: left
        for member, bars in known.barred.items()
        if member in members and (left := {tp: bar for tp, bar in bars.items() if not _is_over(bar, now_ms)})
    }
    if kept == known.barred:
        return known
    back = known.barred.keys() - kept.keys()
    past = {member: replace(was, at_ms=now_ms) if member in back else was for member, was in known.past.items()}
    return Abilities(kept, {member: was for member, was in past.items() if member in members})


def _is_over(bar: Bar, now_ms: int) -> bool:
    if now_ms - bar.heard_ms > SILENT_MS:
        return True
    well = bar.reached_ms is not None and now_ms - bar.reached_ms >= GOOD_MS
    return well and now_ms >= bar.hold_until_ms


def without(barred: Barred, owners: Mapping[TopicPartition, str]) -> dict[TopicPartition, str]:
    """The owners who can fetch what they own."""
    return {tp: member for tp, member in owners.items() if tp not in barred.get(member, {})}


def changes(before: Barred, after: Barred) -> tuple[dict[str, list[TopicPartition]], dict[str, list[TopicPartition]]]:
    """Who is barred from what since, and who is let back to what."""
    return _more(before, after), _more(after, before)


def _more(before: Barred, after: Barred) -> dict[str, list[TopicPartition]]:
    found = {member: sorted(bars.keys() - before.get(member, {}).keys()) for member, bars in after.items()}
    return {member: partitions for member, partitions in found.items() if partitions}


def avoiding(barred: Barred, partitions: Iterable[TopicPartition]) -> frozenset[str]:
    """The members that can't read some of these partitions."""
    wanted = frozenset(partitions)
    return frozenset(member for member, bars in barred.items() if not wanted.isdisjoint(bars))
