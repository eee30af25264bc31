"""Departed members, rule by rule (KIP-415, as the table of Connect's rules has them), and the leader's round around them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.leader import delayed_rebalance
from sparkcohort.runtime.leader.delayed_rebalance import (
    BackOff,
    Failure,
    LeaderState,
    Round,
    ScheduledRebalance,
)
from sparkcohort.runtime.protocol.messages import JoinedMember, Subscription
from sparkcohort.runtime.protocol.partitions import TopicPartition

DELAY_MS = 30_000


def tps(*numbers: int) -> frozenset[TopicPartition]:
    """Partitions of topic t."""
    return frozenset(TopicPartition("t", number) for number in numbers)


B_GONE = ScheduledRebalance(("b",), tps(2, 3), expected=3, due_ms=40_000)


# --- consecutive revoking rounds ----------------------------------------------------------------


def test_consecutive_revoking_rounds_back_off() -> None:
    """1 ms x 40^n, capped at the delay: 40, 1,600, 30,000 ms; each wait is followed by a round that may revoke."""
    back_off, now_ms, waits = BackOff(), 0, []
    for _ in range(4):
        back_off = delayed_rebalance.revoke(back_off, now_ms, DELAY_MS, revokes=True)
        if back_off.due_ms is not None:
            waits.append(back_off.due_ms - now_ms)
            early = delayed_rebalance.revoke(back_off, back_off.due_ms - 1, DELAY_MS, revokes=True)
            assert early == back_off
            now_ms = back_off.due_ms
            back_off = delayed_rebalance.revoke(back_off, now_ms, DELAY_MS, revokes=True)
            assert back_off.due_ms is None
    assert waits == [40, 1_600, DELAY_MS]


def test_a_round_without_revoking_ends_the_back_off() -> None:
    """Then the first revoking round is allowed again."""
    waiting = BackOff(revoked=True, times=2, due_ms=1_600)
    assert delayed_rebalance.revoke(waiting, 100, DELAY_MS, revokes=False) == BackOff()
    assert delayed_rebalance.revoke(BackOff(), 100, DELAY_MS, revokes=True) == BackOff(revoked=True)


def test_a_delay_of_0_always_revokes() -> None:
    """Round after round (KAFKA-12495)."""
    back_off = BackOff()
    for _ in range(50):
        back_off = delayed_rebalance.revoke(back_off, 0, 0, revokes=True)
        assert back_off.due_ms is None


# --- rounds whose assignor failed -----------------------------------------------------------------


def test_an_assignor_that_fails_is_asked_again_ever_later() -> None:
    """After 5 s, 10 s, 20 s, at most 5 minutes, however often; what was waited for before is forgotten."""
    memory, waits = LeaderState(B_GONE, BackOff(revoked=True)), []
    for now_ms in range(9):
        memory = delayed_rebalance.record_failure(memory, now_ms)
        due_ms = delayed_rebalance.deadline(memory)
        assert due_ms is not None
        waits.append((due_ms - now_ms) // 1_000)
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    assert memory == LeaderState(failure=Failure(9, 300_008, at_ms=8))
    assert delayed_rebalance.record_failure(LeaderState(failure=Failure(10**6, 0)), 0).failure == Failure(
        10**6 + 1, 300_000
    )
    assert str(delayed_rebalance.reason(memory)) == "the assignor failed and is asked again"


def test_a_success_after_failures_is_a_new_start() -> None:
    """A round in which nobody asks the assignor, since a replacement is waited for, is none."""
    group = PartitionLeader(4)
    before = group.settle("a", "b")
    group.leader_state = delayed_rebalance.record_failure(LeaderState(), 0)
    del group.holds["b"]
    assert group.round(1_000) == {"a": before["a"]}
    assert group.leader_state.failure == Failure(1, 5_000)
    assert delayed_rebalance.deadline(group.leader_state) == 31_000
    group.round(31_000)
    assert group.leader_state == LeaderState()


# --- the leader's rounds ------------------------------------------------------------------------


class PartitionLeader:
    """Rounds of topic t among members that hold what they were given; ``holds`` is who has what, in numbers."""

    def __init__(self, partitions: int, protocol: str = "cooperative-sticky") -> None:
        self.topics, self.protocol = {"t": partitions}, protocol
        self.holds: dict[str, tuple[int, ...]] = {}
        self.settled: dict[str, tuple[TopicPartition, ...]] = {}
        self.leader_state, self.generation = LeaderState(), 0
        self.since: dict[str, dict[TopicPartition, int]] = {}
        self.only: dict[str, list[int]] = {}
        self.barred: dict[str, frozenset[TopicPartition]] = {}

    def round(self, now_ms: int = 0, delay_ms: int = DELAY_MS, *, applied: bool = True) -> dict[str, tuple[int, ...]]:
        """One round: what each member is given.  Unless it is interrupted, they give up at once what they lose, and own it."""
        self.generation += 1
        asked = [_joined(member) for member in self.holds]
        owned = {
            m: {tp: self.since.get(m, {}).get(tp, self.generation) for tp in tps(*numbers)}
            for m, numbers in self.holds.items()
        }
        this = Round(
            self.protocol, [*asked, _driver()], self.topics, owned, self.settled, self.only, barred=self.barred
        )
        assignments, self.leader_state = delayed_rebalance.lead(self.leader_state, this, now_ms, delay_ms)
        given = {m: tuple(tp.partition for tp in mine) for m, mine in assignments}
        assert given.pop("driver") == ()
        if not applied:
            return given
        self.since = {
            m: {tp: self.since.get(m, {}).get(tp, self.generation) for tp in sorted(tps(*numbers))}
            for m, numbers in given.items()
        }
        self.holds = dict(given)
        self.settled = {m: tuple(sorted(tps(*numbers))) for m, numbers in given.items()} | {"driver": ()}
        return given

    def settle(self, *members: str) -> dict[str, tuple[int, ...]]:
        """These join, one after the other, each in as many rounds as it takes."""
        for member in members:
            self.holds[member] = ()
            for _ in range(3):
                given = self.round(delay_ms=0)
        return given


def _joined(member: str) -> JoinedMember:
    return JoinedMember(member, member, Subscription(("t",)))


def _driver() -> JoinedMember:
    """The leader itself: it wants nothing, so it is nobody to wait for and gets nothing."""
    return JoinedMember("driver", "driver", Subscription())


@pytest.mark.parametrize("protocol", ["cooperative-sticky", "range"])
def test_while_the_delay_runs_nobody_gives_up_or_gets_what_was_lost(protocol: str) -> None:
    """Whatever the assignor, and also when somebody comes; partitions that are new are given to who has least."""
    group = PartitionLeader(6, protocol)
    before = group.settle("a", "b", "c")
    for lost in "bc":
        del group.holds[lost]
    assert group.round(1_000) == {"a": before["a"]}
    group.holds["d"] = ()
    group.topics = {"t": 8}
    group.barred = {"d": tps(7)}
    assert group.round(1_500, applied=False) == {"a": (*before["a"], 7), "d": (6,)}, "or can fetch it"
    group.barred = {}
    assert group.round(2_000) == {"a": before["a"], "d": (6, 7)}
    assert delayed_rebalance.deadline(group.leader_state) == 31_000


def test_at_the_end_of_the_delay_candidates_get_what_was_lost() -> None:
    """Round-robin; the survivors' stay."""
    group = PartitionLeader(12)
    before = group.settle("a", "b", "c", "d")
    for lost in "bcd":
        del group.holds[lost]
    group.round(1_000)
    group.holds |= {"e": (), "f": ()}
    assert group.round(2_000) == {"a": before["a"], "e": (), "f": ()}
    after = group.round(31_000)
    assert after["a"][: len(before["a"])] == before["a"]
    assert sorted(map(len, after.values())) == [4, 4, 4]
    assert delayed_rebalance.deadline(group.leader_state) is None


