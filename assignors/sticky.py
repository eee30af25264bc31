"""Balanced and sticky: the target that the sticky family of assignors aims at.

*Balanced*: the sum of the squares of the members' loads is the least that the subscriptions allow.  Among equal
subscribers that is max − min ≤ 1; in general no partition can move, not even through a chain of members, from a
member to one with two fewer, which is Kafka's definition and a little more.  *Sticky*: no other balanced target
takes fewer partitions from their owners, and of the partitions of an owner those acquired last are taken first.

Nearly always all members want the same topics: then arithmetic does it (``_equal``).  Otherwise ``_unequal``
makes a good guess and ``exchange`` improves it until it's exact.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from heapq import heapify, heapreplace
from typing import TypeAlias

from sparkcohort.assignors.base import Assignment, MemberSubscription, Partition, finish, subscribers
from sparkcohort.assignors.exchange import improve
from sparkcohort.assignors.ownership import Ownership

Held: TypeAlias = dict[str, list[Partition]]


def balance(topics: Mapping[str, int], members: Mapping[str, MemberSubscription], ownership: Ownership) -> Assignment:
    """Compute the target, whoever may hold its partitions still."""
    wanted_by = subscribers(topics, members)
    owned = _oldest_first(members, ownership)
    lists = list(wanted_by.values())
    if all(who == lists[0] for who in lists):
        target = _equal(_free(topics, wanted_by, owned), lists[0], owned, members) if lists else {}
    else:
        target = _unequal(topics, wanted_by, members, owned)
    return finish(members, target)


def since(members: Mapping[str, MemberSubscription], owner: str, partition: Partition) -> int:
    """Generation in which an owner acquired a partition; -1 when nobody knows, as for the oldest."""
    return members[owner].since.get(partition, -1)


def _oldest_first(members: Mapping[str, MemberSubscription], ownership: Ownership) -> Held:
    owned: Held = {member: [] for member in sorted(members)}
    for partition, owner in ownership.owner.items():
        owned[owner].append(partition)
    for member, partitions in owned.items():
        acquired = members[member].since
        # Within one generation by number before topic (as Kafka does): what goes is then spread over the topics.
        partitions.sort(key=lambda p: (acquired.get(p, -1), p[1], p[0]))
    return owned


def _free(topics: Mapping[str, int], wanted_by: Mapping[str, list[str]], owned: Held) -> list[Partition]:
    taken = {partition for partitions in owned.values() for partition in partitions}
    every = ((topic, partition) for topic in wanted_by for partition in range(topics[topic]))
    return [partition for partition in every if partition not in taken]


def _equal(free: list[Partition], who: list[str], owned: Held, members: Mapping[str, MemberSubscription]) -> Held:
    """Everyone gets ⌊P/N⌋ or one more; who has more than ⌊P/N⌋ keeps one more first, the oldest holding before."""
    fewest, one_more = divmod(len(free) + sum(len(owned[member]) for member in who), len(who))
    rich = [member for member in who if len(owned[member]) > fewest]
    rich.sort(key=lambda member: (since(members, member, owned[member][fewest]), member))
    quota = dict.fromkeys(who, fewest) | dict.fromkeys(rich[:one_more], fewest + 1)
    target = {member: owned[member][: quota[member]] for member in who}
    given_up = [partition for member in who for partition in owned[member][quota[member] :]]
    _deal(sorted(free + given_up), target, fewest)
    return target


def _deal(partitions: list[Partition], target: Held, fewest: int) -> None:
    """Deal round-robin to those under ``fewest``; what is left then goes one each to those who have just that many."""
    under = deque(member for member, held in target.items() if len(held) < fewest)
    exact = deque(member for member, held in target.items() if len(held) == fewest)
    for partition in partitions:
        member = under.popleft() if under else exact.popleft()
        target[member].append(partition)
        if len(target[member]) < fewest:
            under.append(member)
        elif len(target[member]) == fewest:
            exact.append(member)


def _unequal(
    topics: Mapping[str, int],
    wanted_by: Mapping[str, list[str]],
    members: Mapping[str, MemberSubscription],
    owned: Held,
) -> Held:
    """Owners keep up to the load they'd have if all began anew; the rest goes to who has least; then it's improved."""
    hardest_first = sorted(wanted_by, key=lambda topic: (len(wanted_by[topic]), topic))
    anew: Held = {member: [] for member in sorted(members)}
    for topic in hardest_first:
        give_to_least([(topic, partition) for partition in range(topics[topic])], wanted_by[topic], anew)
    held = {member: owned[member][: len(anew[member])] for member in anew}
    free = _free(topics, wanted_by, held)
    for topic in hardest_first:
        give_to_least([partition for partition in free if partition[0] == topic], wanted_by[topic], held)
    ages = {p: since(members, member, p) for member, mine in owned.items() for p in mine}
    owner = {partition: member for member, mine in owned.items() for partition in mine}
    return improve(held, owner, ages, {member: frozenset(members[member].topics) for member in sorted(members)})


def give_to_least(partitions: list[Partition], who: list[str], held: Held) -> None:
    """Give partitions one by one to the member of ``who`` that has least, the first by id among equals."""
    loads = [(len(held[member]), member) for member in who]
    heapify(loads)
    for partition in partitions:
        load, member = loads[0]
        held[member].append(partition)
        heapreplace(loads, (load + 1, member))
