"""cooperative-sticky: one owner at a time, balanced, and as few moves as can be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sparkcohort.assignors import MemberSubscription, Partition, find_assignor
from sparkcohort.assignors.solver.ownership import resolve_ownership
from sparkcohort.assignors.sticky import balance_partitions
from tests.kit import groups

STICKY = find_assignor("cooperative-sticky")


@given(groups.topics(), groups.members())
def test_nobody_starts_what_another_has_not_given_up(topics: dict[str, int], members: groups.Members) -> None:
    """The target, without what anyone else claims than its valid owner (KIP-429, law I1)."""
    owner = resolve_ownership(topics, members).owner
    claims = {(partition, member) for member, said in members.items() for partition in said.owned}
    free = {
        member: tuple(
            p for p in mine if owner.get(p) == member or not any((p, m) in claims for m in {*members} - {member})
        )
        for member, mine in balance_partitions(topics, members).items()
    }
    assert STICKY.assign(topics, members) == free


@given(groups.topics(), groups.members())
def test_the_newest_claim_is_the_owners(topics: dict[str, int], members: groups.Members) -> None:
    """Of each partition that exists: whose claim alone is of the newest generation, of those who want the topic."""
    known = resolve_ownership(topics, members)
    for topic, partition in [(topic, number) for topic, count in topics.items() for number in range(count)]:
        who = [member for member in sorted(members) if (topic, partition) in members[member].owned]
        wants = [member for member in who if topic in members[member].topics]
        newest = [m for m in wants if members[m].generation == max(members[other].generation for other in wants)]
        owner = newest[0] if len(newest) == 1 else None
        assert (known.owner.get((topic, partition)), known.claimants.get((topic, partition), ())) == (owner, tuple(who))


@given(groups.topics(20), groups.members(equal=True))
def test_equal_subscribers_differ_by_one_at_most(topics: dict[str, int], members: groups.Members) -> None:
    """max − min ≤ 1 once settled, and no load is ever above the final maximum on the way."""
    settled, _ = groups.settle(STICKY, topics, members)
    loads = groups.loads({m: said.owned for m, said in settled.items() if said.topics})
    assert not loads or loads[-1] - loads[0] <= 1
    first = groups.loads(STICKY.assign(topics, members))
    assert not loads or first[-1] <= loads[-1]


@given(groups.topics(), groups.members(equal=False))
def test_no_single_move_would_help_unequal_subscribers(topics: dict[str, int], members: groups.Members) -> None:
    """Kafka's definition of balance: no partition can go to a subscriber that has two fewer."""
    settled, _ = groups.settle(STICKY, topics, members)
    for said in settled.values():
        for topic, _ in said.owned:
            fewest = min(len(other.owned) for other in settled.values() if topic in other.topics)
            assert len(said.owned) - fewest <= 1


@given(groups.topics(), groups.members())
def test_what_is_settled_stays(topics: dict[str, int], members: groups.Members) -> None:
    """With nothing changed nobody moves."""
    settled, _ = groups.settle(STICKY, topics, members)
    assert STICKY.assign(topics, settled) == {m: said.owned for m, said in settled.items()}


@given(groups.topics(), groups.members(), st.data())
def test_one_change_takes_two_rounds_at_most(
    topics: dict[str, int], members: groups.Members, data: st.DataObject
) -> None:
    """A member leaves, joins, or changes its topics: at most two rounds, the second only to hand over."""
    settled, _ = groups.settle(STICKY, topics, members)
    changed = {m: settled[m] for m in settled if m != data.draw(st.sampled_from([*settled, "nobody"]))}
    wanted = data.draw(st.lists(st.sampled_from(groups.TOPICS), unique=True).map(tuple))
    name = data.draw(st.sampled_from([*settled, "new"]))
    changed[name] = replace(changed.get(name, MemberSubscription(())), topics=wanted)
    _, rounds = groups.settle(STICKY, topics, changed, 20)
    assert rounds <= 2


