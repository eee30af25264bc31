"""When a round is asked for: after an imbalance has lasted, and not twice for one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.assignors import ASSIGNORS, Load, MemberSubscription, Partition
from sparkcohort.assignors.load_balanced import LoadBalancedAssignor, Relief
from sparkcohort.runtime.leader import delayed_rebalance
from sparkcohort.runtime.leader.imbalance import Balance, LoadWatch
from tests.kit import groups
from tests.unit.leader.test_assignment import joined, known

AFTER_MS = 60_000
FOUND = Relief("m", 2.0, 1)


@given(st.lists(st.tuples(st.integers(1, 30_000), st.booleans()), max_size=60))
def test_rounds_are_asked_for_only_after_it_has_lasted_and_never_within_the_time(
    looks: list[tuple[int, bool]],
) -> None:
    """Whatever is seen when: all looks of the last minute found it, and the last round is a minute ago."""
    watch, now_ms, asked, seen = LoadWatch(1.2, AFTER_MS, 5), 0, [-AFTER_MS], list[tuple[int, bool]]()
    for elapsed_ms, found in looks:
        now_ms += elapsed_ms
        at = watch.due()
        if at is not None and at <= now_ms:
            assert all(was for when, was in seen if at - AFTER_MS <= when <= at)
            assert watch.has_lasted(at)
            assert at - asked[-1] >= AFTER_MS
            asked.append(at)
            assert str(watch.request_round(at)).startswith("load: m carried 2.0 x the mean for ")
            watch.end_round(at)
        watch.record_relief(FOUND if found else None, now_ms)
        seen.append((now_ms, found))


def test_a_round_that_could_not_move_anything_is_not_asked_for_at_once_again() -> None:
    """Revoking may be put off: the imbalance still counts, and the next request is a minute later."""
    watch = LoadWatch(1.2, AFTER_MS, 5)
    watch.record_relief(FOUND, 0)
    assert str(watch.request_round(AFTER_MS)) == "load: m carried 2.0 x the mean for 60 s; 1 partition moves"
    assert watch.has_lasted(AFTER_MS)
    assert watch.due() == 2 * AFTER_MS
    watch.record_relief(None, AFTER_MS + 1)
    assert watch.due() is None


def a_round(balance: Balance | None) -> delayed_rebalance.Round:
    """Two members with two partitions each, one of them with both hot ones; the subscriptions tell nothing of loads."""
    members = {
        "a": MemberSubscription(("t",), (("t", 0), ("t", 1)), 1),
        "b": MemberSubscription(("t",), (("t", 2), ("t", 3)), 1),
    }
    said = [joined(*item) for item in members.items()]
    return delayed_rebalance.Round("load-balanced", said, {"t": 4}, known(members), {}, balance=balance)


def given_by(balance: Balance | None) -> dict[str, set[int]]:
    """Who gets what in that round."""
    assignments, _ = delayed_rebalance.lead(delayed_rebalance.LeaderState(), a_round(balance), 0, 0, ASSIGNORS)
    return {member: {tp.partition for tp in tps} for member, tps in assignments}


def test_the_leader_goes_by_what_it_knows_and_moves_only_what_it_may() -> None:
    """Known loads reach the assignor, with the moves that this round is allowed; without any nothing moves."""
    hot: dict[Partition, Load] = {("t", 0): Load(50.0), ("t", 1): Load(50.0), ("t", 2): Load(1.0), ("t", 3): Load(1.0)}
    stays = {"a": {0, 1}, "b": {2, 3}}
    assert given_by(Balance(LoadBalancedAssignor(), hot)) == {"a": {0}, "b": {2, 3}}
    assert given_by(Balance(LoadBalancedAssignor(max_moves=0), hot)) == stays
    assert given_by(Balance(LoadBalancedAssignor(threshold=2.5), hot)) == stays
    assert given_by(None) == stays


@given(groups.topics(), groups.members(), st.data())
def test_all_that_is_known_is_said_once(topics: dict[str, int], members: groups.Members, data: st.DataObject) -> None:
    """By who claims a partition, and by one member where nobody does; nothing else of the members changes."""
    every = [(topic, number) for topic, count in topics.items() for number in range(count)]
    loads = {partition: Load(float(place)) for place, partition in enumerate(every)}
    known = data.draw(st.fixed_dictionaries({}, optional={partition: st.just(loads[partition]) for partition in every}))
    said = Balance(LoadBalancedAssignor(), known).with_loads(members)
    assert {m: (x.topics, x.owned) for m, x in said.items()} == {m: (x.topics, x.owned) for m, x in members.items()}
    claimed = {partition for member in members.values() for partition in member.owned}
    for partition, load in known.items():
        who = {member for member, x in said.items() if x.loads.get(partition) == load}
        assert who == (
            {m for m in said if partition in said[m].owned} if partition in claimed else set(sorted(said)[:1])
        )
