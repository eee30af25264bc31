"""Kafka's own assignors as the oracle: exactly the same where they are exact, by laws and counts where they aren't.

Cases are made from their numbers, and every case that fails prints itself.  Some answers of Kafka's break the laws: those
are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest

from sparkcohort.assignors import ASSIGNORS
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
    early = handed_over_early(case, rounds[0]) if ASSIGNORS[name].cooperative else []
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