@given(groups.topics(12), st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=2), st.integers(1, 3))
def test_survivors_keep_their_own_when_replacements_come(topics: dict[str, int], ids: list[str], dead: int) -> None:
    """After failures and as many replacements every survivor has all it had before: only what was orphaned moved."""
    assume(dead < len(ids))
    before, _ = groups.settle(STICKY, topics, {m: MemberSubscription(groups.TOPICS) for m in ids}, 10)
    survivors, _ = groups.settle(STICKY, topics, {m: before[m] for m in ids[dead:]}, 20)
    replaced = {f"new-{m}": MemberSubscription(groups.TOPICS) for m in ids[:dead]}
    after, _ = groups.settle(STICKY, topics, {**survivors, **replaced}, 30)
    for member in ids[dead:]:
        assert set(before[member].owned) <= set(after[member].owned)


@given(groups.topics(), st.lists(st.sampled_from("abcdef"), unique=True, min_size=1), st.data())
def test_a_leaver_moves_only_its_own(topics: dict[str, int], ids: list[str], data: st.DataObject) -> None:
    """Among equal subscribers a departure costs the others nothing, in one round."""
    before, _ = groups.settle(STICKY, topics, {m: MemberSubscription(groups.TOPICS) for m in ids})
    left = {m: said for m, said in before.items() if m != data.draw(st.sampled_from(ids))}
    after, rounds = groups.settle(STICKY, topics, left, 20)
    assert rounds <= 1
    assert all(set(said.owned) <= set(after[m].owned) for m, said in left.items())


def _claims(*claims: tuple[str, int, tuple[int, ...]]) -> groups.Members:
    return {m: MemberSubscription(("t",), tuple(("t", p) for p in owned), gen) for m, gen, owned in claims}


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([("a", 5, (0, 1)), ("b", 4, (0, 2))], {("t", 0): "a", ("t", 1): "a", ("t", 2): "b"}),
        ([("a", 5, (0, 1)), ("b", 5, (0, 2))], {("t", 1): "a", ("t", 2): "b"}),
        ([("a", 5, (0,)), ("b", 5, (0,)), ("c", 4, (0,))], {}),
        ([("a", -1, (0,)), ("b", 0, (0,))], {("t", 0): "b"}),
        ([("a", 5, (1, 3, 99, -1)), ("b", 5, ())], {("t", 1): "a"}),
    ],
    ids=["newer wins", "one generation: invalid for both", "three claims", "no generation loses", "gone partitions"],
)
def test_claims_are_settled_by_generation(
    claims: list[tuple[str, int, tuple[int, ...]]], expected: dict[Partition, str]
) -> None:
    """The newest generation wins, its duplicates cancel each other, uncontested claims stand (KIP-792)."""
    assert resolve_ownership({"t": 3}, _claims(*claims)).owner == expected


def test_a_claim_of_an_unwanted_topic_is_no_ownership_but_holds_the_partition_back() -> None:
    """A member that dropped a topic but hasn't given it up yet: its partitions wait for the follow-up round."""
    members = {"a": MemberSubscription((), (("t", 0),), 1), "b": MemberSubscription(("t",), (), 1)}
    assert STICKY.assign({"t": 2}, members) == {"a": (), "b": (("t", 1),)}
    settled, rounds = groups.settle(STICKY, {"t": 2}, members)
    assert settled["b"].owned == (("t", 0), ("t", 1))
    assert rounds == 2


def test_what_was_acquired_last_is_given_up_first() -> None:
    """With a newcomer, an owner of four keeps the two that it has had longest."""
    since = {("t", 0): 9, ("t", 1): 3, ("t", 2): 8, ("t", 3): 3}
    for topics in (("t",), ("t", "u")):
        old = MemberSubscription(("t",), tuple(since), 9, since=since)
        given_out = STICKY.assign({"t": 4, "u": 0}, {"a": old, "b": MemberSubscription(topics)})
        assert given_out == {"a": (("t", 1), ("t", 3)), "b": ()}
