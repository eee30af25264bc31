"""The sticky family: near with racks, right where Kafka's own code errs, and large."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.assignors import Assignor, MemberSubscription, find_assignor
from sparkcohort.assignors.solver import initial, levels, unequal
from sparkcohort.assignors.solver.cycles import Table, improve_table
from sparkcohort.assignors.solver.ownership import resolve_ownership
from sparkcohort.assignors.solver.packed import pack
from sparkcohort.assignors.solver.revocation import adjust_assignment
from sparkcohort.assignors.solver.space import Space, give_to_least
from sparkcohort.assignors.sticky import balance_partitions
from tests.kit import groups, optimum

BOTH = pytest.mark.parametrize(
    "assignor", [find_assignor("sticky"), find_assignor("cooperative-sticky")], ids=lambda a: a.name
)
RACKS = st.lists(st.sampled_from(("a", "b", "c", "")), max_size=2, unique=True)


def _group(random: Random, *, equal: bool, most: int) -> tuple[dict[str, int], groups.Members]:
    topics = {f"t{n}": random.randint(0, 2 * most) for n in range(random.randint(1, most // 2))}
    everything = tuple(topics)
    members: groups.Members = {}
    for number in range(random.randint(1, most)):
        wanted = everything if equal else tuple(topic for topic in everything if random.random() < 0.6)
        count = random.choice([0, 3, 8, 20])
        owned = tuple({(random.choice(everything), random.randint(0, 2 * most)) for _ in range(count)})
        known = {partition: random.randint(0, 3) for partition in owned if random.random() < 0.7}
        members[f"m{number}"] = MemberSubscription(wanted, owned, random.randint(-1, 3), since=known)
    return topics, members


def test_a_fresh_group_of_unequal_subscribers_is_shared_as_kafka_does() -> None:
    """One by one from who has two more, in Kafka's order, where other ways lead to other members with equal loads."""
    members = {m: MemberSubscription(wanted) for m, wanted in (("a", ("t1",)), ("b", ("t0", "t1")), ("c", ("t0",)))}
    assert find_assignor("sticky").assign({"t0": 1, "t1": 4}, members) == {
        "a": (("t1", 1), ("t1", 3)),
        "b": (("t1", 0), ("t1", 2)),
        "c": (("t0", 0),),
    }


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


def test_what_lies_far_is_given_up_first_and_near_is_kept() -> None:
    """KIP-881: racks become known, and each takes what lies near it; then nothing moves."""
    racks = {"t": [["a"], ["a"], ["b"], ["b"]]}
    members = {"x": MemberSubscription(("t",), (("t", 0), ("t", 2)), 1, rack="a")}
    members["y"] = MemberSubscription(("t",), (("t", 1), ("t", 3)), 1, rack="b")
    assert balance_partitions({"t": 4}, members, None, racks) == {"x": (("t", 0), ("t", 1)), "y": (("t", 2), ("t", 3))}
    assert find_assignor("cooperative-sticky").assign({"t": 4}, members, racks) == {"x": (("t", 0),), "y": (("t", 3),)}


@BOTH
def test_a_member_without_topics_gets_nothing_even_if_it_comes_first(assignor: Assignor) -> None:
    """Kafka's sticky assignors can give it partitions, since its empty list is taken for no list yet."""
    members = {"a": MemberSubscription(()), "b": MemberSubscription(("t",))}
    assert assignor.assign({"t": 4}, members) == {"a": (), "b": tuple(("t", p) for p in range(4))}


@BOTH
@pytest.mark.parametrize("other", [("t",), ("t", "u")])
def test_a_topic_made_anew_with_fewer_partitions_is_shared_as_it_is(assignor: Assignor, other: tuple[str, ...]) -> None:
    """Kafka's look at topics only: equal subscribers make them raise, unequal ones get what doesn't exist."""
    members = {
        "a": MemberSubscription(("t",), (("t", 2), ("t", 3)), 1),
        "b": MemberSubscription(other, (("t", 0), ("t", 1)), 1),
    }
    rounds, _ = groups.settle(assignor, {"t": 2, "u": 0}, members)
    assert sorted(groups.owned_by(rounds)) == [("t", 0), ("t", 1)]
    assert groups.loads({m: said.owned for m, said in rounds.items()}) == [1, 1]


