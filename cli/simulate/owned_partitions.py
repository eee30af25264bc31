"""The owners of partitions before a round, by the rules of ``assignors.solver.ownership``.

>>> from sparkcohort.assignors import MemberSubscription
>>> claims = OwnedPartitions({"t": 3}, {"a": MemberSubscription(("t",), (("t", 0), ("t", 7)), 1), "b": MemberSubscription((), (("t", 1),))})
>>> claims.owned["a"], claims.owned["b"]
(frozenset({('t', 0)}), frozenset())
>>> claims.adjust_assignment({"a": (("t", 0), ("t", 1), ("t", 2)), "b": ()})
{'a': (('t', 0), ('t', 2)), 'b': ()}
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkcohort.assignors import MemberSubscription, Partition
from sparkcohort.assignors.api import Assignment
from sparkcohort.assignors.solver.ownership import resolve_ownership
from sparkcohort.runtime.group.summary import ranges
from sparkcohort.runtime.text import counted, printable

Members = Mapping[str, MemberSubscription]


class OwnedPartitions:
    """``owned`` has each member's valid claims: the partition exists, is still wanted, and no other claim wins over this one."""

    def __init__(self, topics: Mapping[str, int], members: Members) -> None:
        ownership = resolve_ownership(topics, members)
        self._claimants = ownership.claimants
        owned: dict[str, set[Partition]] = {member: set() for member in members}
        for partition, owner in ownership.owner.items():
            owned[owner].add(partition)
        self.owned = {member: frozenset(partitions) for member, partitions in owned.items()}

    def adjust_assignment(self, answer: Assignment) -> Assignment:
        """This round's part of an answer: without partitions that another member has to revoke first (KIP-429)."""
        return {
            member: tuple(
                partition
                for partition in partitions
                if partition in self.owned[member] or set(self._claimants.get(partition, ())) <= {member}
            )
            for member, partitions in answer.items()
        }

    def contested(self) -> list[Partition]:
        """The partitions that more than one member claims, sorted."""
        return sorted(partition for partition, members in self._claimants.items() if len(members) > 1)


def oddities(topics: Mapping[str, int], members: Members, claims: OwnedPartitions) -> list[str]:
    """Claims and topics that an assignor ignores, a line for each kind."""
    lines: list[str] = []
    missing: set[Partition] = set()
    unwanted: set[Partition] = set()
    for member, subscription in members.items():
        for partition in set(subscription.owned) - claims.owned[member]:
            if not 0 <= partition[1] < topics.get(partition[0], 0):
                missing.add(partition)
            elif partition[0] not in subscription.topics:
                unwanted.add(partition)
    subscribed = {topic for subscription in members.values() for topic in subscription.topics}
    kinds = (
        (claims.contested(), "claimed by several members: the highest generation counts, and none that two have"),
        (missing, "claimed but missing"),
        (unwanted, "claimed by a member that doesn't subscribe to the topic"),
    )
    lines += [
        f"{counted(len(each), 'partition')} {text}: {printable(ranges(each) or '', 60)}" for each, text in kinds if each
    ]
    if unsubscribed := sorted(topic for topic in topics if topic not in subscribed):
        lines.append(f"nobody subscribes to {printable(', '.join(unsubscribed), 60)}")
    if absent := sorted(subscribed - topics.keys()):
        lines.append(f"subscribed to but not there: {printable(', '.join(absent), 60)}")
    return lines
