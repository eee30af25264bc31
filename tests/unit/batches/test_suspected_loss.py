"""What of a query's positions is suspected to be lost, and when it is believed."""

from __future__ import annotations

from typing import Any

import pytest

from sparkcohort.runtime.batches.suspected_loss import CONFIRMATIONS, LAG_S, Mismatches, SuspectedLosses, mismatches
from sparkcohort.runtime.protocol.partitions import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
START = {A0: 100, A1: 50, B0: 7}
WELL: dict[str, Any] = {
    "partitions": {A0, A1, B0},
    "ids_now": {"a": "one", "b": "two"},
    "ends": {A0: 100, A1: 80, B0: 7},
    "silent": {},
}
NOTHING = Mismatches(frozenset(), frozenset(), frozenset())


def compared(**otherwise: Any) -> Mismatches:
    """What is suspected of START where all is well but for this."""
    return mismatches(START, {"a": "one"}, **{**WELL, **otherwise})


@pytest.mark.parametrize(
    ("otherwise", "expected"),
    [
        ({}, NOTHING),
        ({"partitions": {A0, B0}}, NOTHING._replace(deleted=frozenset({A1}))),
        ({"ends": {A0: 99, A1: 50, B0: 7}}, NOTHING._replace(shorter=frozenset({A0}))),
        ({"ends": {A0: 99, A1: 49, B0: 0}, "silent": {A0: "no answer"}}, NOTHING._replace(shorter=frozenset({A1, B0}))),
        ({"ends": {}}, NOTHING),
        ({"ids_now": {"a": "other"}}, NOTHING._replace(recreated=frozenset({"a"}))),
        ({"ids_now": {"a": "other"}, "ends": {A0: 9, A1: 900, B0: 9}}, NOTHING._replace(recreated=frozenset({"a"}))),
        ({"ids_now": {"b": "whatever: it wasn't known before"}}, NOTHING),
        ({"ids_now": {}}, NOTHING),
        ({"partitions": {A0, B0}, "ends": {A1: 0}}, NOTHING._replace(deleted=frozenset({A1}))),
    ],
)
def test_positions_and_what_the_cluster_says(otherwise: dict[str, Any], expected: Mismatches) -> None:
    """Deleted, made anew whatever the new log's length, shorter; what nobody tells of now is no suspect."""
    assert compared(**otherwise) == expected


def told(*answers: tuple[bool, int, float]) -> list[bool]:
    """Whether it is believed after each answer: whether it was said, the answer's number, when."""
    doubts: SuspectedLosses[str] = SuspectedLosses()
    believed = []
    for said, number, now in answers:
        doubts = doubts.add_answer({"it"} if said else set(), number, now)
        believed.append("it" in doubts.believed(now))
    return believed


def test_a_loss_is_believed_when_it_has_been_said_often_and_long_enough() -> None:
    """Not by one answer that is looked at again and again, nor by many within a moment."""
    assert told(*((True, number, number * LAG_S / 2) for number in range(3))) == [False, False, True]
    assert told(*((True, 1, now) for now in (0.0, LAG_S, 9 * LAG_S))) == [False, False, False]
    assert told(*((True, number, 0.001 * number) for number in range(90))) == [False] * 90
    assert told(*((True, number, 2 * LAG_S * number) for number in range(CONFIRMATIONS))) == [False, False, True]


def test_one_answer_to_the_contrary_ends_the_doubt() -> None:
    """A leader that lags, and catches up, has lost nothing, however often."""
    assert told(*((number % 3 != 2, number, LAG_S * number) for number in range(30))) == [False] * 30
