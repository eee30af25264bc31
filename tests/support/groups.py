"""Hypothesis strategies and helpers for groups of members, as assignors see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import strategies as st

from sparkcohort.assignors import Assignor, MemberSubscription, Partition

TOPICS = ("t0", "t1", "t2", "t3")
Members = dict[str, MemberSubscription]
Given = Mapping[str, tuple[Partition, ...]]


def topics(most: int = 6) -> st.SearchStrategy[dict[str, int]]:
    """Up to four topics of up to ``most`` partitions."""
    return st.dictionaries(st.sampled_from(TOPICS), st.integers(0, most), max_size=4)


@st.composite
def members(draw: st.DrawFn, *, equal: bool | None = None, claims: bool = True, most: int = 5) -> Members:
    """Members with any claims: contested, outdated, of topics gone or unwanted; ``equal``: all want the same."""
    ids = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=most))
    wanted = st.lists(st.sampled_from((*TOPICS, "gone")), unique=True, max_size=5).map(tuple)
    same = draw(wanted) if equal or (equal is None and draw(st.booleans())) else None
    owned = st.lists(st.tuples(st.sampled_from((*TOPICS, "gone")), st.integers(0, 7)), unique=True, max_size=8)
    group: Members = {}
    for member in ids:
        mine = tuple(draw(owned)) if claims else ()
        group[member] = MemberSubscription(
            topics=draw(wanted) if same is None else same,
            owned=mine,
            generation=draw(st.integers(-1, 3)),
            instance_id=draw(st.none() | st.just("i" + member)),
            since={partition: draw(st.integers(0, 3)) for partition in mine},
        )
    return group


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
