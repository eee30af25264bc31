"""cooperative-sticky: one owner at a time, balanced, and as few moves as can be."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.assignors import ASSIGNORS, MemberSubscription
from sparkcohort.assignors.solver.ownership import resolve_ownership
from sparkcohort.assignors.sticky import balance_partitions
from tests.kit import groups

STICKY = ASSIGNORS["cooperative-sticky"]


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


def test_a_claim_of_an_unwanted_topic_is_no_ownership_but_holds_the_partition_back() -> None:
    """A member that dropped a topic but hasn't given it up yet: its partitions wait for the follow-up round."""
    members = {"a": MemberSubscription((), (("t", 0),), 1), "b": MemberSubscription(("t",), (), 1)}
    assert STICKY.assign({"t": 2}, members) == {"a": (), "b": (("t", 1),)}
    settled, rounds = groups.settle(STICKY, {"t": 2}, members)
    assert settled["b"].owned == (("t", 0), ("t", 1))
    assert rounds == 2
