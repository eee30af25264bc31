"""Who owns what, made out from what members claim.

A member states what it owns when it joins, and may be wrong: it was away while its partitions were given to
others, or its topic was deleted and made anew with fewer partitions.  So claims are validated at the door.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkcohort.assignors.base import Assignment, MemberSubscription, Partition, finish


@dataclass(frozen=True, slots=True)
class Ownership:
    """``owner``: the one valid owner of a partition, who wants it still.  ``claimants``: all who say they hold it.

    A claimant may be reading the partition whether its claim is valid or not: until it has answered the next
    assignment by giving the partition up, nobody else may start.
    """

    owner: Mapping[Partition, str]
    claimants: Mapping[Partition, tuple[str, ...]]


def resolve(topics: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Ownership:
    """Decide every claim (KIP-792): the highest generation wins, two claims of that generation are both invalid.

    Partitions that don't exist are dropped; a claim of a topic that its member no longer wants holds the
    partition back from others, but makes no owner.
    """
    claimants: dict[Partition, list[str]] = {}
    for member in sorted(members):
        for claimed in set(members[member].owned):
            if 0 <= claimed[1] < topics.get(claimed[0], 0):
                claimants.setdefault(claimed, []).append(member)
    wanted = {member: frozenset(subscription.topics) for member, subscription in members.items()}
    owner: dict[Partition, str] = {}
    for partition in sorted(claimants):
        winner = _newest(claimants[partition], members)
        if winner is not None and partition[0] in wanted[winner]:
            owner[partition] = winner
    return Ownership(owner, {partition: tuple(claimants[partition]) for partition in sorted(claimants)})


def _newest(claimants: list[str], members: Mapping[str, MemberSubscription]) -> str | None:
    if len(claimants) == 1:
        return claimants[0]
    newest = max(members[member].generation for member in claimants)
    winners = [member for member in claimants if members[member].generation == newest]
    return winners[0] if len(winners) == 1 else None


def withheld(target: Mapping[str, tuple[Partition, ...]], ownership: Ownership) -> frozenset[Partition]:
    """Partitions of ``target`` that can't be handed over in this round, since another claimant must revoke first."""
    return frozenset(
        partition
        for member, partitions in target.items()
        for partition in partitions
        if ownership.owner.get(partition) != member
        and any(claimant != member for claimant in ownership.claimants.get(partition, ()))
    )


def hand_over(target: Assignment, ownership: Ownership) -> Assignment:
    """This round's part of ``target``: what is withheld goes to nobody until the follow-up round (KIP-429)."""
    held = withheld(target, ownership)
    return finish(target, {m: [p for p in partitions if p not in held] for m, partitions in target.items()})