def test_at_the_end_of_the_delay_the_others_get_what_was_lost_if_nobody_came() -> None:
    """Evenly, not a millisecond before, and nothing else moves: so it is after a scale-in as well."""
    group = PartitionLeader(12)
    before = group.settle("a", "b", "c")
    del group.holds["c"]
    group.round(1_000)
    assert group.round(30_999) == {"a": before["a"], "b": before["b"]}
    after = group.round(31_000)
    assert {m: len(numbers) for m, numbers in after.items()} == {"a": 6, "b": 6}
    assert all(set(before[m]) <= set(after[m]) for m in after)


def test_a_second_departure_does_not_begin_the_delay_anew() -> None:
    """And as many are waited for as there were before the first one; a delay of 0 waits for nobody (KAFKA-15693)."""
    group = PartitionLeader(6)
    before = group.settle("a", "b", "c")
    for now_ms, lost in ((1_000, "b"), (2_000, "c")):
        del group.holds[lost]
        group.round(now_ms)
    group.holds["d"] = ()
    assert group.round(3_000) == {"a": before["a"], "d": ()}
    assert delayed_rebalance.deadline(group.leader_state) == 31_000
    assert sorted(map(len, group.round(4_000, delay_ms=0).values())) == [3, 3]


def test_a_replacement_gets_what_was_lost_at_once_and_nothing_else_moves() -> None:
    """In the round of its arrival, without a second one."""
    group = PartitionLeader(12)
    before = group.settle("a", "b", "c")
    del group.holds["b"]
    group.round(1_000)
    group.holds["d"] = ()
    assert group.round(2_000) == {"a": before["a"], "c": before["c"], "d": before["b"]}


