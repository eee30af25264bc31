"""A second sticky assignor, deliberately plain: dictionaries, loops and one partition at a time; without racks."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from heapq import heapify, heapreplace

from sparkcohort.assignors import MemberSubscription, Partition
from sparkcohort.assignors.api import subscribers
from tests.kit.plain_exchange import improve

Members = Mapping[str, MemberSubscription]
Owners = dict[Partition, str]
Claimants = dict[Partition, list[str]]
Held = dict[str, list[Partition]]


def resolve(topics: Mapping[str, int], members: Members) -> tuple[Owners, Claimants]:
    """The valid owner of each partition that has one, and all who claim each."""
    claimants: Claimants = {}
    for member in sorted(members):
        for claimed in set(members[member].owned):
            if 0 <= claimed[1] < topics.get(claimed[0], 0):
                claimants.setdefault(claimed, []).append(member)
    wanted = {member: frozenset(subscription.topics) for member, subscription in members.items()}
    owner: Owners = {}
    for partition in sorted(claimants):
        winner = _newest(claimants[partition], members)
        if winner is not None and partition[0] in wanted[winner]:
            owner[partition] = winner
    return owner, claimants


def _newest(claimants: list[str], members: Members) -> str | None:
    if len(claimants) == 1:
        return claimants[0]
    newest = max(members[member].generation for member in claimants)
    winners = [member for member in claimants if members[member].generation == newest]
    return winners[0] if len(winners) == 1 else None


def adjust_assignment(target: Held, owner: Owners, claimants: Claimants) -> Held:
    """Without what anybody but its valid owner may still be reading."""
    return {
        member: [p for p in mine if owner.get(p) == member or not set(claimants.get(p, ())) - {member}]
        for member, mine in target.items()
    }


def balance(topics: Mapping[str, int], members: Members, owner: Owners) -> Held:
    """The target."""
    wanted_by = subscribers(topics, members)
    owned = _oldest_first(members, owner)
    lists = [who for topic, who in wanted_by.items() if topics[topic]]
    if all(who == lists[0] for who in lists):
        target = _equal(_free(topics, wanted_by, owned), lists[0], owned, members) if lists else {}
    else:
        target = _unequal(topics, wanted_by, members, owned)
    return {member: sorted(target.get(member, [])) for member in sorted(members)}


def _since(members: Members, owner: str, partition: Partition) -> int:
    return members[owner].since.get(partition, -1)


def _oldest_first(members: Members, owner: Owners) -> Held:
    owned: Held = {member: [] for member in sorted(members)}
    for partition, member in owner.items():
        owned[member].append(partition)
    for member, partitions in owned.items():
        acquired = members[member].since
        # Within one generation by number before topic (as Kafka does): what goes is then spread over the topics.
        partitions.sort(key=lambda p: (acquired.get(p, -1), p[1], p[0]))
    return owned


def _free(topics: Mapping[str, int], wanted_by: Mapping[str, list[str]], owned: Held) -> list[Partition]:
    taken = {partition for partitions in owned.values() for partition in partitions}
    every = ((topic, partition) for topic in wanted_by for partition in range(topics[topic]))
    return [partition for partition in every if partition not in taken]


def _equal(free: list[Partition], who: list[str], owned: Held, members: Members) -> Held:
    """Everyone gets ⌊P/N⌋ or one more; who has more than ⌊P/N⌋ keeps one more first, the oldest holding before."""
    fewest, one_more = divmod(len(free) + sum(len(owned[member]) for member in who), len(who))
    rich = [member for member in who if len(owned[member]) > fewest]
    rich.sort(key=lambda member: (_since(members, member, owned[member][fewest]), member))
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
    members: Members,
    owned: Held,
) -> Held:
    """Owners keep up to the load they'd have if all began anew; the rest goes to who has least; then it's improved."""
    hardest_first = sorted(wanted_by, key=lambda topic: (len(wanted_by[topic]), topic))
    anew: Held = {member: [] for member in sorted(members)}
    for topic in hardest_first:
        _give_to_least([(topic, partition) for partition in range(topics[topic])], wanted_by[topic], anew)
    held = {member: owned[member][: len(anew[member])] for member in anew}
    free = _free(topics, wanted_by, held)
    for topic in hardest_first:
        _give_to_least([partition for partition in free if partition[0] == topic], wanted_by[topic], held)
    ages = {p: _since(members, member, p) for member, mine in owned.items() for p in mine}
    owner = {partition: member for member, mine in owned.items() for partition in mine}
    return improve(held, owner, ages, {member: frozenset(members[member].topics) for member in sorted(members)})


def _give_to_least(partitions: list[Partition], who: list[str], held: Held) -> None:
    """Give partitions one by one to the member of ``who`` that has least, the first by id among equals."""
    loads = [(len(held[member]), member) for member in who]
    heapify(loads)
    for partition in partitions:
        load, member = loads[0]
        held[member].append(partition)
        heapreplace(loads, (load + 1, member))