@pytest.mark.parametrize("generation", [4, 5, 6])
@pytest.mark.parametrize("wants", [(), ("other",)], ids=["a leaver", "a stranger"])
def test_a_claim_without_a_subscription_takes_nothing(wants: tuple[str, ...], generation: int) -> None:
    """However new it is: the owner keeps what balance lets it keep, as if there were no such claim."""
    topics, mine = {"t": 6, "other": 1}, tuple(("t", number) for number in range(6))
    members = {
        "gone": MemberSubscription(wants, mine, generation),
        "new": MemberSubscription(("t",), (), 5),
        "owner": MemberSubscription(("t",), mine, 5),
    }
    assert resolve_ownership(topics, members).owner == dict.fromkeys(mine, "owner")
    assert set(resolve_ownership(topics, members).claimants[mine[0]]) == {"gone", "owner"}
    assert {
        name for name, held in balance_partitions(topics, members).items() for topic, _ in held if topic == "t"
    } == {
        "new",
        "owner",
    }
    assert len({each for each in balance_partitions(topics, members)["owner"] if each[0] == "t"}) == 3


@BOTH
def test_the_newer_claim_stands_wherever_its_generation_was_written(assignor: Assignor) -> None:
    """Kafka's look for a rival's generation in one of two places only, so that a stale claim can win."""
    members = {
        "a": MemberSubscription(("t",), (("t", 0), ("t", 1)), 5),
        "b": MemberSubscription(("t",), (("t", 0), ("t", 2)), 4),
    }
    assert resolve_ownership({"t": 3}, members).owner == {("t", 0): "a", ("t", 1): "a", ("t", 2): "b"}
    assert assignor.assign({"t": 3}, members) == {"a": (("t", 0), ("t", 1)), "b": (("t", 2),)}


@pytest.mark.parametrize("odd", [False, True], ids=["equal", "one wants less"])
def test_a_large_group_moves_no_more_than_it_must(odd: bool) -> None:
    """30,000 partitions, 300 members: fresh, one leaves, one joins; balanced, complete, the fewest moves."""
    topics = {f"t{n:02}": 750 for n in range(40)}
    members = {f"m{n:03}": MemberSubscription(tuple(topics)[: 1 if odd and n == 0 else None]) for n in range(300)}
    first = find_assignor("cooperative-sticky").assign(topics, members)
    assert {len(mine) for mine in first.values()} == {100}
    owners = {m: MemberSubscription(members[m].topics, first[m], 1) for m in members}
    fewer = {m: owners[m] for m in members if m != "m007"}
    left = find_assignor("cooperative-sticky").assign(topics, fewer)
    assert all(set(first[m]) <= set(left[m]) for m in fewer)
    assert groups.loads(left)[::298] == [100, 101]
    more = {**owners, "new": MemberSubscription(tuple(topics))}
    target = balance_partitions(topics, more)
    assert groups.loads(target)[::300] == [99, 100]
    assert sum(len(set(first[m]) - set(target[m])) for m in owners) == 99


def test_members_are_given_partitions_one_by_one_who_has_least_first() -> None:
    """Arithmetic does what a loop would."""
    random = Random(1)
    for _ in range(300):
        loads = [random.randint(0, 9) for _ in range(random.randint(1, 8))]
        who = sorted(random.sample(range(len(loads)), random.randint(1, len(loads))))
        count, plain, expected = random.randint(1, 30), list(loads), []
        for _ in range(count):
            member = min(who, key=lambda m: (plain[m], m))
            plain[member] += 1
            expected.append(member)
        array = np.array(loads)
        assert give_to_least(count, np.array(who), array).tolist() == expected
        assert array.tolist() == plain


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
        {"a": (("t", 1 << 70),)},
    ):
        assert pack(space, wrong) is None
    assert pack(space, {"a": (("t", 0),), "b": (("t", 0),)}) is None
    with pytest.raises(ValueError, match="these topics to these members"):
        adjust_assignment({"c": (("t", 0),)}, resolve_ownership({"t": 1}, members))


def test_levelling_alone_balances_as_well_as_cancelling_cycles() -> None:
    """Both end at the least sum of squares, with rows of one member and of several."""
    random = np.random.default_rng(1)
    for _ in range(200):
        rows, groups = random.integers(1, 7, 2)
        wants = random.random((rows, groups)) < 0.6
        has = np.where(wants, random.integers(0, 9, (rows, groups)), 0)
        members = random.integers(1, 4, rows)

        levelled = Table(has.copy(), np.zeros_like(has), wants, np.zeros_like(wants), members)
        improved = replace(levelled, counts=has.copy())
        levels.level_loads(levelled)
        assert improve_table(improved)
        assert _squares(levelled) == _squares(improved)
        assert (levelled.counts.sum(axis=0) == has.sum(axis=0)).all()
        assert (levelled.counts >= 0).all()
        assert not (levelled.counts[~wants]).any()


