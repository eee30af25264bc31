"""roundrobin: all partitions dealt in turn, static members first."""

from __future__ import annotations

from hypothesis import given

from sparkcohort.assignors import ASSIGNORS, Partition
from tests.kit import groups

ROUNDROBIN = ASSIGNORS["roundrobin"]


@given(groups.topics(9), groups.members())
def test_roundrobin_agrees_with_a_dumb_twin(topics: dict[str, int], members: groups.Members) -> None:
    """One partition at a time, to the next of the circle who wants it."""
    circle = sorted(members, key=lambda m: (members[m].instance_id is None, members[m].instance_id or m, m))
    hands: dict[str, list[Partition]] = {m: [] for m in members}
    for topic in sorted(topics):
        for number in range(topics[topic] if any(topic in said.topics for said in members.values()) else 0):
            while topic not in members[circle[0]].topics:
                circle.append(circle.pop(0))
            hands[circle[0]].append((topic, number))
            circle.append(circle.pop(0))
    assert ROUNDROBIN.assign(topics, members) == {m: tuple(sorted(hand)) for m, hand in hands.items()}
