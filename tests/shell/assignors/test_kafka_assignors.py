"""Kafka's own assignors as the oracle: exactly the same where they are exact, by laws and counts where they aren't.

Cases are made from their numbers, and every case that fails prints itself.  Some answers of Kafka's break the laws:
those are passed over in comparisons, and have a test each at the end, with what is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest

from sparkcohort.assignors import ASSIGNORS, MemberSubscription, find_assignor
from tests.kit.assignor_cases import (
    MOST_ROUNDS,
    broken,
    fresh,
    handed_over_early,
    imbalance,
    lived,
    mismatches,
    moved,
    ours,
    settle,
)
from tests.kit.kafka_assignors import Case, Given, KafkaAssignors, Raised

pytestmark = pytest.mark.thorough("Kafka's own assignors, in a JVM of their own")

MANY = 500
STICKY = [name for name in ASSIGNORS if name.endswith("sticky")]
EACH_STICKY = pytest.mark.parametrize("name", STICKY)


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAssignors]:
    """One JVM for all cases."""
    with KafkaAssignors() as running:
        yield running


def _unlike(kafka: KafkaAssignors, name: str, cases: Iterable[Case]) -> list[str]:
    """The cases in which ours and Kafka's differ."""
    return [
        f"{name}, case {number}:\n{case}\nKafka's {theirs}\nours    {mine}"
        for number, case in enumerate(cases)
        if (theirs := kafka.assign(name, case)) != (mine := ours(name)(case))
    ]


def _none(failed: list[str]) -> None:
    """Fails with the first of them, as it is."""
    assert not failed, failed[0]


# --- exactly ------------------------------------------------------------------------------------------


def test_range_is_kafkas_partition_for_partition(kafka: KafkaAssignors) -> None:
    """Static members, missing topics, unequal subscriptions, none."""
    _none(_unlike(kafka, "range", map(fresh, range(MANY))))


def test_range_with_racks_is_kafkas_partition_for_partition(kafka: KafkaAssignors) -> None:
    """Racks of replicas known, partly known, everywhere the same; in a good part of the cases they change something."""
    cases = [fresh(number, racks=known) for number in range(MANY) for known in ("some", "all")]
    _none(_unlike(kafka, "range", cases))
    changed = sum(find_assignor("range").assign(case.topics, case.members) != ours("range")(case) for case in cases)
    assert changed > len(cases) / 5


def test_range_keeps_topics_together_that_only_some_members_share(kafka: KafkaAssignors) -> None:
    """Co-partitioned by subscribers and by number of partitions, beside topics that are neither; many partitions."""
    racks = [("a", "b"), ("b", "c"), ("c",), ("a",), ("b",)]
    topics = {"t0": 30, "t1": 30, "t2": 30, "t3": 31, "t4": 30}
    where = {
        topic: [racks[(number * step) % 5] for number in range(topics[topic])] for step, topic in enumerate(topics)
    }
    homes = ("a", "b", "c", None)
    members = {
        f"m{number}": MemberSubscription(tuple(topics)[: 3 + number % 3], rack=homes[number % 4])
        for number in range(13)
    }
    _none(_unlike(kafka, "range", [Case(topics, members, where)]))


@pytest.mark.parametrize("racks", ["none", "some"])
def test_roundrobin_is_kafkas_partition_for_partition(kafka: KafkaAssignors, racks: str) -> None:
    """Racks change nothing."""
    cases = (fresh(number, racks="some" if racks == "some" else "none") for number in range(MANY))
    _none(_unlike(kafka, "roundrobin", cases))


@EACH_STICKY
def test_fresh_sticky_groups_are_kafkas_partition_for_partition(kafka: KafkaAssignors, name: str) -> None:
    """Without racks and with equal subscriptions."""
    _none(_unlike(kafka, name, (fresh(number, equal=True) for number in range(MANY))))


# --- by laws and counts ---------------------------------------------------------------------------------


class Compared(NamedTuple):
    """What ours and Kafka's made of a case, round by round."""

    case: Case
    ours: list[Given]
    kafkas: list[Given]

    def __str__(self) -> str:
        both = zip(("Kafka's", "ours"), (self.kafkas, self.ours), strict=True)
        return "\n".join([str(self.case), *(f"{who} {given}" for who, rounds in both for given in rounds)])