def test_who_has_least_takes_from_who_has_two_more() -> None:
    """Nothing is left that could go directly; nobody gets what he doesn't want, and no group more than it had."""
    random = np.random.default_rng(1)
    for _ in range(200):
        rows, groups = random.integers(1, 9, 2)
        wants = random.random((rows, groups)) < 0.6
        has = np.where(wants, random.integers(0, 9, (rows, groups)), 0)
        owns = random.integers(0, 9, (rows, groups))
        ages = random.integers(0, 3, owns.sum())
        table = Table(has.copy(), owns, wants, np.zeros_like(wants), np.ones(rows, np.int64), ages)
        levels.relieve_rows(table)
        assert not len(levels.can_take(table.counts, wants, table.counts.sum(axis=1)))
        for giver, group in np.argwhere(table.counts > 0).tolist():
            loads = table.counts.sum(axis=1)
            assert loads[giver] <= loads[wants[:, group]].min(initial=loads[giver]) + 1
        assert (table.counts.sum(axis=0) == has.sum(axis=0)).all()
        assert (table.counts >= 0).all()
        assert not (table.counts[~wants]).any()


def _guessed(topics: dict[str, int], members: groups.Members) -> list[str]:
    """By place who has it, in a fresh group, as Kafka would: a loop over partitions, hardest topics first."""
    wanted_by = {topic: [m for m in sorted(members) if topic in members[m].topics] for topic in sorted(topics)}
    order = sorted((t for t in wanted_by if wanted_by[t]), key=lambda topic: (len(wanted_by[topic]), topic))
    owner, loads = dict[tuple[str, int], str](), dict.fromkeys(members, 0)

    def go(partition: tuple[str, int]) -> bool:
        last, least = owner.get(partition), min(wanted_by[partition[0]], key=lambda m: (loads[m], m))
        if last is not None and loads[last] <= loads[least] + 1:
            return False
        if last is not None:
            loads[last] -= 1
        loads[least] += 1
        owner[partition] = least
        return True

    while sum(go((topic, number)) for topic in order for number in range(topics[topic])):
        pass
    return [owner.get((topic, number), "") for topic in sorted(topics) for number in range(topics[topic])]


@pytest.mark.parametrize("few", [0, 1 << 6])
def test_a_guess_at_a_fresh_group_is_that_of_a_plain_loop(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """One by one, as bits or by arithmetic, and evened as Kafka does."""
    monkeypatch.setattr(initial, "_FEW", few)
    for seed in range(300):
        topics, members = _group(Random(seed), equal=False, most=9)
        fresh = {name: MemberSubscription(said.topics) for name, said in members.items()}
        known = resolve_ownership(topics, fresh)
        found = [
            known.space.ids[member] if member >= 0 else ""
            for member in initial.initial_assignment(known, initial.SubscriptionKinds(known.space)).tolist()
        ]
        assert found == _guessed(topics, fresh), seed


def _squares(table: Table) -> int:
    fewest, one_more = np.divmod(table.counts.sum(axis=1), table.members)
    return int((one_more * (fewest + 1) ** 2 + (table.members - one_more) * fewest**2).sum())


def test_what_takes_too_long_is_balanced_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no time for exact moves, unequal subscribers are still served completely, and as evenly as can be."""
    monkeypatch.setattr(unequal, "MOST_WORK", 0)
    for seed in range(200):
        topics, members = _group(Random(seed), equal=False, most=9)
        target = balance_partitions(topics, members)
        assert optimum.cost(target, members, {}, {}) == optimum.least(topics, members, {}, {}), seed
        wanted = {
            (topic, number) for said in members.values() for topic in said.topics for number in range(topics[topic])
        }
        assert sorted(p for mine in target.values() for p in mine) == sorted(wanted)


def test_work_can_be_bounded() -> None:
    """An improvement that takes too long is left where it is, better than before."""

    def table() -> Table:
        far = np.zeros((3, 3), np.bool_)
        has = np.array([[9, 0, 0], [0, 0, 0], [0, 0, 0]])
        wants = np.array([[True, True, False], [True, True, True], [True, False, True]])
        return Table(has, np.zeros_like(has), wants, far, np.array([1, 1, 1]), np.zeros(0, np.int64))

    bounded, free = table(), table()
    assert not improve_table(bounded, 1)
    assert max(bounded.counts.sum(axis=1).tolist()) < 9
    assert improve_table(free)
    assert free.counts.sum(axis=1).tolist() == [3, 3, 3]
