"""Laws that hold for every assignor, whatever the members claim."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.assignors import ASSIGNORS, Assignor, MemberSubscription
from tests.kit import groups

EACH = pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=list(ASSIGNORS))


@EACH
@given(topics=groups.topics(), members=groups.members(loads=True))
def test_only_existing_partitions_go_to_subscribers_and_to_one_each(
    assignor: Assignor, topics: dict[str, int], members: groups.Members
) -> None:
    """Exclusive and valid: no partition twice, none that doesn't exist, none to who doesn't want its topic."""
    result = assignor.assign(topics, members)
    every = [partition for partitions in result.values() for partition in partitions]
    assert len(every) == len(set(every))
    assert all(topic in members[m].topics and 0 <= p < topics[topic] for m, mine in result.items() for topic, p in mine)


@EACH
@given(topics=groups.topics(), members=groups.members())
def test_every_wanted_partition_is_given_once_the_rounds_end(
    assignor: Assignor, topics: dict[str, int], members: groups.Members
) -> None:
    """Complete: after at most three rounds (two if nobody's claims overlap) each wanted partition has an owner."""
    settled, rounds = groups.settle(assignor, topics, members)
    wanted = {(t, p) for said in members.values() for t in said.topics for p in range(topics.get(t, 0))}
    assert set(groups.owned_by(settled)) == wanted
    assert rounds <= 3


@EACH
@given(topics=groups.topics(), members=groups.members(loads=True), random=st.randoms(use_true_random=False))
def test_the_order_of_the_inputs_does_not_matter(
    assignor: Assignor, topics: dict[str, int], members: groups.Members, random: Random
) -> None:
    """Deterministic: members, topics, subscriptions and claims in any order give the same result, in a fixed order."""

    def shuffled(said: MemberSubscription) -> MemberSubscription:
        wanted, owned = random.sample(said.topics, len(said.topics)), random.sample(said.owned, len(said.owned))
        since = dict(random.sample(list(said.since.items()), len(said.since)))
        loads = dict(random.sample(list(said.loads.items()), len(said.loads)))
        return replace(said, topics=tuple(wanted), owned=tuple(owned), since=since, loads=loads)

    other = {m: shuffled(members[m]) for m in random.sample(list(members), len(members))}
    again = assignor.assign(dict(random.sample(list(topics.items()), len(topics))), other)
    first = assignor.assign(topics, members)
    assert list(again.items()) == list(first.items())
    assert list(first) == sorted(members)
    assert all(list(partitions) == sorted(partitions) for partitions in first.values())


@EACH
@given(topics=groups.topics(), members=groups.members(loads=True))
def test_a_member_without_topics_gets_nothing_and_changes_nothing(
    assignor: Assignor, topics: dict[str, int], members: groups.Members
) -> None:
    """The driver, who leads the group and subscribes to nothing, doesn't count."""
    alone = assignor.assign(topics, members)
    assert assignor.assign(topics, {**members, "driver": MemberSubscription(())}) == {**alone, "driver": ()}


@EACH
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["t", "u", "gone", "zzz"]),
            st.integers(-100, 100) | st.integers(-(2**63), 2**63 - 1),
        )
    )
)
def test_a_claim_of_what_does_not_exist_is_none(assignor: Assignor, claims: list[tuple[str, int]]) -> None:
    """Any number, negative ones of topics that aren't there among them: as if nobody had said it."""
    topics = {"t": 3, "u": 2}
    absurd = [claim for claim in claims if not 0 <= claim[1] < topics.get(claim[0], 0)]
    honest = {name: MemberSubscription(("t", "u"), owned) for name, owned in (("a", (("t", 1),)), ("b", ()))}
    lying = {**honest, "b": MemberSubscription(("t", "u"), tuple(absurd), 2**31)}
    assert assignor.assign(topics, lying) == assignor.assign(topics, honest)


@EACH
def test_without_members_or_topics_there_is_nothing_to_give(assignor: Assignor) -> None:
    """Empty inputs give empty results (Kafka's sticky and roundrobin raise)."""
    assert assignor.assign({"t": 3}, {}) == {}
    assert assignor.assign({}, {"a": MemberSubscription(("t",))}) == {"a": ()}
    assert assignor.assign({"t": 0}, {"a": MemberSubscription(("t",))}) == {"a": ()}


@pytest.mark.parametrize("name", ["range", "roundrobin"])
@given(topics=groups.topics(), members=groups.members())
def test_racks_change_nothing(name: str, topics: dict[str, int], members: groups.Members) -> None:
    """Only the sticky assignors read them."""
    near = {member: replace(said, rack="a") for member, said in members.items()}
    where = {topic: [("a",), ("b",)] * count for topic, count in topics.items()}
    assert ASSIGNORS[name].assign(topics, near, where) == ASSIGNORS[name].assign(topics, members)
