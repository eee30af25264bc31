"""Subscriptions that change: one generation a change, and only what must moves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime import group as g
from sparkcohort.runtime.protocol.partitions import TopicPartition
from tests.kit.group_world import World


def settled_world(topics: Mapping[str, int], members: int) -> World:
    """A driver and members of these topics, settled."""
    world = World(topics)
    world.start("driver", ())
    for number in range(members):
        world.start(f"m{number}", tuple(sorted(topics)))
        world.drain()
    world.check_settled()
    return world


def changed(world: World, topics: Mapping[str, int]) -> tuple[int, set[TopicPartition]]:
    """Change the topics: by how much the generation rose, and which partitions that still exist changed hands."""
    generation, before = world.group.generation, g.owners(world.group)
    world.change_topics(topics)
    world.drain()
    world.check_settled()
    after = g.owners(world.group)
    return world.group.generation - generation, {tp for tp in before.keys() & after.keys() if before[tp] != after[tp]}


@pytest.mark.parametrize(
    "after",
    [
        {"items": 6, "orders": 6},
        {"items": 6, "orders": 9},
        {"items": 6, "orders": 6, "more": 3},
        {"items": 6},
        {"items": 6, "others": 6},
        {},
    ],
    ids=["nothing", "partitions added", "topic created", "topic deleted", "another topic instead", "all deleted"],
)
def test_a_change_is_one_generation_and_moves_only_what_it_must(after: Mapping[str, int]) -> None:
    """Of three members nobody gives up a partition that is still there, but where balance needs it (here it never does)."""
    world = settled_world({"items": 6, "orders": 6}, 3)
    assert changed(world, after) == (1, set())


def test_what_is_deleted_is_given_up_before_the_join_and_its_late_commit_refused() -> None:
    """So no second round is needed to tell that it is free."""
    world = settled_world({"items": 2, "orders": 2}, 2)
    node = world.node("m0")
    gone = next(tp for tp in node.member.owned if tp.topic == "orders")
    since = node.member.owned[gone]
    assert changed(world, {"items": 2}) == (1, set())
    assert all(tp.topic == "items" for tp in node.member.owned)
    world.commit(node, gone, 7, since)
    world.drain()
    assert [error.name for reply in world.commits for _tp, error in reply.partitions] == ["ILLEGAL_GENERATION"]


def test_several_changes_in_a_row_are_one_generation_each_at_most() -> None:
    """A change that comes while the round of the last one is under way costs one more, whatever the number of members."""
    world = settled_world({"items": 4}, 4)
    generation = world.group.generation
    world.change_topics({"items": 4, "orders": 4})
    world.change_topics({"items": 4, "more": 2, "orders": 4})
    world.drain()
    world.check_settled()
    assert world.group.generation - generation <= 2


COUNTS = st.dictionaries(st.sampled_from(["items", "orders", "more"]), st.integers(1, 6))


@given(COUNTS, COUNTS, st.integers(1, 4))
def test_any_change_takes_two_generations_at_most(
    before: Mapping[str, int], after: Mapping[str, int], members: int
) -> None:
    """One to find what is free, and one more only where balance then takes from somebody."""
    world = settled_world(before, members) if before else settled_world({"items": 1}, members)
    grown = {topic: max(count, world.topics.get(topic, 0)) for topic, count in after.items()}
    generations, moved = changed(world, grown)
    assert generations == (2 if moved else 1)
