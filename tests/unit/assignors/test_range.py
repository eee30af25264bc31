"""range: contiguous runs per topic, static members first."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.assignors import MemberSubscription, Partition, find_assignor
from tests.kit import groups

RANGE = find_assignor("range")


@given(groups.topics(), groups.members())
def test_range_agrees_with_a_dumb_twin(topics: dict[str, int], members: groups.Members) -> None:
    """Dealing each topic's partitions out as cards, then sorting the hands by length, is the same."""
    order = sorted((said.instance_id is None, said.instance_id or m, m) for m, said in members.items())
    hands: dict[str, list[Partition]] = {m: [] for m in members}
    for topic, count in topics.items():
        who = [m for _, _, m in order if topic in members[m].topics]
        sizes = [sum(1 for p in range(count) if p % len(who) == place) for place in range(len(who))]
        owners = [m for m, size in zip(who, sizes, strict=True) for _ in range(size)]
        for partition, owner in enumerate(owners):
            hands[owner].append((topic, partition))
    assert RANGE.assign(topics, members) == {m: tuple(sorted(hand)) for m, hand in hands.items()}


@st.composite
def _with_racks(draw: st.DrawFn) -> tuple[dict[str, int], groups.Members, dict[str, list[tuple[str, ...]]]]:
    """Topics, members in racks, and where replicas are; of some partitions nothing is known."""
    topics = draw(groups.topics(9))
    members = {
        m: replace(said, rack=draw(st.sampled_from((None, "a", "b", "c"))))
        for m, said in draw(groups.members(claims=False, most=6)).items()
    }
    somewhere = st.lists(st.sampled_from("abc"), unique=True, max_size=3).map(tuple)
    where = {topic: draw(st.lists(somewhere, max_size=count)) for topic, count in topics.items()}
    return topics, members, where


@given(_with_racks())
def test_racks_leave_the_balance_as_it_is(
    group: tuple[dict[str, int], groups.Members, dict[str, list[tuple[str, ...]]]],
) -> None:
    """Balance goes before racks: of every topic there are as many members with so many partitions as without racks."""
    topics, members, where = group
    near, plain = RANGE.assign(topics, members, where), RANGE.assign(topics, members)
    for topic in topics:
        counts = [sorted(sum(t == topic for t, _ in mine) for mine in given.values()) for given in (near, plain)]
        assert counts[0] == counts[1]


@given(_with_racks())
def test_co_partitioned_topics_stay_together_with_racks(
    group: tuple[dict[str, int], groups.Members, dict[str, list[tuple[str, ...]]]],
) -> None:
    """Co-partitioning goes before racks: topics of equal size and equal subscribers are dealt alike."""
    topics, members, where = group
    result = RANGE.assign(topics, members, where)
    for one, other in combinations(topics, 2):
        alike = all((one in said.topics) == (other in said.topics) for said in members.values())
        if alike and topics[one] == topics[other]:
            assert all(
                {p for t, p in mine if t == one} == {p for t, p in mine if t == other} for mine in result.values()
            )


def test_each_member_takes_what_is_in_its_rack() -> None:
    """Replicas of one rack each: everybody reads at home, whatever the runs would be."""
    members = {m: MemberSubscription(("t",), rack=rack) for m, rack in zip("abc", "xyz", strict=True)}
    where = {"t": [("z",), ("y",), ("x",), ("z",), ("y",), ("x",)]}
    given_out = RANGE.assign({"t": 6}, members, where)
    assert given_out == {"a": (("t", 2), ("t", 5)), "b": (("t", 1), ("t", 4)), "c": (("t", 0), ("t", 3))}
    both = {m: MemberSubscription(("t", "u"), rack=said.rack) for m, said in members.items()}
    crowded = RANGE.assign({"t": 4, "u": 4}, both, dict.fromkeys("tu", [("x",)] * 3 + [("y",)]))
    assert crowded["a"] == (("t", 0), ("t", 1), ("u", 0), ("u", 1)), "of two topics alike no more than its share"


def test_racks_do_not_count_where_every_partition_is_everywhere() -> None:
    """Nothing is to be gained then, so who has what stays as it would be without racks."""
    members = {"a": MemberSubscription(("t",), rack="y"), "b": MemberSubscription(("t",), rack="x")}
    for racks in (("x", "y"), ("z",)):
        assert RANGE.assign({"t": 2}, members, {"t": [racks, racks]}) == {"a": (("t", 0),), "b": (("t", 1),)}
