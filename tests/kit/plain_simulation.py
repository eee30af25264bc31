"""The figures of ``cohort simulate``, counted a second time and as plainly as can be: partition by partition, round by round.

It shares nothing with ``cli.simulate.outcome`` but the assignors.  ``fewest_moves`` tries every assignment there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from sparkcohort.assignors import Assignor, MemberSubscription, Partition
from sparkcohort.assignors.load_balanced import LoadBalancedAssignor
from sparkcohort.cli.simulate.case import Case

Owners = dict[Partition, str | None]


def partitions(case: Case) -> list[Partition]:
    """Every partition that somebody wants, sorted."""
    everything = [(topic, number) for topic, count in case.topics.items() for number in range(count)]
    return sorted(tp for tp in everything if any(tp[0] in said.topics for said in case.members.values()))


def claimants(case: Case, partition: Partition) -> list[str]:
    """Who says that it holds the partition."""
    return [member for member, said in case.members.items() if partition in said.owned]


def owner(case: Case, partition: Partition) -> str | None:
    """Who holds it validly: of those who still want it the one of the highest generation, if it is one, and it exists."""
    claims = [member for member in claimants(case, partition) if partition[0] in case.members[member].topics]
    if not claims or not 0 <= partition[1] < case.topics.get(partition[0], 0):
        return None
    latest = max(case.members[member].generation for member in claims)
    newest = [member for member in claims if case.members[member].generation == latest]
    return newest[0] if len(newest) == 1 else None


def owners(case: Case) -> Owners:
    """The valid owner of each wanted partition."""
    return {partition: owner(case, partition) for partition in partitions(case)}


def by_partition(case: Case, given: Mapping[str, tuple[Partition, ...]]) -> Owners:
    """An assignment the other way round, None for who has nobody."""
    found: Owners = dict.fromkeys(partitions(case))
    for member, mine in given.items():
        for partition in mine:
            assert found[partition] is None
            found[partition] = member
    return found


def moved(before: Owners, after: Owners) -> int:
    """Partitions that had an owner and have another."""
    return sum(before[partition] not in (None, now) for partition, now in after.items())


def loads(case: Case, after: Owners) -> list[int]:
    """How many partitions each member has that wants any that exists."""
    hungry = [m for m, said in case.members.items() if any(case.topics.get(topic) for topic in said.topics)]
    return [sum(now == member for now in after.values()) for member in hungry]


def spread(case: Case, after: Owners) -> int:
    """Most less fewest."""
    found = loads(case, after)
    return max(found, default=0) - min(found, default=0)


def fewest_moves(case: Case) -> int:
    """The least that any complete and balanced assignment moves, by trying all; for a handful of partitions."""
    before = owners(case)
    eligible = [[m for m, said in case.members.items() if tp[0] in said.topics] for tp in before]
    best = (10**9, 10**9)
    for choice in product(*eligible):
        after: Owners = dict(zip(before, choice, strict=True))
        best = min(best, (sum(load * load for load in loads(case, after)), moved(before, after)))
    return best[1]


def mismatches(case: Case, after: Owners) -> int | None:
    """Owners away from every rack that has a replica, where both are known."""
    known = any(said.rack for said in case.members.values()) and any(any(rows) for rows in case.racks.values())
    found = 0
    for (topic, number), now in after.items():
        where = case.racks[topic][number] if topic in case.racks else ()
        rack = case.members[now].rack if now is not None else None
        found += bool(where and rack is not None and rack not in where)
    return found if known else None


def busiest(case: Case, loads: Mapping[Partition, float], after: Owners) -> float | None:
    """The most that a member carries, over what each would if all carried the same."""
    hungry = [m for m, said in case.members.items() if any(case.topics.get(topic) for topic in said.topics)]
    carried = [sum(loads.get(tp, 0) for tp, now in after.items() if now == member) for member in hungry]
    return max(carried) / (sum(carried) / len(carried)) if any(carried) else None


def at_first(assignor: Assignor) -> Assignor:
    """As it is asked in a round that no imbalance of loads is the reason of."""
    return replace(assignor, max_moves=0) if isinstance(assignor, LoadBalancedAssignor) else assignor


def cooperate(assignor: Assignor, case: Case) -> dict[str, Any]:
    """Rounds as the cooperative protocol has them: who has what at the end, how many there were, and who stood still."""
    now, asked = owners(case), at_first(assignor)
    paused: dict[Partition, int] = dict.fromkeys(now, 0)
    for rounds in range(1, 11):
        for partition, has in now.items():
            paused[partition] += has is None
        answer = by_partition(case, asked.assign(case.topics, case.members, case.racks))
        for partition, new in answer.items():
            free = not [who for who in claimants(case, partition) if who != new]
            now[partition] = new if new is not None and (free or owner(case, partition) == new) else None
        if all(now.get(tp) == member for member, said in case.members.items() for tp in said.owned):
            break
        case = replace(case, members=_rejoin(case.members, now, 100 + rounds))
    return {"now": now, "rounds": rounds, "paused": {tp: count for tp, count in paused.items() if count}}


def _rejoin(members: Mapping[str, MemberSubscription], now: Owners, generation: int) -> dict[str, MemberSubscription]:
    found = {}
    for member, said in members.items():
        mine = tuple(sorted(tp for tp, has in now.items() if has == member))
        since = {tp: generation for tp in mine if tp not in said.owned}
        since |= {tp: said.since[tp] for tp in mine if tp in said.owned and tp in said.since}
        found[member] = replace(said, owned=mine, generation=generation, since=since)
    return found
