"""The journal: replaying it gives the group, and it tells what happened to a member."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sparkcohort.runtime import group as g
from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.group import timeline
from sparkcohort.runtime.group.records import GroupRecord, IllegalTransitionError
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.partitions import TopicPartition
from tests.kit.group_records import replay
from tests.kit.group_world import SESSION_MS, World


def life() -> World:
    """A group's life: two members, one of which dies."""
    world = World({"orders": 2})
    world.start("driver", ())
    world.start("a", ("orders",))
    world.drain()
    world.commit(world.node("a"), TopicPartition("orders", 0), 17)
    world.drain()
    world.kill(world.node("a"))
    world.advance(2 * SESSION_MS)
    return world


def test_replay_gives_the_group() -> None:
    """All records in order make the group as it is, after every step."""
    world = life()
    assert replay(world.first, world.journal) == world.group


def test_replay_goes_on() -> None:
    """A replayed group takes the next event as the original would, a rebalance in flight included."""
    world = World({"orders": 2})
    world.start("driver", ())
    world.drain()
    world.start("a", ("orders",))
    while world.group.state is not g.GroupState.PREPARING_REBALANCE:
        world.deliver() if world.requests else world.handle(next(n for n in world.nodes if n.inbox))
    again = replay(world.first, world.journal)
    assert again.joins
    tick = p.Tick()
    at_ms = g.deadline(again) or 0
    assert g.step(again, tick, at_ms) == g.step(world.group, tick, at_ms)


def test_records_make_legal_transitions_only() -> None:
    """A record that asks for a transition that Kafka's group doesn't make is an error, not a state."""
    world = life()
    for record in (
        r.Emptied(1),
        r.GenerationStarted(1, "range", "", 0),
        r.AssignmentStored(()),
    ):
        with pytest.raises(IllegalTransitionError, match="billing"):
            record.apply(world.first)


def lines(records: Sequence[GroupRecord], member_id: str) -> tuple[str, ...]:
    """What happened to a member."""
    return tuple(text for _, text in timeline.placed_lines(records, member_id))


def test_the_story_of_a_member() -> None:
    """What an error or an operator needs to know about a member, in words."""
    world = life()
    assert lines(world.journal, "a-2") == (
        "became a member, from host",
        "joined",
        "a rebalance began: a-2 joined",
        "generation 2 began, protocol cooperative-sticky",
        "owns orders-0 orders-1 since generation 2",
        "committed orders-0=17",
        f"was removed: its session of {SESSION_MS} ms expired",
    )


def test_a_story_whose_beginning_is_lost() -> None:
    """A journal that was cut short still tells of a member that was there before, and of nobody who came later."""
    world = life()
    whole = list(timeline.placed_lines(world.journal, "a-2"))
    joined = next(place for place, said in whole if said == "joined")
    late = tuple(lines(world.journal[joined:], "a-2"))
    assert late == tuple(said for place, said in whole if place >= joined)
    assert lines(world.journal[: whole[0][0]], "a-2") == ()


def test_every_line_of_a_story_is_about_its_member_or_the_group() -> None:
    """The index by member (``member_ids``) finds each record that says something of a member itself."""
    world = life()
    for member_id in ("driver-1", "a-2"):
        for record in world.journal:
            assert bool(timeline.line(record, member_id)) <= (member_id in timeline.member_ids(record))


def test_a_story_of_many_partitions_is_a_line() -> None:
    """Ranges, where a list of names would be a page."""
    many = tuple(TopicPartition("orders", number) for number in (*range(100), 120))
    assert timeline.line(r.PartitionsRevoked("a-2", many), "a-2") == "gave up orders-0..99,120"