def test_a_replacement_that_was_there_first_gets_what_is_lost_at_once() -> None:
    """It had nothing yet when the one that it replaces was found gone: there is nobody to wait for."""
    group = PartitionLeader(12)
    group.settle("a", "b", "c")
    group.holds["d"] = ()
    assert group.round(1_000)["d"] == ()
    kept = {m: numbers for m, numbers in group.holds.items() if m in "ac"}
    del group.holds["b"]
    after = group.round(2_000)
    assert delayed_rebalance.deadline(group.leader_state) is None
    assert sorted(map(len, after.values())) == [4, 4, 4]
    assert all(set(kept[m]) <= set(after[m]) for m in kept)


def test_who_idles_replaces_one_that_departs_and_not_two() -> None:
    """More members than partitions: the idle one takes over at once; of two that depart, one is waited for."""
    group = PartitionLeader(3)
    before = group.settle("a", "b", "c", "d")
    assert before["d"] == ()
    del group.holds["c"]
    assert group.round(1_000)["d"] == before["c"]
    group = PartitionLeader(3)
    group.settle("a", "b", "c", "d")
    del group.holds["b"], group.holds["c"]
    assert group.round(1_000) == {"a": before["a"], "d": ()}
    assert delayed_rebalance.deadline(group.leader_state) == 31_000


def test_a_round_that_was_not_applied_counts_for_nothing() -> None:
    """Connect: previous := active.  The delay is not begun anew, and what was computed and never given is computed again."""
    group = PartitionLeader(12)
    before = group.settle("a", "b", "c")
    del group.holds["b"]
    kept = {"a": before["a"], "c": before["c"]}
    assert group.round(1_000, applied=False) == group.round(2_000, applied=False) == kept
    assert delayed_rebalance.deadline(group.leader_state) == 31_000
    group.holds["d"] = ()
    assert group.round(3_000, applied=False) == group.round(4_000) == {**kept, "d": before["b"]}


def test_what_two_claim_is_taken_from_both() -> None:
    """Also while somebody is waited for; it is given out when neither claims it any more."""
    group = PartitionLeader(6)
    group.settle("a", "b", "c")
    del group.holds["c"]
    group.round(1_000)
    group.since = {}
    group.holds = {"a": (0, 1), "b": (1, 3, 4)}
    assert group.round(2_000) == {"a": (0,), "b": (3, 4)}
    assert group.round(3_000) == {"a": (0, 1), "b": (3, 4)}


def test_what_comes_back_with_its_partitions_has_not_lost_them() -> None:
    """A claim of a lost partition is a holding."""
    group = PartitionLeader(4)
    before = group.settle("a", "b")
    del group.holds["b"]
    group.round(1_000)
    group.holds["z"] = before["b"]
    assert group.round(2_000) == {"a": before["a"], "z": before["b"]}
    assert delayed_rebalance.deadline(group.leader_state) is None


def test_a_deleted_topic_is_not_waited_for() -> None:
    """The delay ends when all that was lost is gone."""
    group = PartitionLeader(4)
    group.settle("a", "b")
    del group.holds["b"]
    group.round(1_000)
    group.topics = {}
    assert group.round(2_000) == {"a": ()}
    assert delayed_rebalance.deadline(group.leader_state) is None


