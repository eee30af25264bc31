"""Who holds what before a round, found without looking at each of a million claims where no two are of one partition.

>>> from sparkcohort.assignors import MemberSubscription
>>> claims = OwnedPartitions({"t": 3}, {"a": MemberSubscription(("t",), (("t", 0), ("t", 7)), 1), "b": MemberSubscription((), (("t", 1),))})
>>> claims.owned["a"], claims.owned["b"]
(frozenset({('t', 0)}), frozenset())
>>> claims.transferring_ownership({"a": (("t", 0), ("t", 1), ("t", 2)), "b": ()})
{('t', 1)}

The rules are those of ``assignors.solver.ownership`` and ``revocation``, which decide wherever claims do overlap.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkcohort.assignors import MemberSubscription, Partition
from sparkcohort.assignors.api import Assignment
from sparkcohort.assignors.solver.ownership import Ownership, resolve_ownership
from sparkcohort.runtime.group.summary import ranges
from sparkcohort.runtime.text import counted

Members = Mapping[str, MemberSubscription]


class OwnedPartitions:
    """``owned`` has what each member holds validly: what exists, is still wanted, and nobody claims with more right."""

    def __init__(self, topics: Mapping[str, int], members: Members) -> None:
        self._topics = topics
        self._members = members
        self._holder: dict[Partition, str] = {}
        for member in members:
            self._holder.update(dict.fromkeys(members[member].owned, member))
        alone = len(self._holder) == sum(len(said.owned) for said in members.values())
        ownership = None if alone else resolve_ownership(topics, members)
        self._claimants = ownership.claimants if ownership else None
        self.owned = self._decided(ownership) if ownership else self._each()

    def _each(self) -> dict[str, frozenset[Partition]]:
        found = {}
        for member, said in self._members.items():
            sizes = {topic: self._topics.get(topic, 0) for topic in said.topics}
            found[member] = frozenset(p for p in said.owned if 0 <= p[1] < sizes.get(p[0], 0))
        return found

    def _decided(self, ownership: Ownership) -> dict[str, frozenset[Partition]]:
        found: dict[str, set[Partition]] = {member: set() for member in self._members}
        for partition, owner in ownership.owner.items():
            found[owner].add(partition)
        return {member: frozenset(mine) for member, mine in found.items()}

    def claimed(self, partition: Partition) -> bool:
        """Whether somebody says that it holds this partition."""
        return partition in self._holder

    def transferring_ownership(self, given: Mapping[str, tuple[Partition, ...]]) -> set[Partition]:
        """What of an answer can't be handed over yet, since somebody else must give it up first (KIP-429)."""
        return {
            partition
            for member, partitions in given.items()
            for partition in set(partitions) - self.owned[member]
            if self._others(partition, member)
        }

    def adjust_assignment(self, given: Assignment) -> Assignment:
        """This round's part of an answer, without what is withheld."""
        held = self.transferring_ownership(given)
        return {m: tuple(p for p in mine if p not in held) for m, mine in given.items()} if held else given

    def contested(self) -> list[Partition]:
        """The partitions that more than one member claims, sorted."""
        claimants = self._claimants or {}
        return sorted(partition for partition, who in claimants.items() if len(who) > 1)

    def _others(self, partition: Partition, member: str) -> bool:
        if self._claimants is None:
            return self._holder.get(partition, member) != member
        return any(claimant != member for claimant in self._claimants.get(partition, ()))


def oddities(topics: Mapping[str, int], members: Members, claims: OwnedPartitions) -> list[str]:
    """What an assignor passes over in such a group, a line each."""
    lines: list[str] = []
    gone: set[Partition] = set()
    unwanted: set[Partition] = set()
    for member, said in members.items():
        for partition in set(said.owned) - claims.owned[member]:
            if not 0 <= partition[1] < topics.get(partition[0], 0):
                gone.add(partition)
            elif partition[0] not in said.topics:
                unwanted.add(partition)
    subscribed = {topic for said in members.values() for topic in said.topics}
    kinds = (
        (claims.contested(), "claimed by several members: the highest generation counts, and none that two have"),
        (gone, "claimed but not there"),
        (unwanted, "claimed by a member that doesn't subscribe to the topic"),
    )
    lines += [
        f"{counted(len(found), 'partition')} {what}: {_cut(ranges(found) or '')}" for found, what in kinds if found
    ]
    if left := sorted(topic for topic in topics if topic not in subscribed):
        lines.append(f"nobody subscribes to {_cut(', '.join(left))}")
    if absent := sorted(subscribed - topics.keys()):
        lines.append(f"subscribed to but not there: {_cut(', '.join(absent))}")
    return lines


def _cut(words: str, most: int = 60) -> str:
    return words if len(words) <= most else f"{words[:most]}…"