def _wrong(case: Case, name: str, rounds: list[Given]) -> list[str]:
    early = handed_over_early(case, rounds[0]) if find_assignor(name).cooperative else []
    return broken(case, rounds) + early


def _compared(kafka: KafkaAssignors, name: str, cases: list[Case]) -> list[Compared]:
    """Ours, which has to keep the laws and to be as balanced as Kafka's, beside Kafka's where that keeps them too."""
    found = []
    for case in cases:
        mine = settle(ours(name), case)[1]
        try:
            both = Compared(case, mine, settle(lambda now: kafka.assign(name, now), case)[1])
        except Raised:
            both = Compared(case, mine, [])
        assert _wrong(case, name, mine) == [], both
        assert len(mine) <= MOST_ROUNDS - 1, both
        if both.kafkas and not _wrong(case, name, both.kafkas):
            assert imbalance(mine[-1]) <= imbalance(both.kafkas[-1]), both
            if imbalance(mine[-1]) == imbalance(both.kafkas[-1]):
                found.append(both)
    assert len(found) > 0.9 * len(cases)
    return found


@EACH_STICKY
def test_groups_with_owners_move_no_more_than_kafkas(kafka: KafkaAssignors, name: str) -> None:
    """Members come, go, return late and change their minds; topics grow."""
    found = _compared(kafka, name, [lived(number) for number in range(MANY)])
    _none([str(each) for each in found if moved(each.case, each.ours[-1]) > moved(each.case, each.kafkas[-1])])
    assert sum(moved(each.case, each.ours[-1]) > 0 for each in found) > MANY / 8


@EACH_STICKY
@pytest.mark.parametrize("begun", [True, False], ids=["with owners", "fresh"])
def test_racks_match_no_worse_than_kafkas(kafka: KafkaAssignors, name: str, begun: bool) -> None:
    """Fresh groups and such with owners, where all racks are known; with as many mismatches, no more moves."""
    begin = lived if begun else fresh
    found = _compared(kafka, name, [begin(number, racks="all") for number in range(MANY)])
    counted = [(mismatches(each.case, each.ours[-1]), mismatches(each.case, each.kafkas[-1]), each) for each in found]
    _none([f"{mine} mismatches, Kafka's {theirs}\n{each}" for mine, theirs, each in counted if mine > theirs])
    alike = [each for mine, theirs, each in counted if mine == theirs]
    _none([str(each) for each in alike if moved(each.case, each.ours[-1]) > moved(each.case, each.kafkas[-1])])


# --- where Kafka's err ------------------------------------------------------------------------------------


def _claims(
    *claims: tuple[str, int, tuple[tuple[str, int], ...]], topics: tuple[str, ...]
) -> dict[str, MemberSubscription]:
    return {name: MemberSubscription(topics, owned, generation) for name, generation, owned in claims}


def test_who_keeps_more_depends_on_the_hash_of_its_name(kafka: KafkaAssignors) -> None:
    """In Kafka's: the same group under other names, in the same order, is divided otherwise.  Not in ours."""

    def group(*ids: str) -> Case:
        claims = ((ids[0], 1, (("t1", 0), ("t2", 0))), (ids[1], 1, (("t1", 1), ("t2", 1))), (ids[2], -1, ()))
        return Case({"t1": 2, "t2": 2}, _claims(*claims, topics=("t1", "t2")))

    short, long = group("a", "b", "c"), group("consumer1", "consumer2", "consumer3")
    for case, theirs in ((short, [2, 1, 0]), (long, [1, 2, 0])):
        assert [len(given) for given in kafka.assign("cooperative-sticky", case).values()] == theirs
        assert [len(given) for given in ours("cooperative-sticky")(case).values()] == [2, 1, 0]


@EACH_STICKY
def test_a_member_that_wants_nothing_gets_nothing(kafka: KafkaAssignors, name: str) -> None:
    """Kafka's gives partitions to a non-subscriber that is looked at first."""
    case = Case({"t": 4}, {"a": MemberSubscription(()), "b": MemberSubscription(("t",))})
    assert kafka.assign(name, case)["a"] == (("t", 0), ("t", 2))
    assert ours(name)(case) == {"a": (), "b": tuple(("t", number) for number in range(4))}


