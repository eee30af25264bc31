"""The sticky family: with racks, and large."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.assignors import ASSIGNORS, Assignor, MemberSubscription
from sparkcohort.assignors.solver import unequal
from sparkcohort.assignors.solver.ownership import resolve_ownership
from sparkcohort.assignors.solver.packed import pack
from sparkcohort.assignors.solver.revocation import adjust_assignment
from sparkcohort.assignors.solver.space import Space
from sparkcohort.assignors.sticky import balance_partitions
from tests.kit import groups, optimum
from tests.kit.assignor_cases import lived

BOTH = pytest.mark.parametrize("assignor", [ASSIGNORS["sticky"], ASSIGNORS["cooperative-sticky"]], ids=lambda a: a.name)
RACKS = st.lists(st.sampled_from(("a", "b", "c", "")), max_size=2, unique=True)


def _with_racks(
    topics: Mapping[str, int], members: groups.Members, data: st.DataObject
) -> tuple[groups.Members, dict[str, list[list[str]]]]:
    racks = {topic: [data.draw(RACKS) for _ in range(count)] for topic, count in topics.items() if topic != "t3"}
    placed = {
        member: MemberSubscription(
            said.topics,
            said.owned,
            said.generation,
            said.instance_id,
            data.draw(st.sampled_from("abc") | st.none()),
            said.since,
        )
        for member, said in members.items()
    }
    return placed, racks


@BOTH
@given(topics=groups.topics(), members=groups.members(), data=st.data())
def test_racks_break_no_law(
    assignor: Assignor, topics: dict[str, int], members: groups.Members, data: st.DataObject
) -> None:
    """Complete and settled after at most three rounds, and then nobody moves; the order of the inputs doesn't matter."""
    members, racks = _with_racks(topics, members, data)
    for rounds in range(1, 6):
        given_out = assignor.assign(topics, members, racks)
        shuffled = dict(data.draw(st.permutations(list(members.items()))))
        assert assignor.assign(topics, shuffled, dict(reversed(racks.items()))) == given_out
        settled = all(given_out[member] == tuple(sorted(said.owned)) for member, said in members.items())
        members = groups.rejoin(members, given_out, 10 + rounds)
        if settled:
            break
    assert rounds <= 4
    wanted = {(t, p) for said in members.values() for t in said.topics for p in range(topics.get(t, 0))}
    assert set(groups.owned_by(members)) == wanted


def test_racks_that_make_no_difference_change_nothing() -> None:
    """Replicas in every rack, or none where a member is."""
    members = {m: MemberSubscription(("t",), rack=rack) for m, rack in (("x", "a"), ("y", "b"))}
    blind = balance_partitions({"t": 5}, members)
    assert balance_partitions({"t": 5}, members, None, {"t": [["a", "b"]] * 5}) == blind
    assert balance_partitions({"t": 5}, members, None, {"t": [["c"]] * 5}) == blind


@pytest.mark.parametrize("odd", [False, True], ids=["equal", "one wants less"])
def test_a_large_group_moves_no_more_than_it_must(odd: bool) -> None:
    """30,000 partitions, 300 members: fresh, one leaves, one joins; balanced, complete, the fewest moves."""
    topics = {f"t{n:02}": 750 for n in range(40)}
    members = {f"m{n:03}": MemberSubscription(tuple(topics)[: 1 if odd and n == 0 else None]) for n in range(300)}
    first = ASSIGNORS["cooperative-sticky"].assign(topics, members)
    assert {len(mine) for mine in first.values()} == {100}
    owners = {m: MemberSubscription(members[m].topics, first[m], 1) for m in members}
    fewer = {m: owners[m] for m in members if m != "m007"}
    left = ASSIGNORS["cooperative-sticky"].assign(topics, fewer)
    assert all(set(first[m]) <= set(left[m]) for m in fewer)
    assert groups.loads(left)[::298] == [100, 101]
    more = {**owners, "new": MemberSubscription(tuple(topics))}
    target = balance_partitions(topics, more)
    assert groups.loads(target)[::300] == [99, 100]
    assert sum(len(set(first[m]) - set(target[m])) for m in owners) == 99


def test_an_assignment_by_places_is_one_by_values() -> None:
    """Read like a dictionary, equal to one, and made from one, unless that names what isn't there or one thing twice."""
    members = {"b": MemberSubscription(("t",)), "a": MemberSubscription(("t", "u"))}
    space = Space({"u": 2, "t": 1}, members)
    values = {"a": (("u", 0),), "b": (("t", 0), ("u", 1))}
    made = pack(space, values)
    assert made is not None
    assert made == values
    assert (list(made), len(made), repr(made)) == (["a", "b"], 2, repr(values))
    assert {**made} == values
    for wrong in (
        {"c": (("t", 0),)},
        {"a": (("t", 1),)},
        {"a": (("v", 0),)},
        {"a": (("t", -1),)},
    ):
        assert pack(space, wrong) is None
    assert pack(space, {"a": (("t", 0),), "b": (("t", 0),)}) is None
    with pytest.raises(ValueError, match="these topics to these members"):
        adjust_assignment({"c": (("t", 0),)}, resolve_ownership({"t": 1}, members))


def test_what_takes_too_long_is_balanced_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no time for racks, equal subscribers are still served completely, and as evenly as can be."""
    monkeypatch.setattr(unequal, "MOST_WORK", 0)
    for seed in range(200):
        case = lived(seed, equal=True, racks="all")
        topics, members = case.topics, case.members
        target = balance_partitions(topics, members, racks=case.racks)
        assert optimum.cost(target, members, {}, {}) == optimum.least(topics, members, {}, {}), seed
        assert sorted(p for mine in target.values() for p in mine) == sorted(
            (topic, number) for topic, count in topics.items() for number in range(count)
        )
