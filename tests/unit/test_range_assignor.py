"""range: contiguous runs per topic, static members first."""

from __future__ import annotations

import doctest

from hypothesis import given

from sparkcohort.assignors import MemberSubscription, Partition, find, range_assignor
from tests.support import groups

RANGE = find("range")


@given(groups.topics(), groups.members())
def test_each_topic_is_cut_into_runs_that_differ_by_one_at_most(
    topics: dict[str, int], members: groups.Members
) -> None:
    """Per topic: contiguous, balanced, the longer runs first."""
    result = RANGE.assign(topics, members)
    for topic in topics:
        runs = [[p for t, p in result[m] if t == topic] for m in members if topic in members[m].topics]
        assert all(run == list(range(run[0], run[0] + len(run))) for run in runs if run)
        lengths = [len(run) for run in sorted((r for r in runs if r), key=lambda run: run[0])]
        assert lengths == sorted(lengths, reverse=True)
        assert not runs or max(map(len, runs)) - min(map(len, runs)) <= 1


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


def test_static_members_come_first_by_instance_id() -> None:
    """Static members keep their place over a restart: their order is that of instance ids, before all dynamic ones."""
    members = {
        "a": MemberSubscription(("t",)),
        "b": MemberSubscription(("t",), instance_id="y"),
        "c": MemberSubscription(("t",), instance_id="x"),
    }
    assert RANGE.assign({"t": 3}, members) == {"a": (("t", 2),), "b": (("t", 1),), "c": (("t", 0),)}


def test_topics_that_do_not_exist_are_passed_over() -> None:
    """A subscription to a missing topic gives nothing and hurts nobody."""
    both = MemberSubscription(("t", "missing"))
    assert RANGE.assign({"t": 2}, {"a": both, "b": both}) == {"a": (("t", 0),), "b": (("t", 1),)}


def test_the_examples_in_the_docs_are_true() -> None:
    """Doctests, Kafka's own example among them."""
    assert doctest.testmod(range_assignor).failed == 0