def test_revoking_is_in_two_steps() -> None:
    """Taken from its owner in one round, given in the next."""
    group = PartitionLeader(4)
    group.settle("a")
    group.holds["b"] = ()
    assert group.round() == {"a": (0, 1), "b": ()}
    assert group.round() == {"a": (0, 1), "b": (2, 3)}


def test_a_second_revoking_round_in_a_row_waits_and_gives_out_what_is_free() -> None:
    """Nobody idles for the back-off's sake."""
    group = PartitionLeader(4)
    group.settle("a")
    group.holds |= {"b": ()}
    group.round(0)
    group.holds |= {"c": (), "d": ()}
    assert group.round(5) == {"a": (0, 1), "b": (2,), "c": (3,), "d": ()}
    assert delayed_rebalance.deadline(group.leader_state) == 45
    assert str(delayed_rebalance.reason(group.leader_state)) == "the back-off of revoking rounds is over"
    assert group.round(45)["a"] == (0,)
    assert group.round(46) == {"a": (0,), "b": (2,), "c": (3,), "d": (1,)}
    assert group.leader_state == LeaderState()


def test_the_reason_names_who_departed() -> None:
    """By member id, or however the shell calls it."""
    memory = LeaderState(B_GONE)
    assert str(delayed_rebalance.reason(memory)) == "the grace period of b is over"
    assert str(delayed_rebalance.reason(memory, {"b": "executor-3 on h"}.__getitem__)) == (
        "the grace period of executor-3 on h is over"
    )


def test_topics_read_in_part_wait_in_part() -> None:
    """Of the partitions that ``assign`` names, those of the departed wait, and no other partition appears."""
    group = PartitionLeader(9)
    group.only = {"t": [3, 7, 8]}
    before = group.settle("a", "b")
    assert sorted(number for numbers in before.values() for number in numbers) == [3, 7, 8]
    del group.holds["b"]
    assert group.round(1_000) == {"a": before["a"]}
    assert sorted(group.round(31_000)["a"]) == [3, 7, 8]


def test_racks_reach_the_assignor() -> None:
    """Of the partitions that are read, by their numbers in Kafka."""
    members = [JoinedMember(f"in-{rack}", rack, Subscription(("t",), rack=rack)) for rack in "xy"]
    where = {"t": [(), ("y",), (), ("x",)]}
    this = Round("cooperative-sticky", members, {"t": 4}, {}, {}, {"t": [1, 3]}, where)
    given_out = dict(delayed_rebalance.lead(LeaderState(), this, 0, DELAY_MS)[0])
    numbers = {name: [tp.partition for tp in mine] for name, mine in given_out.items()}
    assert numbers == {"in-x": [3], "in-y": [1]}


STEPS = st.lists(st.tuples(st.sampled_from(["come", "go", "wait", "grow"]), st.integers(1, 20)), max_size=15)


@given(STEPS)
def test_a_survivor_never_loses_while_somebody_is_waited_for_and_everything_is_owned_in_the_end(
    steps: list[tuple[str, int]],
) -> None:
    """Whoever comes and goes: no partition twice; none is taken during a delay; when all delays are over none is left out."""
    group, now_ms, names = PartitionLeader(7), 0, iter(f"m{n:02}" for n in range(99))
    group.settle(next(names), next(names))
    for step, n in steps:
        now_ms += n * 700
        if step == "come":
            group.holds[next(names)] = ()
        elif step == "go" and group.holds:
            del group.holds[sorted(group.holds)[n % len(group.holds)]]
        elif step == "grow":
            group.topics = {"t": group.topics["t"] + n % 3}
        before = dict(group.holds)
        after = group.round(now_ms)
        given_out = [number for numbers in after.values() for number in numbers]
        assert len(given_out) == len(set(given_out))
        if delayed_rebalance.deadline(group.leader_state) is not None:
            assert all(set(before[m]) <= set(after[m]) for m in after)
    for _ in range(4):
        now_ms += DELAY_MS
        after = group.round(now_ms)
    assert not group.holds or sorted(n for numbers in after.values() for n in numbers) == [*range(group.topics["t"])]
