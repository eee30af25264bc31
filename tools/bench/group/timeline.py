"""What the callbacks of members tell about a rebalance.  Pure; the same for every peer.

A *change* is a callback: a member was assigned partitions, or gave them up (revoked or lost).  The group is *settled*
when every partition has exactly one owner among the members that live, and their shares differ by one at most.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """One callback: when (epoch s), whose, and which partitions it gained or gave up."""

    at: float
    member: str
    gained: bool
    partitions: frozenset[int]


@dataclass(frozen=True)
class Outcome:
    """One event: seconds until settled; kept partitions that nobody owned for a while, and for how long at most; moves."""

    settled_s: float
    kept: int
    paused: int
    pause_s: float
    moved: int


class Ownership:
    """Who owns what, as callbacks come in."""

    def __init__(self, partitions: int, live: Collection[str]) -> None:
        self._partitions = partitions
        self._owned: dict[str, set[int]] = {member: set() for member in live}
        self._owners = [0] * partitions
        self._single = 0

    def apply(self, change: Change) -> None:
        """Let it have happened; members that don't live don't count."""
        mine = self._owned.get(change.member)
        if mine is None:
            return
        for partition in change.partitions - mine if change.gained else change.partitions & mine:
            self._single -= self._owners[partition] == 1
            self._owners[partition] += 1 if change.gained else -1
            self._single += self._owners[partition] == 1
        self._owned[change.member] = mine | change.partitions if change.gained else mine - change.partitions

    def settled(self) -> bool:
        """Every partition has one owner, and shares are even."""
        shares = [len(mine) for mine in self._owned.values()]
        return self._single == self._partitions == sum(shares) and max(shares) - min(shares) <= 1

    def owner(self) -> dict[int, str]:
        """Of each partition that has one."""
        return {partition: member for member, mine in self._owned.items() for partition in mine}


def outcome(changes: Sequence[Change], began: float, live: Collection[str], partitions: int) -> Outcome | None:
    """What followed the event at ``began``, after which ``live`` are the members; None as long as nothing is settled."""
    ordered = sorted(changes, key=lambda change: change.at)
    ownership = Ownership(partitions, live)
    for change in ordered:
        if change.at < began:
            ownership.apply(change)
    before, since = ownership.owner(), None
    for change in ordered:
        if change.at >= began:
            ownership.apply(change)
            settled = ownership.settled()
            since = (change.at if since is None else since) if settled else None
    if since is None:
        return None
    after = ownership.owner()
    kept = {partition for partition, member in before.items() if after[partition] == member}
    pauses = _pauses([change for change in ordered if began <= change.at <= since], kept, before)
    return Outcome(
        settled_s=since - began,
        kept=len(kept),
        paused=len(pauses),
        pause_s=max(pauses.values(), default=0.0),
        moved=len(before) - len(kept),
    )


def _pauses(changes: Sequence[Change], kept: Collection[int], owner: dict[int, str]) -> dict[int, float]:
    """The longest time without an owner of each kept partition that had such a time."""
    gone: dict[int, float] = {}
    longest: dict[int, float] = {}
    for change in changes:
        for partition in change.partitions.intersection(kept):
            if change.gained and partition in gone:
                longest[partition] = max(longest.get(partition, 0.0), change.at - gone.pop(partition))
            elif not change.gained and owner[partition] == change.member:
                gone[partition] = change.at
    return longest
