"""Hypothesis strategies and helpers for groups of members, as assignors see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import strategies as st

from sparkcohort.assignors import Assignor, Load, MemberSubscription, Partition

TOPICS = ("t0", "t1", "t2", "t3")
Members = dict[str, MemberSubscription]
Given = Mapping[str, tuple[Partition, ...]]
_PARTITION = st.tuples(st.sampled_from((*TOPICS, "gone")), st.integers(0, 7))
_ANY_LOAD = st.builds(Load, st.floats(), st.floats(), st.integers())


def topics(most: int = 6) -> st.SearchStrategy[dict[str, int]]:
    """Up to four topics of up to ``most`` partitions."""
    return st.dictionaries(st.sampled_from(TOPICS), st.integers(0, most), max_size=4)


@st.composite
def members(
    draw: st.DrawFn, *, equal: bool | None = None, claims: bool = True, most: int = 5, loads: bool = False
) -> Members:
    """Members with any claims: contested, outdated, of topics gone or unwanted; ``equal``: all want the same.

    ``loads``: they may report any, of what they own and of what not.
    """
    ids = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=most))
    wanted = st.lists(st.sampled_from((*TOPICS, "gone")), unique=True, max_size=5).map(tuple)
    same = draw(wanted) if equal or (equal is None and draw(st.booleans())) else None
    owned = st.lists(_PARTITION, unique=True, max_size=8)
    group: Members = {}
    for member in ids:
        mine = tuple(draw(owned)) if claims else ()
        group[member] = MemberSubscription(
            topics=draw(wanted) if same is None else same,
            owned=mine,
            generation=draw(st.integers(-1, 3)),
            instance_id=draw(st.none() | st.just("i" + member)),
            since={partition: draw(st.integers(0, 3)) for partition in mine},
            loads=draw(st.dictionaries(_PARTITION, _ANY_LOAD, max_size=6)) if loads else {},
        )
    return group


def busy(most: int = 60) -> st.SearchStrategy[Load]:
    """Loads as they are: nothing, little, much, with more or less backlog."""
    return st.builds(Load, st.integers(0, most).map(float), st.integers(0, most).map(float), st.integers(0, most))


@st.composite
def carrying(
    draw: st.DrawFn, *, equal: bool | None = None, most: int = 5, partitions: int = 4
) -> tuple[dict[str, int], Members]:
    """A settled group, every wanted partition owned by any of its subscribers, all loads known to the owners."""
    ids = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=2, max_size=most))
    wanted = st.lists(st.sampled_from(TOPICS), unique=True, min_size=1).map(tuple)
    same = draw(wanted) if equal or (equal is None and draw(st.booleans())) else None
    want = {member: draw(wanted) if same is None else same for member in ids}
    counts = {topic: draw(st.integers(1, partitions)) for topic in sorted({t for mine in want.values() for t in mine})}
    owned: dict[str, dict[Partition, Load]] = {member: {} for member in ids}
    for partition in [(topic, number) for topic, count in counts.items() for number in range(count)]:
        owner = draw(st.sampled_from([member for member in ids if partition[0] in want[member]]))
        owned[owner][partition] = draw(busy())
    since = {member: {partition: draw(st.integers(0, 3)) for partition in mine} for member, mine in owned.items()}
    group = {
        member: MemberSubscription(want[member], tuple(mine), 3, since=since[member], loads=mine)
        for member, mine in owned.items()
    }
    return counts, group


def rejoin(group: Mapping[str, MemberSubscription], given: Given, generation: int) -> Members:
    """The members as they join the next round: owning what they were given, kept partitions with their age."""
    return {
        member: replace(
            said,
            owned=given[member],
            generation=generation,
            since={p: said.since.get(p, generation) if p in said.owned else generation for p in given[member]},
        )
        for member, said in group.items()
    }


def settle(assignor: Assignor, topics: Mapping[str, int], group: Members, generation: int = 10) -> tuple[Members, int]:
    """Rounds until nothing changes: the members with what they own then, and how many rounds it took."""
    for rounds in range(1, 6):
        given = assignor.assign(topics, group)
        settled = all(given[member] == tuple(sorted(said.owned)) for member, said in group.items())
        group = rejoin(group, given, generation + rounds)
        if settled:
            return group, rounds - 1
    raise AssertionError(f"not settled after 5 rounds: {group}")


def loads(given: Given) -> list[int]:
    """How many partitions each member has, sorted."""
    return sorted(map(len, given.values()))


def owned_by(group: Mapping[str, MemberSubscription]) -> dict[Partition, str]:
    """Owner of each partition, when claims don't overlap."""
    return {partition: member for member, said in group.items() for partition in said.owned}