def test_a_stale_claim_does_not_win(kafka: KafkaAssignors) -> None:
    """In version 1 Kafka's takes t-0 from a, which claims it of generation 5, for b, which does so of generation 4."""
    claims = _claims(("a", 5, (("t", 0), ("t", 1))), ("b", 4, (("t", 0), ("t", 2))), topics=("t",))
    assert kafka.assign("cooperative-sticky", Case({"t": 4}, claims, version=1))["b"] == (("t", 0), ("t", 2))
    assert kafka.assign("cooperative-sticky", Case({"t": 4}, claims))["a"] == (("t", 0), ("t", 1))
    assert ours("cooperative-sticky")(Case({"t": 4}, claims)) == {"a": (("t", 0), ("t", 1)), "b": (("t", 2), ("t", 3))}


@EACH_STICKY
def test_a_topic_made_anew_with_fewer_partitions(kafka: KafkaAssignors, name: str) -> None:
    """Kafka's raises when all want the same, else gives out what doesn't exist any more."""
    old = _claims(("a", 1, (("t", 2), ("t", 3))), ("b", 1, (("t", 0), ("t", 1))), topics=("t",))
    equal = Case({"t": 2}, old)
    with pytest.raises(Raised, match="IllegalStateException"):
        kafka.assign(name, equal)
    unequal = Case({"t": 2, "u": 1}, old | {"c": MemberSubscription(("u",))})
    assert set(kafka.assign(name, unequal)["a"]) == {("t", 2), ("t", 3)}
    for case in (equal, unequal):
        rounds = settle(ours(name), case)[1]
        assert _wrong(case, name, rounds) == []
        assert [len(rounds[-1][member]) for member in ("a", "b")] == [1, 1]


def test_nobody_there(kafka: KafkaAssignors) -> None:
    """Kafka's raise without members, but for range."""
    nobody = Case({"t": 1}, {})
    assert kafka.assign("range", nobody) == {}
    for name in ("roundrobin", *STICKY):
        with pytest.raises(Raised, match=r"ArithmeticException|IllegalArgumentException"):
            kafka.assign(name, nobody)
        assert ours(name)(nobody) == {}


def test_nothing_is_handed_over_while_its_owner_has_it(kafka: KafkaAssignors) -> None:
    """m0 returns with old claims: Kafka's gives it t0 in the round in which m1, the owner, is told to give it up."""
    t0 = tuple(("t0", number) for number in range(6))
    members = {
        "m0": MemberSubscription(("t0",), t0, 0),
        "m1": MemberSubscription(("t0", "t1"), (*t0, ("t1", 0), ("t1", 1)), 2),
    }
    case = Case({"t0": 6, "t1": 9}, members)
    assert kafka.assign("cooperative-sticky", case)["m0"] == t0
    _, rounds = settle(ours("cooperative-sticky"), case)
    assert [given["m0"] for given in rounds] == [(), t0]


def test_a_group_comes_to_rest(kafka: KafkaAssignors) -> None:
    """With racks Kafka's is still taking partitions away after the four follow-up rounds that Kafka's test allows."""
    where = [("a",), ("a", "b", "c"), ("a",), (), ("a", "b"), ("a", "b", "c")]
    members = {
        "m0": MemberSubscription(("t0", "missing"), (("t0", 0), ("t0", 4)), 0, "i9"),
        "m1": MemberSubscription(("t0", "missing"), (("t0", 1), ("t0", 5)), 0, rack="a"),
        "m2": MemberSubscription(("missing",), (), 0, "i7"),
        "m4": MemberSubscription(("t0", "missing"), (("t0", 3),), 0, rack="b"),
    }
    case = Case({"t0": 6}, members, {"t0": where})
    assert len(settle(lambda now: kafka.assign("cooperative-sticky", now), case)[1]) == MOST_ROUNDS
    assert len(settle(ours("cooperative-sticky"), case)[1]) <= 2
