"""range: contiguous runs per topic, static members first."""

from __future__ import annotations

from hypothesis import given

from sparkcohort.assignors import ASSIGNORS, Partition
from tests.kit import groups

RANGE = ASSIGNORS["range"]


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
